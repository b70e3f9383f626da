"""The metrics of `sample-data`: some hours of a small web site, the same for the same seed and the same end.

There is something to find in them: load that comes and goes, an instance that was away and began to count anew, and a
quarter of an hour with slow answers and errors.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.importing.batches import SampleBatch
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.blocks import F64, I64, Bool, Objects
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, from_mapping

INTERVAL_S: Final = 15
INSTANCES: Final = {"api": ("api-1", "api-2", "api-3"), "web": ("web-1", "web-2"), "db": ("db-1",)}
SLOW_S: Final = (3000, 2100)
"""So long before the end answers begin and cease to be slow."""
_AWAY: Final = "api-2"
_AWAY_S: Final = (5400, 4800)
_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, np.inf)
_CODES: Final = {"200": 0.94, "404": 0.055, "500": 0.005}
_METHODS: Final = {"GET": 0.8, "POST": 0.2}
_SPREAD: Final = 0.8
"""Of the logarithm of a duration."""
_SCHEMA: Final = 2
_BUCKETS: Final = np.arange(-34, 18)
"""Of native histograms with that schema: from some milliseconds to some twenty seconds."""
_SPARSE: Final = 4
"""Native histograms have every fourth sample: a minute."""

_ABOUT: Final = (
    ("up", "gauge", "Whether the instance was reached: 1 or 0.", ""),
    ("http_requests", "counter", "Requests that were answered, by method and status.", ""),
    ("http_request_duration_seconds", "histogram", "How long answers took.", "seconds"),
    ("rpc_duration_seconds", "histogram", "How long calls between services took, as a native histogram.", "seconds"),
    ("process_resident_memory_bytes", "gauge", "Memory of the process.", "bytes"),
    ("process_cpu_seconds", "counter", "Processor time of the process.", "seconds"),
    ("queue_depth", "gauge", "Jobs that wait.", ""),
    ("room_temperature_celsius", "gauge", "By a sensor that says something every few minutes.", "celsius"),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Series:
    labels: Labels
    times: I64
    values: F64
    histograms: Objects | None = None


class SampleMetrics:
    """A `SampleReader` of samples that are made up."""

    def __init__(self, end_s: int, hours: float, seed: int) -> None:
        self.size_bytes = self.read_bytes = 1
        last_s = end_s // INTERVAL_S * INTERVAL_S
        count = int(hours * 3600) // INTERVAL_S + 1
        self._times_s: Final = last_s - INTERVAL_S * np.arange(count - 1, -1, -1, dtype=np.int64)
        self._chance: Final = np.random.default_rng(seed)
        self._slow: Final[Bool] = self._between(SLOW_S)
        self._away: Final[Bool] = self._between(_AWAY_S)

    @property
    def metadata(self) -> Mapping[str, MetricMetadata]:
        return {metric: MetricMetadata(metric, kind, text, unit) for metric, kind, text, unit in _ABOUT}

    def batches(self) -> Iterator[SampleBatch]:
        """All of it: some hundred thousand samples."""
        series = list(self._series())
        counts = [one.times.size for one in series]
        histograms: Objects = np.full(sum(counts), None, object)
        for start, one in zip(np.cumsum([0, *counts]).tolist(), series, strict=False):
            if one.histograms is not None:
                histograms[start : start + one.times.size] = one.histograms
        yield SampleBatch(
            tuple(one.labels for one in series),
            np.repeat(np.arange(len(series), dtype=np.int32), counts),
            np.concatenate([one.times for one in series]) * 1000,
            np.concatenate([one.values for one in series]),
            histograms,
        )

    def _series(self) -> Iterator[_Series]:
        for job, instances in INSTANCES.items():
            for instance in instances:
                away = self._away if instance == _AWAY else np.zeros_like(self._away)
                place = {"job": job, "instance": instance}
                yield self._kept("up", place, np.where(away, 0.0, 1.0))
                yield from self._process(place, away)
                if job != "db":
                    yield from self._answers(place, away)
                if job == "api":
                    yield self._calls(place, away)
        for queue, size in (("mail", 20.0), ("thumbnails", 60.0)):
            depth = size * self._load() * (1 + 3 * self._slow) * self._chance.uniform(0.7, 1.3, self._times_s.size)
            yield self._kept("queue_depth", {"queue": queue}, np.floor(depth))
        for room, warmth in (("north", 21.0), ("south", 23.5)):
            heat = warmth + 2 * self._load() + self._chance.normal(0, 0.1, self._times_s.size)
            often = np.arange(self._times_s.size) % 12 != 0
            yield self._kept("room_temperature_celsius", {"room": room}, np.round(heat, 1), often)

    def _process(self, place: Mapping[str, str], away: Bool) -> Iterator[_Series]:
        busy = np.clip(0.2 * self._load() + 0.3 * self._slow + self._noise(0.03), 0.01, 1.0)
        yield self._kept("process_cpu_seconds_total", place, self._counted(busy * INTERVAL_S, away), away)
        grown = (np.arange(self._times_s.size) % 480) / 480
        memory = 180e6 + 60e6 * grown + 20e6 * self._load() + self._noise(2e6)
        yield self._kept("process_resident_memory_bytes", place, np.floor(memory), away)

    def _answers(self, place: Mapping[str, str], away: Bool) -> Iterator[_Series]:
        rate = 40 * self._load() if place["job"] == "api" else 25 * self._load()
        answered = np.zeros(self._times_s.size)
        for method, method_share in _METHODS.items():
            for code, code_share in _CODES.items():
                share = code_share * np.where(self._slow & (code == "500"), 20, 1)
                new = self._chance.poisson(rate * method_share * share * INTERVAL_S).astype(np.float64)
                answered += np.where(away, 0, new)
                named = {**place, "method": method, "code": code}
                yield self._kept("http_requests_total", named, self._counted(new, away), away)
        name = "http_request_duration_seconds"
        middle: F64 = np.where(self._slow, math.log(0.6), math.log(0.06))
        for bound in _BOUNDS_S:
            new = np.round(answered * _share_below(math.log(bound) - middle))
            shown = "+Inf" if np.isinf(bound) else f"{bound:g}"
            yield self._kept(f"{name}_bucket", {**place, "le": shown}, self._counted(new, away), away)
        yield self._kept(f"{name}_count", place, self._counted(answered, away), away)
        taken = answered * np.exp(middle + _SPREAD**2 / 2)
        yield self._kept(f"{name}_sum", place, self._counted(np.round(taken, 3), away), away)

    def _calls(self, place: Mapping[str, str], away: Bool) -> _Series:
        """A native histogram. These are an object each, and so there are few of them."""
        middle: F64 = np.where(self._slow, math.log(0.2), math.log(0.02))
        called = self._chance.poisson(30 * self._load() * INTERVAL_S).astype(np.float64)
        bounds: F64 = math.log(2.0) * _BUCKETS / 2**_SCHEMA
        below = _share_below(bounds[None, :] - middle[:, None])
        new: F64 = np.round(called[:, None] * np.diff(below, axis=1, prepend=0.0))
        counts = np.stack([self._counted(new[:, at], away) for at in range(_BUCKETS.size)], axis=1)
        sums = self._counted(new.sum(axis=1) * np.exp(middle + _SPREAD**2 / 2), away)
        shown = np.flatnonzero(~away & (np.arange(self._times_s.size) % _SPARSE == 0))
        filled = np.flatnonzero(counts.any(axis=0))
        indices: list[int] = _BUCKETS[filled].tolist()
        found: Objects = np.full(shown.size, None, object)
        rows: list[list[float]] = counts[np.ix_(shown, filled)].tolist()
        for at, (row, total) in enumerate(zip(rows, sums[shown].tolist(), strict=True)):
            positive = tuple(zip(indices, row, strict=True))
            found[at] = NativeHistogram(schema=_SCHEMA, count=sum(row), total=total, positive=positive)
        times = self._times_s[shown]
        return _Series(_labels("rpc_duration_seconds", place), times, np.zeros(shown.size), found)

    # Shapes

    def _load(self) -> F64:
        """About 1: more by day than by night, and a wave of half an hour."""
        day = np.sin(2 * np.pi * (self._times_s % 86_400 / 86_400 - 1 / 3))
        return 1 + 0.4 * day + 0.2 * np.sin(2 * np.pi * self._times_s / 1800)

    def _noise(self, size: float) -> F64:
        return self._chance.normal(0, size, self._times_s.size)

    def _between(self, before_end_s: tuple[int, int]) -> Bool:
        first, last = before_end_s
        before = self._times_s[-1] - self._times_s
        return (before <= first) & (before > last)

    def _counted(self, new: F64, away: Bool) -> F64:
        """A counter of what was new each time, which begins anew after the instance was away."""
        counts = np.cumsum(np.where(away, 0.0, new))
        back = np.flatnonzero(away)
        if back.size and back[-1] + 1 < counts.size:
            counts[back[-1] + 1 :] -= counts[back[-1]]
        return counts

    def _kept(self, metric: str, more: Mapping[str, str], values: F64, missing: Bool | None = None) -> _Series:
        there = slice(None) if missing is None else ~missing
        return _Series(_labels(metric, more), self._times_s[there], values[there])


def _labels(metric: str, more: Mapping[str, str]) -> Labels:
    return from_mapping({**more, METRIC_NAME: metric})


def _share_below(distance: F64) -> F64:
    """Of values whose logarithms are spread about a middle, the share below one that is so far from it: a logistic
    curve, which is near enough to the bell's."""
    share: F64 = 1 / (1 + np.exp(-1.702 * np.minimum(distance / _SPREAD, 50.0)))
    return share
