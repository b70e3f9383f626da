"""`Universe`: all segments of a tenant at one moment, and those that a selector may find its samples in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.promql.blocks import I64
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.segments.label_index import Estimate, LabelIndex

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
