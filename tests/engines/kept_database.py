"""A DuckDB database that is kept as long as this process, for what tests do beside the engines: they write files, ask
DuckDB alone, or plan in place of a process. A new database takes 12 ms, which is more than most of that does.

Each use has a connection of its own: its settings, temporary tables and views end with it. Nobody changes what is
global.
"""

import atexit
from functools import cache

import duckdb

from quarterdeck.engines.duckdb_database import open_database

_MEMORY_BYTES = 256 * 1024 * 1024


def connected() -> duckdb.DuckDBPyConnection:
    """To be closed by who asks."""
    return _kept().cursor()


@cache
def _kept() -> duckdb.DuckDBPyConnection:
    database = open_database(threads=1, memory_limit_bytes=_MEMORY_BYTES)
    database.execute("SET GLOBAL enable_external_file_cache = false")  # tests write files again
    atexit.register(database.close)
    return database
