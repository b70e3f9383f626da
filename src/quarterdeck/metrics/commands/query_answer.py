"""An answer of the Prometheus HTTP API, read from JSON: series with their samples, or one number or text.

Values are also kept as the text that the server wrote, so that they are printed unchanged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    VECTOR = "vector"
    MATRIX = "matrix"
    SCALAR = "scalar"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """What is shown of a native histogram."""

    time_s: float
    count: str
    sum: str


@dataclass(frozen=True, slots=True)
class SeriesAnswer:
    labels: Mapping[str, str]
    times_s: Sequence[float]
    values: Sequence[str]
    """One for each time; the server writes NaN and infinities as words."""
    numbers: Sequence[float]
    """What the values are."""
    histograms: Sequence[HistogramSample] = ()

    @property
    def last(self) -> float:
        return self.numbers[-1] if self.numbers else math.nan

    @property
    def low(self) -> float:
        return min((number for number in self.numbers if not math.isnan(number)), default=math.nan)

    @property
    def high(self) -> float:
        return max((number for number in self.numbers if not math.isnan(number)), default=math.nan)


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    kind: Kind
    series: Sequence[SeriesAnswer]
    """Of a vector each has one sample."""
    single: tuple[float, str] | None
    """Time and value of a scalar or a string."""
    warnings: Sequence[str]
    infos: Sequence[str]
    explain: Any
    """What `explain=analyze` adds; None without it."""

    @property
    def has_histograms(self) -> bool:
        return any(one.histograms for one in self.series)


def read_answer(document: Any) -> QueryAnswer:
    """Raises KeyError, TypeError or ValueError for what is no answer."""
    data = document["data"]
    kind = Kind(data["resultType"])
    result = data["result"]
    single = None
    series: Sequence[SeriesAnswer] = ()
    if kind is Kind.VECTOR:
        series = [_of_vector(one) for one in result]
    elif kind is Kind.MATRIX:
        series = [_of_matrix(one) for one in result]
    else:
        single = float(result[0]), str(result[1])
    warnings, infos = read_notes(document)
    return QueryAnswer(kind, series, single, warnings, infos, data.get("explain"))


def read_notes(document: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Warnings and infos."""
    return list(map(str, document.get("warnings") or ())), list(map(str, document.get("infos") or ()))


def _of_vector(one: Any) -> SeriesAnswer:
    if "histogram" in one:
        return _series(one, (), (one["histogram"],))
    return _series(one, (one["value"],), ())


def _of_matrix(one: Any) -> SeriesAnswer:
    return _series(one, one.get("values") or (), one.get("histograms") or ())


def _series(one: Any, points: Sequence[Any], histograms: Sequence[Any]) -> SeriesAnswer:
    labels = {str(name): str(value) for name, value in one["metric"].items()}
    times_s, values = zip(*points, strict=True) if points else ((), ())
    numbers = tuple(map(float, values))
    return SeriesAnswer(labels, tuple(map(float, times_s)), values, numbers, tuple(map(_histogram, histograms)))


def _histogram(sample: Any) -> HistogramSample:
    time_s, histogram = sample
    return HistogramSample(float(time_s), str(histogram["count"]), str(histogram["sum"]))
