"""Leaves: the parts of a query that are evaluated where the samples are, series by series.

A leaf (`BaseExpr`) is a selector with what stands above it as long as each series can be computed by itself, and the
aggregation on top where its partial results can be put together. Its samples may be split into shards by series, never
by time: every shard evaluates the same leaf, and `merge` says how the answers come together.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import cast

import xxhash

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.spans import Span


class Merge(StrEnum):
    """How the answers of a leaf's shards come together."""

    UNION = "union"
    """Each series is whole in one shard: all of them, sorted by labels."""

    COMBINE = "combine"
    """Partial aggregates of the same group are combined."""

    ADD = "add"
    """Counts of the same series are added."""

    SAMPLES = "samples"
    """Stored samples, as they are (`up[5m]` by itself)."""


@dataclass(frozen=True, slots=True)
class BaseExpr:
    """A leaf: what to evaluate, at which times, and how its shards come together."""

    plan: pn.Plan
    grid: Grid
    merge: Merge
    start: int
    """Where it begins in the text of the query."""
    scope: int
    """Which part of the plan steps through it together; leaves of different scopes are read at different paces."""

    @property
    def id(self) -> str:
        """Equal for equal leaves of any query; the same on every machine."""
        grid = self.grid
        return xxhash.xxh64_hexdigest(
            f"{canonical(self.plan)} {self.merge} {grid.start_ms} {grid.step_ms} {grid.count}".encode()
        )


def canonical(plan: pn.Plan) -> str:
    """One text for all plans that compute the same, whatever they look like in the query.

    >>> canonical(pn.Negate(pn.Number(1.0), is_scalar=True))
    'Negate(Number(3ff0000000000000) True)'
    """
    return _show(plan)


def places(plan: pn.Plan, start: int) -> tuple[tuple[int, int], ...]:
    """Where the parts of a plan stand in the text, counted from `start`: notes about them name these places."""
    found: list[tuple[int, int]] = []
    for node in pn.walk(plan):
        for part in fields(node):
            value = getattr(node, part.name)
            spans = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            found += [(span.start - start, span.end - start) for span in spans if isinstance(span, Span)]
    return tuple(found)


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + " ".join(_show(item) for item in cast("tuple[object, ...]", value)) + "]"
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "__dataclass_fields__"):
        shown = (_show(getattr(value, part.name)) for part in fields(cast("pn.Plan", value)) if part.compare)
        return f"{type(value).__name__}({' '.join(shown)})"
    return repr(value) if isinstance(value, str) and not isinstance(value, StrEnum) else str(value)
