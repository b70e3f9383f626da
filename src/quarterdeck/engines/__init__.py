"""SQL engines: text and local files in, record batches out.

They know nothing of works, attempts, artifacts or object stores. They run in the caller's thread.
"""
