"""The worker process: it wires what the other packages have, and decides nothing itself."""
