"""Where bytes are kept: a budget for artifacts and cached files on disk, object stores, a cache of their Parquet files.

It must not know works, attempts or sessions: a key names a file here, and what it means is its owner's business.
"""
