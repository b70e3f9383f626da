"""Where bytes are kept: a budget for artifacts and cached files on disk, object stores, and a cache of their Parquet
files.

It must not know works, attempts or sessions: a key names a file here, and only its owner knows what it means.
"""
