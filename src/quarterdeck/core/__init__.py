"""Pure logic that every capability stands on. No clock, no chance, no I/O: all of that comes in as arguments."""
