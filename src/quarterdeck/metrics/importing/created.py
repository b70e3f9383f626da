"""OpenMetrics whose `_created` lines are taken as start timestamps, and not as metrics of their own.

A file is read twice: first for what its `_created` lines say, then for the samples. So these lines may stand anywhere
in it. They count for counters, histograms and summaries, told by their TYPE line, and for series with the same labels
but for `le` and `quantile`. A sample gets the latest time that they name and that is before it: of a counter that
started over several times in a file each sample gets the start that was its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from quarterdeck.metrics.importing.batches import MAX_TIMESTAMP_MS, SampleBatch
from quarterdeck.metrics.importing.errors import Named, bad_file
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.promql.blocks import F64, I64, totals_before
from quarterdeck.metrics.promql.kernels.cuts import places_of
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels, get, show

_CREATED: Final = "_created"
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "counter": ("_total", ""),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum", ""),
}
"""The types whose samples have starts, and by what the names of their metrics differ from that of the family."""
_OF_PARTS: Final = frozenset({METRIC_NAME, "le", "quantile"})
"""What the series of a family differ in."""
_MOST_STARTS: Final = 20_000_000
"""Different ones in a file: some 320 MB."""
_COMPACT_AT: Final = 4_000_000

_NONE: Final = -1
_IS_CREATED: Final = -2


class CreatedReader:
    """A `SampleReader` of one file."""

    def __init__(self, path: Path, *, name: str = "", at_ms: int | None = None) -> None:
        self._name: Final = name or path
        self._first: Final = OpenMetricsReader(path, name=name, at_ms=at_ms)
        self._second: Final = OpenMetricsReader(path, name=name, at_ms=at_ms)

    @property
    def size_bytes(self) -> int:
        """Twice that of the file, as it is read twice."""
        return self._first.size_bytes + self._second.size_bytes

    @property
    def read_bytes(self) -> int:
        return self._first.read_bytes + self._second.read_bytes

    @property
    def metadata(self) -> Mapping[str, MetricMetadata]:
        return self._second.metadata

    def batches(self) -> Iterator[SampleBatch]:
        """To be asked for once."""
        starts = _Starts(self._name, self._first.batches(), self._first.metadata)
        for batch in self._second.batches():
            yield starts.given_to(batch)


class _Starts:
    """All that a file says about when its counters started."""

    def __init__(self, name: Named, batches: Iterable[SampleBatch], metadata: Mapping[str, MetricMetadata]) -> None:
        self._name: Final = name
        self._metadata: Final = metadata
        """Of the whole file, once all batches were read."""
        self._families: Final[dict[Labels, int]] = {}
        self._lines: Final[list[Labels]] = []
        """One line for each family, for errors."""
        found: list[tuple[I64, I64]] = []
        waiting = 0
        for batch in batches:
            found.append(self._told(batch))
            waiting += len(found[-1][0])
            if waiting > _COMPACT_AT:
                found = [self._distinct(found)]
                waiting = len(found[0][0])
        self._of, self._starts = self._distinct(found)
        counts = np.bincount(self._of, minlength=len(self._families)).astype(np.int64)
        self._offsets: Final = totals_before(counts)

    def given_to(self, batch: SampleBatch) -> SampleBatch:
        """The samples with their starts, and without those that are starts."""
        families = np.array([self._family(labels) for labels in batch.labels], np.int64)
        kept = np.flatnonzero(families != _IS_CREATED)
        own = families[batch.series]
        rows = slice(None) if kept.size == families.size else own != _IS_CREATED
        places = np.zeros(families.size, np.int32)
        places[kept] = np.arange(kept.size, dtype=np.int32)
        timestamps = batch.timestamps[rows]
        starts = self._latest_before(own[rows], timestamps)
        chosen: list[int] = kept.tolist()
        return SampleBatch(
            tuple(batch.labels[place] for place in chosen),
            places[batch.series[rows]],
            timestamps,
            batch.values[rows],
            starts=starts if starts.any() else None,
        )

    def _told(self, batch: SampleBatch) -> tuple[I64, I64]:
        """Families and starts of the samples that are called like one. Whether they are is known at the file's end."""
        number = np.full(len(batch.labels), _NONE, np.int64)
        for place, labels in enumerate(batch.labels):
            name = get(labels, METRIC_NAME)
            if name.endswith(_CREATED):
                family = _without_parts(labels, name.removesuffix(_CREATED))
                number[place] = self._families.setdefault(family, len(self._families))
                if number[place] == len(self._lines):
                    self._lines.append(labels)
        of = number[batch.series]
        rows = np.flatnonzero(of != _NONE)
        return of[rows], self._in_ms(of[rows], batch.values[rows])

    def _in_ms(self, of: I64, seconds: F64) -> I64:
        wrong = ~(np.abs(seconds) <= MAX_TIMESTAMP_MS // 1000)
        if wrong.any():
            at = int(np.argmax(wrong))
            line: int = of[at].item()
            raise bad_file(
                self._name,
                f"{show(self._lines[line])} is {seconds[at]}, which is not a time in seconds since 1970",
                "correct the line, or import the file without --created-timestamps",
            )
        return np.rint(seconds * 1000).astype(np.int64)

    def _distinct(self, found: list[tuple[I64, I64]]) -> tuple[I64, I64]:
        """By family and time, each once."""
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        of, starts = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.lexsort((starts, of))
        of, starts = of[order], starts[order]
        first = np.ones(len(of), np.bool_)
        first[1:] = (of[1:] != of[:-1]) | (starts[1:] != starts[:-1])
        of, starts = of[first], starts[first]
        if len(of) > _MOST_STARTS:
            raise bad_file(
                self._name,
                f"its {_CREATED} lines name more than {_MOST_STARTS} different times",
                "import it in parts, or without --created-timestamps",
            )
        return of, starts

    def _family(self, labels: Labels) -> int:
        """That of a series; none, or that the series says when a family started."""
        name = get(labels, METRIC_NAME)
        if name.endswith(_CREATED) and self._tells_starts(name.removesuffix(_CREATED)):
            return _IS_CREATED
        for kind, endings in _ENDINGS.items():
            for ending in endings:
                family = name.removesuffix(ending)
                if name.endswith(ending) and self._type_of(family) == kind and self._tells_starts(family):
                    return self._families.get(_without_parts(labels, family), _NONE)
        return _NONE

    def _tells_starts(self, family: str) -> bool:
        """Whether lines called like its starts are that, and no metric that has a TYPE line of its own."""
        return self._type_of(family) in _ENDINGS and f"{family}{_CREATED}" not in self._metadata

    def _type_of(self, family: str) -> str:
        known = self._metadata.get(family)
        return "unknown" if known is None else known.type

    def _latest_before(self, families: I64, times: I64) -> I64:
        """For each sample the latest start of its family that is before it, or 0."""
        found = np.zeros(len(times), np.int64)
        rows = np.flatnonzero(families >= 0)
        wanted = np.unique(families[rows])
        known = places_of(self._offsets[wanted], self._offsets[wanted + 1])
        of, starts = self._of[known], self._starts[known]
        is_sample = np.arange(len(starts) + len(rows)) >= len(starts)
        # At one time the sample comes first: it did not start with itself.
        order = np.lexsort((~is_sample, np.concatenate((starts, times[rows])), np.concatenate((of, families[rows]))))
        latest = np.maximum.accumulate(np.where(is_sample[order], -1, order))
        samples = is_sample[order]
        own, last = rows[order[samples] - len(starts)], latest[samples]
        there = last >= 0
        own, last = own[there], last[there]
        same = of[last] == families[own]
        found[own[same]] = starts[last[same]]
        return found


def _without_parts(labels: Labels, family: str) -> Labels:
    return ((METRIC_NAME, family), *[pair for pair in labels if pair[0] not in _OF_PARTS])
