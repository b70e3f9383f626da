"""`Assembly`: samples as they come from files, put in order and cut into the blocks that become segments.

It gathers samples up to a number, then sorts them by shard, metric, series and time, and cuts them by time window and
shard. If several samples have the same series and time, the last one stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from quarterdeck.metrics.importing.batches import SampleBatch
from quarterdeck.metrics.model import MOST_SHARDS
from quarterdeck.metrics.promql.blocks import I64, Axis, Objects, SeriesBlock, are_histograms, totals_before
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, digest, get

GATHERED_SAMPLES: Final = 16_000_000
"""How many samples are put in order at once: some 700 MB. More make fewer and larger segments."""
_SEGMENT_ROWS: Final = 50_000
"""A segment has at least about so many rows, or there is only one: small files cost more to open than to read."""
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The samples of one segment."""

    shard: int
    shard_count: int
    block: SeriesBlock


class Assembly:
    """Add batches; take the pieces when it is full, and at the end."""

    def __init__(self, shard_count: int | None = None) -> None:
        """Without a number of shards, a power of two, it depends on how many samples there are."""
        if shard_count is not None and (shard_count < 1 or shard_count & (shard_count - 1)):
            raise ValueError(f"{shard_count} is not a power of two: works take series by the last bits of their digest")
        self._shard_count: Final = shard_count
        self._places: Final[dict[Labels, int]] = {}
        self._digests: Final[list[int]] = []
        self._batches: list[tuple[I64, SampleBatch]] = []
        self.samples = 0
        """How many are waiting."""
        self.duplicates = 0
        """How many were left out because a later one has the same series and time."""

    @property
    def series(self) -> int:
        """How many there have been in all."""
        return len(self._places)

    @property
    def is_full(self) -> bool:
        return self.samples >= GATHERED_SAMPLES

    def add(self, batch: SampleBatch) -> None:
        places = np.empty(len(batch.labels), np.int64)
        for at, labels in enumerate(batch.labels):
            place = self._places.setdefault(labels, len(self._places))
            if place == len(self._digests):
                self._digests.append(digest(labels))
            places[at] = place
        self._batches.append((places[batch.series], batch))
        self.samples += len(batch.timestamps)

    def take(self) -> Iterator[Piece]:
        """What was gathered, which is forgotten then."""
        if not self.samples:
            return
        shard_count, window_ms, origin_ms = self._division()
        order = self._order(shard_count)
        series, timestamps = self._joined()
        windows = (timestamps - origin_ms) // window_ms
        windows -= windows.min()
        ranks = np.empty(self.series, np.int64)
        ranks[order] = np.arange(self.series)
        keys = windows * self.series + ranks[series]
        rows = _sorted_rows(keys, timestamps)
        last = np.append(np.diff(keys[rows]).astype(np.bool_) | np.diff(timestamps[rows]).astype(np.bool_), True)
        self.duplicates += len(rows) - int(np.count_nonzero(last))
        rows = rows[last]
        yield from self._cut(rows, keys[rows], order, shard_count, timestamps)
        self._batches.clear()
        self.samples = 0

    def _division(self) -> tuple[int, int, int]:
        """Into how many shards, how long a time window, and where windows begin: so that no segment is very small. A
        day is one of UTC; a single window begins with the first sample."""
        first = min(int(batch.timestamps.min()) for _, batch in self._batches if len(batch.timestamps))
        last = max(int(batch.timestamps.max()) for _, batch in self._batches if len(batch.timestamps))
        days = (last - first) // _DAY_MS + 1
        windows = max(1, min(days, self.samples // _SEGMENT_ROWS))
        shards = 1
        while shards < MOST_SHARDS and windows * 2 * shards * _SEGMENT_ROWS <= self.samples:
            shards *= 2
        window_ms = max(_DAY_MS, -(-(last - first + 1) // windows))
        return self._shard_count or shards, window_ms, first if windows == 1 else 0

    def _order(self, shard_count: int) -> I64:
        """All series by shard, metric and labels."""
        labels = list(self._places)
        shards = (np.array(self._digests, np.uint64) % np.uint64(shard_count)).tolist()
        keys = [(shard, get(one, METRIC_NAME), one) for shard, one in zip(shards, labels, strict=True)]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)

    def _joined(self) -> tuple[I64, I64]:
        return (
            np.concatenate([series for series, _ in self._batches]),
            np.concatenate([batch.timestamps for _, batch in self._batches]),
        )

    def _cut(self, rows: I64, keys: I64, order: I64, shard_count: int, timestamps: I64) -> Iterator[Piece]:
        values = np.concatenate([batch.values for _, batch in self._batches])
        histograms, began = self._histograms(), self._start_timestamps()
        labels = list(self._places)
        shards = np.array(self._digests, np.uint64)[order] % np.uint64(shard_count)
        starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(np.diff(keys)) + 1))
        windows, ranks = keys[starts] // self.series, keys[starts] % self.series
        pieces = windows * shard_count + shards[ranks].astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(starts)]
        bounds = np.append(starts, len(rows))
        for low, high in pairwise(edges):
            own = rows[bounds[low] : bounds[high]]
            chosen: list[int] = order[ranks[low:high]].tolist()
            found = None if histograms is None else histograms[own]
            own_began = None if began is None else began[own]
            block = SeriesBlock(
                Axis.of([labels[place] for place in chosen]),
                totals_before(np.diff(bounds[low : high + 1])),
                timestamps[own],
                values[own],
                found if found is not None and are_histograms(found).any() else None,
                own_began if own_began is not None and own_began.any() else None,
            )
            yield Piece(int(shards[ranks[low]]), shard_count, block)

    def _histograms(self) -> Objects | None:
        if all(batch.histograms is None for _, batch in self._batches):
            return None
        parts = [
            np.full(len(batch.timestamps), None, dtype=object) if batch.histograms is None else batch.histograms
            for _, batch in self._batches
        ]
        return np.concatenate(parts)

    def _start_timestamps(self) -> I64 | None:
        if all(batch.starts is None for _, batch in self._batches):
            return None
        return np.concatenate(
            [
                np.zeros(len(batch.timestamps), np.int64) if batch.starts is None else batch.starts
                for _, batch in self._batches
            ]
        )


def _sorted_rows(keys: I64, timestamps: I64) -> I64:
    """By key and time, and as they came where both are the same. Files mostly have a series' samples in order."""
    rows = np.argsort(keys, kind="stable")
    ordered_keys, ordered_times = keys[rows], timestamps[rows]
    if ((ordered_times[1:] < ordered_times[:-1]) & (ordered_keys[1:] == ordered_keys[:-1])).any():
        return np.lexsort((timestamps, keys))
    return rows
