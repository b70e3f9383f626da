"""Metrics: PromQL over samples in Parquet."""
