"""`Universe`: all segments of a tenant at one moment, those that a selector may find its samples in, and which metrics
they have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.promql.blocks import I64
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.segments.label_index import Estimate, LabelIndex, MetricSpan

_READ_SHARE: Final = 32
"""Reading a row takes about such a part of what computing with it takes; nothing, once it is in memory."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that may have samples of a selector, and about how many rows reading it is worth."""

    segment: Segment
    rows: int

    @property
    def series(self) -> int:
        """About how many it has of those: all series of a segment have about as many rows."""
        return -(-self.rows * self.segment.series_count // max(1, self.segment.row_count))


@dataclass(frozen=True, slots=True)
class MetricRange:
    """What the segments have of one metric."""

    metric: str
    samples: int
    """One that was imported twice counts twice."""
    series: int | None
    """At least so many; None where a segment of an earlier release does not tell."""
    series_are_all: bool
    """Whether there are exactly so many."""
    first_ms: int
    last_ms: int
    times_are_exact: bool
    """False where a segment of an earlier release tells only when the samples of all its metrics are: those of this one
    are within."""


@dataclass(frozen=True, eq=False)
class Universe:
    """See the module. It does not change; a later one has another version."""

    version: int = 0
    segments: tuple[Segment, ...] = field(default=())

    @cached_property
    def _min_ts(self) -> I64:
        return np.array([segment.min_ts_ms for segment in self.segments], np.int64)

    @cached_property
    def _max_ts(self) -> I64:
        return np.array([segment.max_ts_ms for segment in self.segments], np.int64)

    @cached_property
    def metrics(self) -> Mapping[str, MetricRange]:
        """All metrics by name, in the order of their names. It takes a moment for each segment when it is first asked
        for."""
        gathered: dict[str, _Gathered] = {}
        for segment in self.segments:
            index = index_of(segment)
            for metric, rows in index.metrics.items():
                if metric:
                    gathered.setdefault(metric, _Gathered()).add(segment, rows, index.spans.get(metric))
        return {metric: gathered[metric].seen(metric) for metric in sorted(gathered)}

    def within(self, start_ms: int, end_ms: int) -> list[Segment]:
        """Those with samples between these times, both included."""
        there = np.flatnonzero((self._max_ts >= start_ms) & (self._min_ts <= end_ms))
        return [self.segments[at] for at in there.tolist()]

    def candidates(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Candidate]:
        """Those that may have samples of series that match, between these times."""
        found = ((segment, index_of(segment).estimate(matchers)) for segment in self.within(start_ms, end_ms))
        return [
            Candidate(segment, _worth(segment, estimate, start_ms, end_ms))
            for segment, estimate in found
            if estimate is not None
        ]


class _Gathered:
    """What is known of one metric so far."""

    def __init__(self) -> None:
        self._samples = 0
        self._first_ms, self._last_ms = 2**63, -(2**63)
        self._exact = True
        self._series: dict[int, dict[int, int]] = {}
        """By the number of shards and the shard: the same series is always in the same one."""
        self._told = 0

    def add(self, segment: Segment, rows: int, span: MetricSpan | None) -> None:
        self._samples += rows
        self._first_ms = min(self._first_ms, segment.min_ts_ms if span is None else span.first_ms)
        self._last_ms = max(self._last_ms, segment.max_ts_ms if span is None else span.last_ms)
        if span is None:
            self._exact = False
            return
        self._told += 1
        shards = self._series.setdefault(segment.shard_count, {})
        shards[segment.shard] = max(shards.get(segment.shard, 0), span.series)

    def seen(self, metric: str) -> MetricRange:
        series = max((sum(shards.values()) for shards in self._series.values()), default=0)
        # Each shard was seen once, and all were cut alike: nothing was counted twice, and nothing is missing.
        is_all = len(self._series) == 1 and self._told == sum(map(len, self._series.values()))
        return MetricRange(
            metric,
            self._samples,
            series if self._exact else None,
            is_all and self._exact,
            self._first_ms,
            self._last_ms,
            self._exact,
        )


def index_of(segment: Segment) -> LabelIndex:
    """Which metrics and label values a segment has."""
    return _decoded(segment.label_index)


def _worth(segment: Segment, estimate: Estimate, start_ms: int, end_ms: int) -> int:
    """The rows that are computed with, and a small share of those that have to be read to find them."""
    length_ms = segment.max_ts_ms - segment.min_ts_ms + 1
    wanted_ms = min(segment.max_ts_ms, end_ms) - max(segment.min_ts_ms, start_ms) + 1
    return estimate.rows * wanted_ms // length_ms + estimate.metric_rows // _READ_SHARE + 1


@lru_cache(maxsize=20_000)
def _decoded(data: bytes) -> LabelIndex:
    return LabelIndex.decoded(data)
