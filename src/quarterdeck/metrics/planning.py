"""From a query's leaves to the works that the crew gets: which segments, divided by shard, never by time.

The division depends only on the query and the segments. So every coordinator gives out the same works, and the same
query finds its segments where they are cached. The number of rows decides the size of a work: a leaf that reads little
is one work, and a large leaf has as many works as there are shards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from quarterdeck.metrics.model import Part, Segment, SegmentRef
from quarterdeck.metrics.promql.blocks import SeriesBlock
from quarterdeck.metrics.promql.exec.build import Builder
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.flow.leaf import aggregate_of
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.promql.source import unlimited
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.universe import Candidate, Universe

WORK_ROWS: Final = 500_000
"""Rows of one work, about: some 10 ms of computing, beside which the way there and back does not count."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a leaf reads: series that match, from one time to another, both included."""

    matchers: tuple[Matcher, ...]
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class ShardWork:
    """A part of the series that are to be read, none of which is in another work."""

    part: Part
    shards: tuple[int, ...]
    segments: tuple[SegmentRef, ...]
    rows: int
    home: str
    """Works with the same home read the same: of one shard, or of one metric where little is read of many shards."""


@dataclass(frozen=True, slots=True)
class Division:
    """The works for one selection, and how many segments were found not to be needed."""

    works: tuple[ShardWork, ...]
    segments_read: int
    segments_pruned: int
    rows: int
    """That are read, about; and of how many series, one counted again for each segment that it is in."""
    series: int


def selections_of(leaf: BaseExpr, lookback_ms: int, instant: bool) -> tuple[Selection, ...]:
    """What a leaf reads, found by asking its own nodes for their samples. Raises what they find wrong with the query
    itself, such as a bad regular expression of `label_replace`."""
    probe = _Probe()
    context = Context(_NO_THREADS, Memory(1 << 40), Notes(), lookback_ms, instant)
    builder = Builder(context, probe)
    match leaf.merge:
        case Merge.SAMPLES:
            builder.windows(leaf.plan, leaf.grid)
        case Merge.COMBINE:
            builder.combined(aggregate_of(leaf), leaf.grid)
        case _:
            builder.node(leaf.plan, leaf.grid)
    for selector in builder.selectors:
        _ = selector.samples
    return tuple(dict.fromkeys(probe.found))


def divide(universe: Universe, selections: Sequence[Selection], work_rows: int = WORK_ROWS) -> Division:
    """The works for all segments that the selections may need."""
    needed: dict[int, Candidate] = {}
    for selection in selections:
        for candidate in universe.candidates(selection.matchers, selection.start_ms, selection.end_ms):
            before = needed.get(candidate.segment.segment_id)
            if before is None or before.rows < candidate.rows:
                needed[candidate.segment.segment_id] = candidate
    candidates = sorted(needed.values(), key=lambda one: one.segment.segment_id)
    works = tuple(_works(candidates, work_rows, _name_of(selections)))
    return Division(
        works,
        segments_read=len(candidates),
        segments_pruned=len(universe.segments) - len(candidates),
        rows=sum(candidate.rows for candidate in candidates),
        series=sum(candidate.series for candidate in candidates),
    )


def _works(candidates: Sequence[Candidate], work_rows: int, name: str) -> list[ShardWork]:
    if not candidates:
        return []
    # All counts are powers of two. A series is in shard d % n of every segment, where d is its digest and n that
    # segment's count: a work has the segments whose shard may hold its series, and a segment with fewer shards than
    # there are works is in several of them, of which each takes its own series.
    most = max(candidate.segment.shard_count for candidate in candidates)
    rows = sum(candidate.rows for candidate in candidates)
    count = 1
    while count < most and 2 * count * work_rows <= rows + work_rows:
        count *= 2
    works = (_work(Part(residue, count), candidates, name) for residue in range(count))
    return [work for work in works if work.segments]


def _work(part: Part, candidates: Sequence[Candidate], name: str) -> ShardWork:
    own = [one for one in candidates if _meet(part, one.segment)]
    shards = tuple(sorted({candidate.segment.shard for candidate in own}))
    of_metric = part.count == 1 and len(shards) > 1 and bool(name)
    return ShardWork(
        part,
        shards,
        tuple(_ref(candidate.segment) for candidate in own),
        sum(candidate.rows for candidate in own),
        f"metric {name}" if of_metric else f"shard {shards[0] if part.count == 1 and shards else part.residue}",
    )


def _meet(part: Part, segment: Segment) -> bool:
    """Whether a segment may have series of the part."""
    common = min(part.count, segment.shard_count)
    return segment.shard % common == part.residue % common


def _name_of(selections: Sequence[Selection]) -> str:
    """The metric that is read; empty where it is not one by name."""
    matchers = [matcher for selection in selections for matcher in selection.matchers]
    names = {one.value for one in matchers if one.name == METRIC_NAME and one.op is MatchOp.EQUAL}
    return names.pop() if len(names) == 1 else ""


def _ref(segment: Segment) -> SegmentRef:
    return SegmentRef(
        segment.segment_id, segment.object, segment.checksum, segment.min_ts_ms, segment.max_ts_ms, segment.shard_count
    )


class _Probe:
    """A source without samples that remembers what it was asked for."""

    def __init__(self) -> None:
        self.found: list[Selection] = []

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None] = unlimited,
    ) -> SeriesBlock:
        """See `Source.select`."""
        del need
        self.found.append(Selection(tuple(matchers), start_ms, end_ms))
        return SeriesBlock.empty()


_NO_THREADS: Final = Threads(1)
"""Nothing is computed here."""
