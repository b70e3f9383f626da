"""A new DuckDB database in memory, as every engine wants it."""

import duckdb


def open_database(
    *, threads: int, memory_limit_bytes: int, temp_directory: str = "", spill_bytes: int = 0
) -> duckdb.DuckDBPyConnection:
    """Without a folder for temporary files, what does not fit into memory fails; in one there are no more bytes than
    these, if any are named."""
    database = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "async_threads": 0,  # they read from the network; for local files there is nothing for them to do
            "memory_limit": f"{memory_limit_bytes} bytes",
            "temp_directory": temp_directory,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_persistent_secrets": False,
        },
    )
    if spill_bytes:
        database.execute(f"SET max_temp_directory_size = '{spill_bytes} bytes'")
    database.execute("SET GLOBAL TimeZone = 'UTC'")  # on every worker a day begins at the same moment
    return database
