"""What a query answers."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, Objects, SeriesBlock
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import ROW_BYTES


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number at a time."""

    time_ms: int
    value: float


@dataclass(frozen=True, slots=True)
class String:
    """A string at a time."""

    time_ms: int
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Series with one sample each, all at the same time; the order is the query's (`sort`, `topk`)."""

    time_ms: int
    labels: tuple[Labels, ...]
    values: F64
    histograms: Objects | None = None


Value: TypeAlias = Scalar | String | Vector | SeriesBlock
"""A range query answers with a `SeriesBlock`, sorted by labels; so does an instant query of a range vector."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The value, and what the reader should know about it, in the order of the texts."""

    value: Value
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """About what the value takes."""
        match self.value:
            case SeriesBlock() as block:
                return block.size_bytes + len(block.axis) * ROW_BYTES
            case Vector() as vector:
                return len(vector.labels) * (ROW_BYTES + vector.values.itemsize)
            case _:
                return 0


def limited(result: Result, limit: int, warning: str) -> Result:
    """At most so many series, and the warning if there were more; 0 takes all."""
    value = result.value
    if not limit:
        return result
    if isinstance(value, SeriesBlock) and len(value.axis) > limit:
        return replace(result, value=value.take(np.arange(limit)), warnings=(*result.warnings, warning))
    if isinstance(value, Vector) and len(value.labels) > limit:
        histograms = None if value.histograms is None else value.histograms[:limit]
        cut = Vector(value.time_ms, value.labels[:limit], value.values[:limit], histograms)
        return replace(result, value=cut, warnings=(*result.warnings, warning))
    return result
