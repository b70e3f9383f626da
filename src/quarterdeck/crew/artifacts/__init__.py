"""Results on their way from a worker to a coordinator: written as Parquet on the worker's disk, served over HTTP,
fetched and verified.

Worker side: `writer`, `spool`, `route`. Coordinator side: `fetcher`, `fetched`. `format` is what both agree on.
"""
