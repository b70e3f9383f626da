"""What a SELECT over `files` becomes, in words.

A plan travels as JSON from the process that parses to the coordinator, and parts of it on to workers.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from quarterdeck.engines.sql_aggregates import Merge
from quarterdeck.engines.sql_way import Aggregate, Way


@dataclass(frozen=True, slots=True)
class PartChecks:
    """What whoever knows the columns of the files looks at, before it runs a part."""

    whole_sql: str
    """As it was asked: DuckDB says what is wrong with it, and which columns its answer has."""
    scope_sql: str
    """Gives all columns that expressions may name."""
    probe_sql: str | None
    """Gives columns whose types the merge has to know."""
    names: tuple[str, ...] | None
    """Of columns of the files that it may read, in lower case; None is all of them, in their order."""
    not_columns: tuple[str, ...]
    """Names that were taken for columns of the result, in lower case."""
    keeps_types: bool = True
    """Whether its rows are told in types that lose nothing: they are to be merged."""


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """How the rows of parts become one answer."""

    outer_sql: str
    is_grouped: bool
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    way: Way
    part_sql: str
    why: str = ""
    offset: int = 0
    limit: int | None = None
    checks: PartChecks | None = None
    merge: MergeOrder | None = None
    advice: tuple[str, str] | None = None
    """SQL for the parts and SQL to merge their rows, which somebody may want to write who has it not divided."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, payload: bytes) -> "Plan":
        found = json.loads(payload)
        found["way"] = Way(found["way"])
        if found["checks"] is not None:
            found["checks"] = decode_checks(found["checks"])
        if found["merge"] is not None:
            found["merge"] = decode_merge(found["merge"])
        if found["advice"] is not None:
            found["advice"] = tuple(found["advice"])
        return cls(**found)


def decode_checks(found: dict[str, Any]) -> PartChecks:
    names = found["names"]
    found["names"] = None if names is None else tuple(names)
    found["not_columns"] = tuple(found["not_columns"])
    return PartChecks(**found)


def decode_merge(found: dict[str, Any]) -> MergeOrder:
    aggregates: list[dict[str, Any]] = [{**each, "merge": Merge(each["merge"])} for each in found["aggregates"]]
    found["aggregates"] = tuple(Aggregate(**each) for each in aggregates)
    found["keys"] = tuple(found["keys"])
    return MergeOrder(**found)
