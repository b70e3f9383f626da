"""What a query answers."""

from dataclasses import dataclass
from typing import TypeAlias

from quarterdeck.metrics.promql.blocks import F64, Objects, SeriesBlock
from quarterdeck.metrics.promql.labels import Labels


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
