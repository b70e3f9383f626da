"""Samples from files of others: what is read here becomes segments elsewhere."""
