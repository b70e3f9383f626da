"""What one query may use, and the error when it needs more."""

from dataclasses import dataclass

from quarterdeck.core.errors import ErrorCode, QuarterdeckError


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The same for all of them."""

    threads: int
    """More finish a single query sooner; queries that run side by side then compete."""
    memory_limit_bytes: int
    """A query that needs more fails, unless it may spill to disk. As many queries as the worker has slots may need it
    at once. DuckDB counts what it keeps for sorting, joining and grouping, not every single huge value."""
    idle_databases: int
    """How many are kept for the next query over the same files. Each has threads and some hundred kilobytes."""
    spill_bytes: int = 0
    """What may go to disk instead of memory, where a query is given a folder for that: each file and all of them have
    no more. With 0 a process writes no file."""


def no_memory(why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.RESOURCE_EXHAUSTED,
        "the query needs more memory than it may have",
        why,
        "read fewer rows or columns, or give the workers more with duckdb_memory_bytes",
        retryable=False,  # the limit is each query's own: it would be reached again
    )
