"""Stored samples: immutable Parquet files that any tool can read, written once, read in pieces, kept in memory a
while."""
