"""The samples that a script has loaded so far."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from quarterdeck.metrics.promql.blocks import STALE_BITS
from quarterdeck.metrics.promql.labels import BUCKET, METRIC_NAME, Labels, drop, get, replace
from quarterdeck.metrics.promql.memory import MemorySource, Series
from tests.conformance.histogram_text import HistogramText, from_classic
from tests.conformance.notation import Mark, Point
from tests.conformance.script import Load
from tests.conformance.stored_histograms import as_stored

_SUFFIXES = ("_bucket", "_count", "_sum")


@dataclass(slots=True)
class Samples:
    """Grows with each `load`; a `clear` starts a new one."""

    _series: dict[Labels, dict[int, Point]] = field(default_factory=dict[Labels, dict[int, Point]])
    _starts: dict[Labels, dict[int, int]] = field(default_factory=dict[Labels, dict[int, int]])
    """Start timestamps, of the samples that have one."""

    def load(self, load: Load) -> None:
        """Add samples. `ValueError` when a sample is there already and has another value.

        Of two lines for one series within a load the last one counts: upstream does it so, and its scripts rely on it.
        """
        for series in {series.labels: series for series in load.series}.values():
            times = range(0, load.interval_ms * len(series.points), load.interval_ms)
            self._add(series.labels, zip(times, series.points, strict=True))
            if series.start_offsets_ms is not None:
                pairs = zip(times, series.start_offsets_ms, strict=True)
                starts = {time: time + offset for time, offset in pairs if offset is not None}
                self._starts.setdefault(series.labels, {}).update(starts)
        if load.with_custom_buckets:
            for labels, points in _with_custom_buckets(load).items():
                self._add(labels, points.items())

    def series(self) -> tuple[Series, ...]:
        """All samples so far."""
        return tuple(self._arrays(labels, points) for labels, points in self._series.items())

    def source(self) -> MemorySource:
        """As a source that an engine can select from."""
        return MemorySource.of(self.series())

    def _add(self, labels: Labels, points: Iterable[tuple[int, Point]]) -> None:
        mine = self._series.setdefault(labels, {})
        for time, point in points:
            if point is Mark.OMITTED:
                continue
            before = mine.setdefault(time, point)
            if before != point and not (before != before and point != point):
                raise ValueError(f"{dict(labels)} has two samples at {time} ms: {before} and {point}")

    def _arrays(self, labels: Labels, points: dict[int, Point]) -> Series:
        ordered = sorted(points.items(), key=lambda item: item[0])
        values = np.array([point if isinstance(point, float) else 0.0 for _, point in ordered], dtype=np.float64)
        stale = np.array([point is Mark.STALE for _, point in ordered], dtype=np.bool_)
        values.view(np.uint64)[stale] = STALE_BITS
        histograms = np.full(len(ordered), None, dtype=object)
        found = (point.histogram if isinstance(point, HistogramText) else None for _, point in ordered)
        for place, histogram in enumerate(as_stored(found)):
            histograms[place] = histogram
        starts = self._starts.get(labels)
        return Series(
            labels,
            np.array([time for time, _ in ordered], dtype=np.int64),
            values,
            histograms if any(isinstance(point, HistogramText) for _, point in ordered) else None,
            None if starts is None else np.array([starts.get(time, 0) for time, _ in ordered], dtype=np.int64),
        )


@dataclass(slots=True)
class _Classic:
    """A classic histogram at one time, as far as its series were read."""

    buckets: dict[float, float] = field(default_factory=dict[float, float])
    count: float | None = None
    total: float | None = None


def _with_custom_buckets(load: Load) -> dict[Labels, dict[int, Point]]:
    """The native histograms with custom bounds that the classic ones of a `load_with_nhcb` stand for."""
    found: dict[Labels, dict[int, _Classic]] = {}
    for series in load.series:
        name = get(series.labels, METRIC_NAME)
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)
        bound = _bound(series.labels)
        if suffix is None or (suffix == "_bucket" and bound is None):
            continue
        base = replace(drop(series.labels, frozenset({BUCKET})), [(METRIC_NAME, name.removesuffix(suffix))])
        at = found.setdefault(base, {})
        for place, point in enumerate(series.points):
            if not isinstance(point, float):
                continue
            classic = at.setdefault(place * load.interval_ms, _Classic())
            if suffix == "_count":
                classic.count = point
            elif suffix == "_sum":
                classic.total = point
            elif bound is not None:
                classic.buckets[bound] = point
    return {
        labels: {time: from_classic(one.buckets.items(), one.count, one.total) for time, one in at.items()}
        for labels, at in found.items()
    }


def _bound(labels: Labels) -> float | None:
    """The upper bound of a bucket; None when there is none that can be read."""
    try:
        bound = float(get(labels, BUCKET))
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
