"""From the model to the product and back: series for the product's engine, and its answer beside the model's."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from quarterdeck.metrics.promql.blocks import STALE_BITS, SeriesBlock
from quarterdeck.metrics.promql.engine import Engine
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.histograms.hints import ResetHint
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.result import Result, Vector
from tests.differential.histogram_model.expressions import Vector as Query
from tests.differential.histogram_model.expressions import shown
from tests.differential.histogram_model.histogram import Histogram
from tests.differential.histogram_model.operators import Refused
from tests.differential.histogram_model.samples import Evaluation, Labels, Notes, Point, Value, World

_PLACE = re.compile(r" \(\d+:\d+\)$")
_MIXED_BUCKETS = re.compile(r'(exponential and custom buckets schemas for metric name) ".*"')
_NUMBER = re.compile(r"-?\d+\.\d{9,}(e[+-]\d+)?")
STALE = float(np.array([STALE_BITS], np.uint64).view(np.float64)[0])


@dataclass(frozen=True)
class Table:
    """An answer: values by labels and times, and notes."""

    cells: dict[tuple[Labels, int], Value]
    notes: frozenset[str]
    possible: frozenset[str] = frozenset()
    order_counts: bool = False
    """The values are those of the series in the order of their labels, one after the other."""


def source(world: World) -> MemorySource:
    """The series of a world for the product."""
    return MemorySource.of(_series(labels, points) for labels, points in world.series.items())


def _series(labels: Labels, points: tuple[Point, ...]) -> Series:
    values = np.array([_float(point.value) for point in points])
    histograms = np.full(len(points), None, object)
    for place, point in enumerate(points):
        if isinstance(point.value, Histogram):
            histograms[place] = product_histogram(point.value)
    has_any = any(isinstance(point.value, Histogram) for point in points)
    times = np.array([point.time_ms for point in points], np.int64)
    return Series(labels, times, values, histograms if has_any else None)


def _float(value: Value | None) -> float:
    if value is None:
        return STALE
    return value if isinstance(value, float) else 0.0


def product_histogram(histogram: Histogram) -> NativeHistogram:
    """The same for the product."""
    return NativeHistogram(
        histogram.schema,
        histogram.zero_threshold,
        histogram.zero_count,
        histogram.count,
        histogram.sum,
        tuple(sorted(histogram.positive.items())),
        tuple(sorted(histogram.negative.items())),
        histogram.bounds,
        ResetHint(histogram.hint),
    )


def model_histogram(histogram: NativeHistogram) -> Histogram:
    """The same for the model."""
    return Histogram(
        histogram.schema,
        histogram.zero_threshold,
        histogram.zero_count,
        histogram.count,
        histogram.total,
        dict(histogram.positive),
        dict(histogram.negative),
        histogram.custom_bounds,
        histogram.hint.value,
    )


def modelled(query: Query, world: World) -> Table | None:
    """The model's answer; None: the query is an error."""
    notes = Notes()
    cells: dict[tuple[Labels, int], Value] = {}
    try:
        for at_ms in world.times:
            for row in shown(query.rows(at_ms, Evaluation(world, notes))):
                cells[_same_labels(row.labels), at_ms] = row.value
    except Refused:
        return None
    return Table(cells, _notes(notes.certain), _notes(notes.possible), notes.order_counts)


def asked(engine: Engine, sources: list[MemorySource], query: str, world: World) -> Table | None:
    """The product's answer; None: the query is an error."""
    times = world.times
    try:
        if times.start_ms == times.end_ms:
            return _table(engine.instant(sources, query, times.start_ms))
        return _table(engine.range(sources, query, times.start_ms, times.end_ms, times.step_ms))
    except ExecutionError:
        return None


def _table(result: Result) -> Table:
    notes = [_PLACE.sub("", note).removeprefix("PromQL ") for note in (*result.warnings, *result.infos)]
    cells = {
        (_same_labels(labels), time_ms): number if histogram is None else model_histogram(histogram)
        for labels, time_ms, number, histogram in _cells(result)
    }
    return Table(cells, _notes(set(notes)))


def _cells(result: Result) -> Iterator[tuple[Labels, int, float, NativeHistogram | None]]:
    value = result.value
    if isinstance(value, Vector):
        histograms = [None] * len(value.labels) if value.histograms is None else value.histograms.tolist()
        for labels, number, histogram in zip(value.labels, value.values.tolist(), histograms, strict=True):
            yield labels, value.time_ms, number, histogram
        return
    assert isinstance(value, SeriesBlock)
    for labels, (low, high) in zip(value.axis.shown, pairwise(value.offsets.tolist()), strict=True):
        for place in range(low, high):
            histogram = None if value.histograms is None else value.histograms[place]
            yield labels, int(value.timestamps[place]), float(value.values[place]), histogram


def _same_labels(labels: Labels) -> Labels:
    """Numbers within labels, which `count_values` makes, to twelve digits: the last ones are another test's matter."""
    return tuple((name, _NUMBER.sub(lambda found: f"{float(found[0]):.12g}", value)) for name, value in labels)


def _notes(notes: set[str]) -> frozenset[str]:
    return frozenset(_MIXED_BUCKETS.sub(r"\1", note) for note in notes)


def difference(model: Table | None, product: Table | None) -> str | None:
    """What is not the same, if anything."""
    if model is None or product is None:
        if model is product:
            return None
        return f"the model has {'an error' if model is None else 'none'}, the product another opinion"
    for cell in sorted(model.cells.keys() | product.cells.keys()):
        expected, came = model.cells.get(cell), product.cells.get(cell)
        if not _same(expected, came):
            return f"{dict(cell[0])} at {cell[1]}:\n  model   {_show(expected)}\n  product {_show(came)}"
    missing = model.notes - product.notes
    surplus = product.notes - model.notes - model.possible
    if missing or surplus:
        return f"notes: missing {sorted(missing)}, not expected {sorted(surplus)}"
    return None


def _show(value: Value | None) -> str:
    if not isinstance(value, Histogram):
        return repr(value)
    more = f"positive {value.positive} negative {value.negative} bounds {value.bounds}"
    return f"{value} schema {value.schema} zero {value.zero_threshold} {value.hint} {more}"


def _same(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, Histogram) and isinstance(other, Histogram):
        shape = (one.schema, one.zero_threshold, one.bounds, one.hint)
        sides = ((one.positive, other.positive), (one.negative, other.negative))
        numbers = ((one.count, other.count), (one.sum, other.sum), (one.zero_count, other.zero_count))
        return (
            shape == (other.schema, other.zero_threshold, other.bounds, other.hint)
            and all(_near(*pair) for pair in numbers)
            and all(_near(a.get(i, 0.0), b.get(i, 0.0)) for a, b in sides for i in a.keys() | b.keys())
        )
    if isinstance(one, float) and isinstance(other, float):
        return _near(one, other)
    return one is None and other is None


def _near(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
