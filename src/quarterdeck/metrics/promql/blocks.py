"""Many series at once: the arrays that selectors, kernels and nodes hand to each other.

A `Grid` is where a query is evaluated, an `Axis` which series there are. A `SeriesBlock` holds samples as they were
stored, one stretch a series; a `VectorBlock` holds a value, or none, for each series and step.

A sample is a float or a native histogram. Histograms stand in arrays of objects beside the floats, which are None
while there is no histogram at all: the usual case pays nothing for them. So it is with start timestamps. Arrays are
never changed once handed on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.limits import PAIR_BYTES, ROW_BYTES

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
Bool: TypeAlias = NDArray[np.bool_]
Objects: TypeAlias = NDArray[Any]

STALE_BITS: Final = 0x7FF0000000000002
"""The one not-a-number that says: this series has ended here."""


_MEASURED: Final = 64
"""How many histograms of a block, or series of an axis, are measured, at least, if it has as many."""


def is_stale(values: F64) -> Bool:
    """Which values are staleness markers."""
    return values.view(np.uint64) == STALE_BITS


def are_histograms(objects: Objects) -> Bool:
    """Which of these are histograms and not None."""
    nothing: Any = None
    return np.not_equal(objects, nothing).astype(np.bool_)


def objects_size_bytes(objects: Objects) -> int:
    """About what some histograms take: a few of them stand for all."""
    flat = objects.ravel()
    some = flat[:: max(1, flat.size // _MEASURED)]
    sizes = [one.size_bytes for one in some if one is not None]
    return objects.nbytes + sum(sizes) * flat.size // max(1, some.size)


def totals_before(counts: I64 | Bool) -> I64:
    """For each place the sum of all before it, and at the end the sum of all: where stretches of these lengths begin.

    >>> totals_before(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def joined_histograms(blocks: "Sequence[VectorBlock | SeriesBlock]") -> Objects | None:
    """The histograms of some blocks, one after the other; None if no block has any."""
    if all(block.histograms is None for block in blocks):
        return None
    nothing: Any = None
    parts: list[Objects] = [
        np.full(block.values.shape, nothing, object) if block.histograms is None else block.histograms
        for block in blocks
    ]
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Grid:
    """The times at which something is evaluated: `count` of them, `step_ms` apart."""

    start_ms: int
    step_ms: int
    count: int

    @property
    def end_ms(self) -> int:
        """The last time."""
        return self.start_ms + (self.count - 1) * self.step_ms

    def cut(self, low: int, high: int) -> "Grid":
        """The steps from `low` to before `high`."""
        return Grid(self.start_ms + low * self.step_ms, self.step_ms, high - low)

    def times(self) -> I64:
        """The times in milliseconds."""
        return self.start_ms + self.step_ms * np.arange(self.count, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Axis:
    """Which series there are, in order. Two axes are the same only if they are one object."""

    labels: tuple[Labels, ...]
    nameless: Bool
    """For each series whether its metric's name goes away at the end (functions take it away, and grouping may still
    ask for it until then)."""

    @staticmethod
    def of(labels: Sequence[Labels], nameless: bool = False) -> "Axis":
        """An axis on which all or no names go away."""
        return Axis(tuple(labels), np.full(len(labels), nameless))

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def row_bytes(self) -> int:
        """About what labels take that are made of a series' labels, without new text: a few stand for all."""
        some = self.labels[:: max(1, len(self.labels) // _MEASURED)]
        return max(ROW_BYTES, PAIR_BYTES * sum(map(len, some)) // max(1, len(some)))

    @cached_property
    def without_names(self) -> "Axis":
        """The same series; all names go away at the end."""
        return Axis(self.labels, np.ones(len(self.labels), dtype=np.bool_))

    @cached_property
    def has_twins(self) -> bool:
        """Whether two series have the same labels; a name that goes away at the end is another than one that stays."""
        flags: list[bool] = self.nameless.tolist()
        series = set(zip(self.labels, flags, strict=True)) if len(set(flags)) > 1 else set(self.labels)
        return len(series) < len(self.labels)

    @cached_property
    def shown(self) -> tuple[Labels, ...]:
        """The labels as a reader of the result sees them."""
        return tuple(
            lb.drop_name(labels) if gone else labels
            for labels, gone in zip(self.labels, self.nameless.tolist(), strict=True)
        )

    def take(self, rows: I64) -> "Axis":
        """Some of the series, in the order of `rows`."""
        chosen: list[int] = rows.tolist()
        return Axis(tuple(self.labels[row] for row in chosen), self.nameless[rows])


@dataclass(frozen=True, eq=False)
class SeriesBlock:
    """Samples of many series: those of series `i` lie from `offsets[i]` to before `offsets[i + 1]`, by rising time."""

    axis: Axis
    offsets: I64
    timestamps: I64
    values: F64
    """Where the sample is a histogram: anything."""
    histograms: Objects | None = None
    """For each sample its histogram, or None where it is a float. None: all are floats."""
    starts: I64 | None = None
    """For each sample its start timestamp: when its counter began to count, in milliseconds; 0 where that is not known.
    None: no sample has one, which costs nothing."""

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        arrays = self.offsets.nbytes + self.timestamps.nbytes + self.values.nbytes
        if self.starts is not None:
            arrays += self.starts.nbytes
        return arrays if self.histograms is None else arrays + objects_size_bytes(self.histograms)

    @staticmethod
    def empty() -> "SeriesBlock":
        """No series."""
        return SeriesBlock(Axis.of(()), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def filter(self, keep: Bool) -> "SeriesBlock":
        """Without the samples that are not kept; every series stays, maybe with none."""
        kept = totals_before(keep)
        return SeriesBlock(
            self.axis,
            kept[self.offsets],
            self.timestamps[keep],
            self.values[keep],
            None if self.histograms is None else self.histograms[keep],
            None if self.starts is None else self.starts[keep],
        )

    def take(self, rows: I64) -> "SeriesBlock":
        """Some of the series, in the order of `rows`."""
        lengths = np.diff(self.offsets)[rows]
        offsets = totals_before(lengths)
        count = int(offsets[-1])
        index: I64 = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(count, dtype=np.int64)
        return SeriesBlock(
            self.axis.take(rows),
            offsets,
            self.timestamps[index],
            self.values[index],
            None if self.histograms is None else self.histograms[index],
            None if self.starts is None else self.starts[index],
        )


@dataclass(frozen=True, eq=False)
class VectorBlock:
    """For each series (row) and step (column) a value, where `present`."""

    axis: Axis
    values: F64
    present: Bool
    histograms: Objects | None = None
    """For each cell its histogram, or None where it is a float or absent. None: all are floats."""

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        arrays = self.values.nbytes + self.present.nbytes
        return arrays if self.histograms is None else arrays + objects_size_bytes(self.histograms)

    @staticmethod
    def empty(steps: int) -> "VectorBlock":
        """No series."""
        return VectorBlock(Axis.of(()), np.zeros((0, steps)), np.zeros((0, steps), np.bool_))

    @property
    def is_histogram(self) -> Bool:
        """Which cells are histograms."""
        if self.histograms is None:
            return np.zeros(self.present.shape, np.bool_)
        return are_histograms(self.histograms) & self.present

    @property
    def is_float(self) -> Bool:
        """Which cells are floats."""
        return self.present if self.histograms is None else self.present & ~self.is_histogram

    def take(self, rows: I64) -> "VectorBlock":
        """Some of the series, in the order of `rows`."""
        return VectorBlock(
            self.axis.take(rows),
            self.values[rows],
            self.present[rows],
            None if self.histograms is None else self.histograms[rows],
        )

    def cut(self, low: int, high: int) -> "VectorBlock":
        """Some of the steps."""
        return VectorBlock(
            self.axis,
            self.values[:, low:high],
            self.present[:, low:high],
            None if self.histograms is None else self.histograms[:, low:high],
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScalarBlock:
    """One number for each step."""

    values: F64


@dataclass(frozen=True, slots=True)
class StringBlock:
    """A string, the same for every step."""

    value: str


Block: TypeAlias = VectorBlock | ScalarBlock | StringBlock
