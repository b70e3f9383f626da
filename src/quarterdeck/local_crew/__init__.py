"""A crew of processes on this machine: planned, started, watched, and ended."""
