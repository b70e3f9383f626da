"""Random samples from a seed, stored in segments in any way an import may store them, and in memory to compare with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.promql.blocks import Axis, SeriesBlock, are_histograms, totals_before
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, digest, from_mapping, get
from quarterdeck.metrics.promql.memory import MemorySource
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments import layout
from quarterdeck.metrics.segments.file import SegmentFile, checksum_of
from quarterdeck.metrics.segments.label_index import LabelIndex
from quarterdeck.metrics.segments.layout import segment_bytes
from quarterdeck.metrics.segments.source import OpenSegment
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.objects import ObjectRef
from tests.metrics.transfer.blocks import Blocks
from tests.metrics.transfer.likeness import bits, exact

METRICS = ("", "up", "a", "cpu_seconds_total", "zz", "é", "m" * 5_000)
"""The last one is too long for the statistics of a Parquet file."""
NAMES = ("Zone", "_", "__name_", "__type__", "job", "zone", "é", "with space", '"')
"""Some are sorted before `__name__`."""
VALUES = ("a", "b", "b c", '"\\', "ä\n", "\x00", "\U0001f600", "\udcff", "{}", "null", "1")
PATTERNS = ("", "a", "b.*", ".*", ".+", "a|b", "[a-b].*", "nowhere", "\\{\\}", "(?s:.)")

Sample = tuple[float, Any]
"""A value and a histogram, of which one counts."""
Samples = dict[Labels, dict[int, Sample]]
"""By series and time."""


def block_of(samples: Mapping[Labels, Mapping[int, Sample]], order: Iterable[Labels]) -> SeriesBlock:
    """These series, in this order."""
    ordered = [labels for labels in order if samples[labels]]
    if not ordered:
        return SeriesBlock.empty()
    rows = [(time, *samples[labels][time]) for labels in ordered for time in sorted(samples[labels])]
    histograms: Any = np.full(len(rows), None, object)
    histograms[:] = [histogram for _, _, histogram in rows]
    return SeriesBlock(
        Axis.of(ordered),
        totals_before(np.array([len(samples[labels]) for labels in ordered], np.int64)),
        np.array([time for time, _, _ in rows], np.int64),
        np.array([value for _, value, _ in rows], np.float64),
        histograms if are_histograms(histograms).any() else None,
    )


def as_stored(samples: Mapping[Labels, Mapping[int, Sample]]) -> SeriesBlock:
    """In the order of a segment."""
    return block_of(samples, sorted(samples, key=lambda labels: (get(labels, METRIC_NAME), labels)))


def in_memory(samples: Mapping[Labels, Mapping[int, Sample]]) -> MemorySource:
    return MemorySource(block_of(samples, sorted(samples)))


def told(block: SeriesBlock) -> dict[Labels, list[tuple[int, object]]]:
    """All that a block says, by series: equal where nobody could tell two blocks apart."""
    found: dict[Labels, list[tuple[int, object]]] = {}
    for at, labels in enumerate(block.axis.labels):
        low, high = int(block.offsets[at]), int(block.offsets[at + 1])
        assert labels not in found
        found[labels] = [
            (
                int(block.timestamps[row]),
                bits(block.values[row : row + 1])
                if block.histograms is None or block.histograms[row] is None
                else exact(block.histograms[row]),
            )
            for row in range(low, high)
        ]
    return found


@dataclass
class Lake:
    """Segments in a folder, and all their samples: of those with the same series and time the one of the later
    segment."""

    folder: Path
    segments: list[Segment] = field(default_factory=list[Segment])
    samples: Samples = field(default_factory=dict[Labels, dict[int, Sample]])

    def store(self, samples: Mapping[Labels, Mapping[int, Sample]], shard: int = 0, shard_count: int = 1) -> None:
        """As one segment."""
        block = as_stored(samples)
        number = len(self.segments) + 1
        data = segment_bytes(block)
        path = self.folder / f"{number}.parquet"
        path.write_bytes(data)
        self.segments.append(
            Segment(
                number,
                shard,
                shard_count,
                ObjectRef(str(path), len(data), ""),
                checksum_of(data),
                int(block.timestamps.min()),
                int(block.timestamps.max()),
                len(block.timestamps),
                len(block.axis),
                LabelIndex.of(block.axis.labels, np.diff(block.offsets).tolist()).encoded(),
            )
        )
        for labels, some in samples.items():
            self.samples.setdefault(labels, {}).update(some)

    def universe(self) -> Universe:
        return Universe(1, tuple(self.segments))

    def opened(self, segment_ids: Iterable[int] | None = None) -> list[OpenSegment]:
        wanted = None if segment_ids is None else set(segment_ids)
        return [
            OpenSegment(
                one.segment_id,
                one.min_ts_ms,
                SegmentFile(Path(one.object.url), one.object.url, one.checksum),
                one.shard_count,
            )
            for one in self.segments
            if wanted is None or one.segment_id in wanted
        ]


class Chance:
    """Makes samples, lakes and matchers."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._blocks = Blocks(seed)

    def number(self, low: int, high: int) -> int:
        """Both included."""
        return int(self.random.integers(low, high + 1))

    def one(self, some: Sequence[Any]) -> Any:
        return some[self.number(0, len(some) - 1)]

    def labels(self) -> Labels:
        names = {self.one(NAMES) for _ in range(self.number(0, 3))}
        return from_mapping({METRIC_NAME: self.one(METRICS), **{name: self.one(VALUES) for name in sorted(names)}})

    def samples(self, series: Sequence[Labels], times: range) -> Samples:
        """Some samples of some of the series; a third of them with histograms."""
        found: Samples = {}
        with_histograms = self.random.random() < 0.3
        for labels in series:
            chosen = [time for time in times if self.random.random() < 0.4]
            floats = self._blocks.floats((len(chosen),)).tolist()
            histograms = self._blocks.histograms((len(chosen),)) if with_histograms else [None] * len(chosen)
            if chosen:
                found[labels] = dict(zip(chosen, zip(floats, histograms, strict=True), strict=True))
        return found

    def lake(self, folder: Path) -> Lake:
        """Some imports, whose times may overlap, each cut by time and shard."""
        lake = Lake(folder)
        series = sorted({self.labels() for _ in range(self.number(1, 25))})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "GROUP_ROWS", self.one((1, 3, 10, 1_000)))
            for _ in range(self.number(1, 3)):
                low = self.number(-20, 20)
                self._store(lake, self.samples(series, range(low, low + self.number(1, 25))))
        return lake

    def _store(self, lake: Lake, samples: Samples) -> None:
        shard_count, window = self.one((1, 2, 4, 8)), self.one((3, 10, 1_000))
        pieces: dict[tuple[int, int], Samples] = {}
        for labels, some in samples.items():
            shard = digest(labels) % shard_count
            for time, sample in some.items():
                pieces.setdefault((time // window, shard), {}).setdefault(labels, {})[time] = sample
        for (_, shard), piece in sorted(pieces.items(), key=lambda one: one[0]):
            lake.store(piece, shard, shard_count)

    def matchers(self) -> tuple[Matcher, ...]:
        found: list[Matcher] = []
        for _ in range(self.number(0, 3)):
            op = self.one(list(MatchOp))
            name = METRIC_NAME if self.random.random() < 0.4 else self.one((*NAMES, "nowhere"))
            texts = PATTERNS if op in (MatchOp.REGEX, MatchOp.NOT_REGEX) else (*METRICS, *VALUES)
            found.append(Matcher(name, op, self.one(texts)))
        return tuple(found)

    def times(self) -> tuple[int, int]:
        start = self.number(-30, 40)
        return start, start + self.number(0, 40)
