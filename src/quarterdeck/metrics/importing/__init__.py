"""Samples from files of other programs: they are read here, and become segments elsewhere."""
