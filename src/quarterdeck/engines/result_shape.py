"""How wide and how deep the rows of a result may be. Its columns must have different names.

A few words of SQL double the columns of a result (`SELECT *, *` of the same), or the fields of a struct, again and
again. Each column costs every process on its way: its place in an artifact, and its place in each row of the answer.
Twice as many take three times as long: 8,000 take some seconds, 32,000 minutes, in which nothing can stop them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

MAX_FIELDS: Final = 10_000
"""Columns, and what they are made of: the fields of structs, the keys and values of maps, the values of lists."""
MAX_TYPE_DEPTH: Final = 32
"""Lists, structs and maps within each other. Parquet takes two steps for a list, and pyarrow reads 100 of them."""
_types: Final[Any] = pyarrow.types
_NAMED: Final = 5
"""Columns that an error names."""


def check_shape(schema: Any) -> None:
    """Raises `QuarterdeckError` for a `pyarrow.Schema` that nobody should write or read."""
    fields = 0
    left = [(schema, 0)]
    while left:
        above, depth = left.pop()
        if depth > MAX_TYPE_DEPTH:
            why = f"its values stand more than {MAX_TYPE_DEPTH} deep in lists, structs and maps within each other"
            raise _refused(why, "take out of them what you need in the SQL, or cast them to JSON")
        count = len(above) if above is schema else above.num_fields
        fields += count
        if fields > MAX_FIELDS:
            why = f"it has more than {MAX_FIELDS:,} columns and fields of columns"
            raise _refused(why, "name those that you need in the SQL, in several scans if you need them all")
        left.extend((above.field(place).type, depth + 1) for place in range(count))


def _refused(why: str, next_step: str) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.WORK_FAILED, "the result was not computed", why, next_step)


def insist_writable(schema: Any) -> None:
    """Raises for columns that Parquet, in which results travel, has no form for."""
    for column in schema:
        left = [column.type]
        while left:
            kind = left.pop()
            word = "INTERVAL" if _types.is_interval(kind) else "UNION" if _types.is_union(kind) else None
            if word is not None:
                which = "what it sorts or groups by" if column.name.startswith("__") else f"column {column.name}"
                seconds = " (epoch(x) gives its seconds)" if word == "INTERVAL" else ""
                raise QuarterdeckError(
                    ErrorCode.WORK_FAILED,
                    "the result was not written",
                    f"{which} is of the type {word}: results travel as Parquet, which has no such type",
                    f"cast it in the SQL, to VARCHAR for example{seconds}",
                )
            left.extend(kind.field(place).type for place in range(kind.num_fields))


def insist_names(names: Sequence[str]) -> None:
    """Parquet would take two columns of one name, and no reader could tell them apart."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "the result was not written",
            f"more than one of its columns is called {', '.join(twice[:_NAMED])}{', ...' if twice[_NAMED:] else ''}",
            "give them different names with AS",
        )
