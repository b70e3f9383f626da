"""Giving work out and getting results back: the drivers around the machines, and the ports they stand on."""
