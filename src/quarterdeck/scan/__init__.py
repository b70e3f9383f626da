"""Scans: one SELECT over Parquet files wherever they are. Workers run it, and its rows are fetched as artifacts."""
