"""Searching: one SELECT over Parquet files wherever they are, run by a worker, its rows fetched as an artifact."""
