"""`Universe`: all segments of a tenant at one moment, and those that a selector may find its samples in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.promql.blocks import I64
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.segments.label_index import LabelIndex


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment that may have samples of a selector, and about how many rows it has of those metrics."""

    segment: Segment
    rows: int


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
        found = ((segment, index_of(segment).rows_of(matchers)) for segment in self.within(start_ms, end_ms))
        return [Candidate(segment, rows) for segment, rows in found if rows]


def index_of(segment: Segment) -> LabelIndex:
    """Which metrics and label values a segment has."""
    return _decoded(segment.label_index)


@lru_cache(maxsize=20_000)
def _decoded(data: bytes) -> LabelIndex:
    return LabelIndex.decoded(data)
