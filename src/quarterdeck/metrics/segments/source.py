"""`SegmentSource`: the samples of some segments, as the engine selects them; or those of a part of the series.

Row groups that cannot have what is asked for are not read; of the others first the labels, and the samples only where a
series matches. A series may be in many row groups and segments: its samples are put together in the order of time, and
where two have the same time the one of the later segment counts.

One work uses one source, in one thread; the files and the shelf are shared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.model import Part
from quarterdeck.metrics.promql.blocks import F64, I64, Axis, Objects, SeriesBlock, are_histograms, totals_before
from quarterdeck.metrics.promql.kernels.cuts import between, first_disorder, picked, place_at, places_of, side_by_side
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import LISTED_BYTES
from quarterdeck.metrics.promql.source import unlimited
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.segments.file import GroupInfo, GroupSamples, GroupSeries, SegmentFile
from quarterdeck.metrics.segments.layout import HISTOGRAM, LABELS, METRIC, START, TIMESTAMP, VALUE
from quarterdeck.metrics.segments.shelf import Reading, Shelf

_SAMPLE_BYTES: Final = 16
_START_BYTES: Final = 8
WHOLE: Final = Part()


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment whose file is here."""

    segment_id: int
    min_ts_ms: int
    file: SegmentFile
    shard_count: int


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """Some series of a row group, each from its `low` to before its `high`."""

    labels: list[Labels]
    low: I64
    high: I64
    samples: GroupSamples
    segment_id: int
    sample_count: int

    @property
    def size_bytes(self) -> int:
        """About what its samples take, without the others of the row group."""
        return self.samples.size_bytes * self.sample_count // len(self.samples.timestamps)

    def copied(self) -> "_Cut":
        """With a copy of its samples alone, so that those of the row group can go."""
        timestamps, values = side_by_side(self.samples.timestamps, self.samples.values, self.low, self.high)
        offsets = totals_before(self.high - self.low)
        histograms = (
            None if self.samples.histograms is None else self.samples.histograms[places_of(self.low, self.high)]
        )
        starts = None if self.samples.starts is None else picked(self.samples.starts, self.low, self.high)
        samples = GroupSamples(timestamps, values, histograms, starts)
        return _Cut(self.labels, offsets[:-1], offsets[1:], samples, self.segment_id, self.sample_count)


class SegmentSource:
    """Implements `promql.source.Source`."""

    def __init__(self, segments: Sequence[OpenSegment], shelf: Shelf, part: Part = WHOLE) -> None:
        self._part: Final = part
        self._segments: Final = sorted(segments, key=lambda one: (one.min_ts_ms, one.segment_id))
        self._shelf: Final = shelf
        self.reading: Final = Reading()

    def select(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None] = unlimited,
    ) -> SeriesBlock:
        """See `Source.select`. Series without a sample in that time are left out."""
        matchers = tuple(matchers)
        cuts: list[_Cut] = []
        held_bytes = samples = 0
        sample_bytes = _SAMPLE_BYTES
        for segment in self._segments:
            for group in segment.file.groups:
                need(held_bytes)
                if not group.may_have(matchers, start_ms, end_ms):
                    self.reading.groups_pruned += 1
                    continue
                cut = self._cut(segment, group, matchers, start_ms, end_ms, need)
                if cut is not None:
                    cuts.append(cut)
                    held_bytes += cut.size_bytes
                    samples += cut.sample_count
                    if cut.samples.starts is not None:
                        sample_bytes = _SAMPLE_BYTES + _START_BYTES
        need(held_bytes + samples * sample_bytes)
        return _joined(cuts)

    def series(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, need: Callable[[int], None]
    ) -> set[Labels]:
        """The labels of the series that match and may have samples in that time. Samples are not read: a row group that
        reaches into that time counts with all its series. `need` gets what those found so far take."""
        matchers = tuple(matchers)
        found: set[Labels] = set()
        for segment in self._segments:
            for group in segment.file.groups:
                need(len(found) * LISTED_BYTES)
                if not group.may_have(matchers, start_ms, end_ms):
                    self.reading.groups_pruned += 1
                    continue
                series = self._series(segment, group)
                rows: list[int] = self._matching(segment, series, matchers, need).tolist()
                found.update(series.labels[row] for row in rows)
        need(len(found) * LISTED_BYTES)
        return found

    def _cut(
        self,
        segment: OpenSegment,
        group: GroupInfo,
        matchers: tuple[Matcher, ...],
        start_ms: int,
        end_ms: int,
        need: Callable[[int], None],
    ) -> _Cut | None:
        series = self._series(segment, group)
        rows = self._matching(segment, series, matchers, need)
        if not rows.size:
            return None
        key = (segment.file.checksum, group.number, "samples")
        samples, was_here = self._shelf.get(key, lambda: segment.file.read_samples(group.number))
        self._count(segment, group, was_here, (TIMESTAMP, VALUE, HISTOGRAM, START))
        first, last = series.offsets[rows], series.offsets[rows + 1]
        if group.min_ts_ms >= start_ms and group.max_ts_ms <= end_ms:
            low, high = first, last
        else:
            low, high = between(samples.timestamps, first, last, start_ms, end_ms)
            there = high > low
            if not there.all():
                rows, low, high = rows[there], low[there], high[there]
        if not rows.size:
            return None
        chosen: list[int] = rows.tolist()
        count = int((high - low).sum())
        cut = _Cut([series.labels[row] for row in chosen], low, high, samples, segment.segment_id, count)
        # What was on the shelf may stay there. Of what was read for this alone, no more is held than is needed.
        return cut.copied() if not was_here and 2 * count < len(samples.timestamps) else cut

    def _matching(
        self, segment: OpenSegment, series: GroupSeries, matchers: tuple[Matcher, ...], need: Callable[[int], None]
    ) -> I64:
        """Which series of a row group match and belong to this part."""
        part = self._part if self._part.is_cut_from(segment.shard_count) else WHOLE
        known = series.chosen.get((matchers, part))
        if known is not None:
            return known
        matching = series.index.matching(matchers, need)
        if part.count > 1:
            matching &= series.digests % np.uint64(part.count) == np.uint64(part.residue)
        found = np.flatnonzero(matching)
        series.remember((matchers, part), found)
        return found

    def _series(self, segment: OpenSegment, group: GroupInfo) -> GroupSeries:
        key = (segment.file.checksum, group.number, "series")
        series, was_here = self._shelf.get(key, lambda: segment.file.read_series(group.number))
        self._count(segment, group, was_here, (METRIC, LABELS))
        return series

    def _count(self, segment: OpenSegment, group: GroupInfo, was_here: bool, columns: tuple[str, ...]) -> None:
        if was_here:
            self.reading.hits += 1
        else:
            self.reading.misses += 1
            self.reading.groups_read += VALUE in columns
            self.reading.bytes_read += segment.file.stored_bytes(group.number, columns)


def _joined(cuts: Sequence[_Cut]) -> SeriesBlock:
    """All cuts as one block, series sorted by labels."""
    if not cuts:
        return SeriesBlock.empty()
    ordered = sorted({labels for cut in cuts for labels in cut.labels})
    names = {labels: place for place, labels in enumerate(ordered)}
    places = [np.array([names[labels] for labels in cut.labels], np.int64) for cut in cuts]
    counts = np.zeros(len(ordered), np.int64)
    for cut, place in zip(cuts, places, strict=True):
        counts[place] += cut.high - cut.low
    offsets = totals_before(counts)
    timestamps, values = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]))
    histograms = _room_for_histograms(cuts, len(values))
    starts = _room_for_starts(cuts, len(values))
    first_places = _first_places(cuts, places)
    for cut, at in zip(cuts, first_places, strict=True):
        place_at(cut.samples.timestamps, cut.samples.values, cut.low, cut.high, at, timestamps, values)
        if histograms is not None and cut.samples.histograms is not None:
            histograms[places_of(at, at + cut.high - cut.low)] = cut.samples.histograms[places_of(cut.low, cut.high)]
        if starts is not None and cut.samples.starts is not None:
            starts[places_of(at, at + cut.high - cut.low)] = picked(cut.samples.starts, cut.low, cut.high)
    if starts is not None and not starts.any():
        starts = None
    block = SeriesBlock(Axis.of(ordered), offsets, timestamps, values, _if_any(histograms), starts)
    if first_disorder(timestamps, offsets) is not None:
        return _in_order(block, _segment_of_each(cuts, first_places, len(values)))
    return block


def _first_places(cuts: Sequence[_Cut], places: Sequence[I64]) -> list[I64]:
    """For each cut where its stretches go, those of a series by their first time: a segment that begins earlier may
    have the later part of a series. Then samples are in order unless stretches overlap."""
    lengths = np.concatenate([cut.high - cut.low for cut in cuts])
    first_ms = np.concatenate([cut.samples.timestamps[cut.low] for cut in cuts])
    order = np.lexsort((first_ms, np.concatenate(places)))
    starts = np.empty(len(order), np.int64)
    starts[order] = totals_before(lengths[order])[:-1]
    return np.split(starts, np.cumsum([len(place) for place in places])[:-1])


def _segment_of_each(cuts: Sequence[_Cut], first_places: Sequence[I64], count: int) -> I64:
    """For each sample the segment it is from."""
    found = np.empty(count, np.int64)
    for cut, at in zip(cuts, first_places, strict=True):
        found[places_of(at, at + cut.high - cut.low)] = cut.segment_id
    return found


def _in_order(block: SeriesBlock, segments: I64) -> SeriesBlock:
    """Each series by rising time; of several samples of one time the last of the latest segment stays."""
    series = np.repeat(np.arange(len(block.axis)), np.diff(block.offsets))
    order = np.lexsort((segments, block.timestamps, series))
    timestamps, ordered_series = block.timestamps[order], series[order]
    same = (timestamps[1:] == timestamps[:-1]) & (ordered_series[1:] == ordered_series[:-1])
    kept = order[np.append(~same, True)]
    counts = np.bincount(series[kept], minlength=len(block.axis)).astype(np.int64)
    values: F64 = block.values[kept]
    histograms = None if block.histograms is None else block.histograms[kept]
    starts = None if block.starts is None else block.starts[kept]
    return SeriesBlock(block.axis, totals_before(counts), block.timestamps[kept], values, histograms, starts)


def _room_for_histograms(cuts: Sequence[_Cut], count: int) -> Objects | None:
    if all(cut.samples.histograms is None for cut in cuts):
        return None
    return np.full(count, None, dtype=object)


def _room_for_starts(cuts: Sequence[_Cut], count: int) -> I64 | None:
    if all(cut.samples.starts is None for cut in cuts):
        return None
    return np.zeros(count, np.int64)


def _if_any(histograms: Objects | None) -> Objects | None:
    return histograms if histograms is not None and are_histograms(histograms).any() else None
