"""Compiled loops over blocks of samples; they release the interpreter and know no labels."""
