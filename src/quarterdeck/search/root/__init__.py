"""One search from its request to its answer: chunks, workers reserved for it, and what comes back."""
