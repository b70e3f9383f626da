r"""Whole lines of samples taken apart, all lines of a piece at once.

A line is `series value timestamp`: its last space stands before the time and the one before that before the value, or,
if there is an exemplar, both stand before ` # {`. Texts in quotes may hold spaces and even ` # {`, so this is a guess
for each line. It is proven right when all parts can be read: no line can be taken apart in two ways of which both are
right. Where a reader has a time for samples without one, a line with a single space may be `series value`, too. What is
not proven is left to the strict way.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from numpy.typing import NDArray
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.metrics.importing.dialects import Dialect
from quarterdeck.metrics.importing.line_source import MAX_LINE_BYTES
from quarterdeck.metrics.importing.numerals import values_of
from quarterdeck.metrics.promql.blocks import F64, I64, Bool

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute

_LINE_END, _SPACE, _HASH, _BRACE = b"\n #{"

_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"'
_NUMBER: Final = r"[+-]?[0-9]{1,15}(?:\.[0-9]{0,30})?(?:e[+-]?[0-9]{1,2})?"
_TIME: Final = r"[0-9]{1,12}(?:\.[0-9]{0,30})?"
_EXEMPLAR: Final = rf"\A# \{{(?:{_LABEL})?\}} {_NUMBER}(?: {_TIME})?\z"
"""One label at most: that two are not the same is for the strict way to see."""


@dataclass(frozen=True, slots=True, eq=False)
class SplitPiece:
    """What of a piece was taken apart. All arrays but the first two are for the lines in `taken`."""

    starts: I64
    """Where each line begins."""
    ends: I64
    """Where each line ends, before its line end."""
    taken: I64
    """Which lines, counted from 0, have parts that can be read; of their series that is still to be seen."""
    series: Any
    """A `pyarrow.StringArray`."""
    timestamps: I64
    values: F64

    @property
    def untaken(self) -> I64:
        """The other lines: comments, empty ones, unusual ones and wrong ones."""
        left = np.ones(self.starts.size, np.bool_)
        left[self.taken] = False
        return np.flatnonzero(left)


class _Parts(NamedTuple):
    """Where the parts of some lines lie."""

    lines: I64
    value_space: I64
    time_space: I64
    end: I64


def split(data: bytes, dialect: Dialect, at_ms: int | None = None) -> SplitPiece:
    """Takes whole lines of text apart. `at_ms` is the time of samples that have none."""
    view = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero((view == _LINE_END) | (view == _SPACE))
    line_marks = np.flatnonzero(view[marks] == _LINE_END)
    ends = marks[line_marks]
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1)) if ends.size else ends
    end_marks, exemplars = line_marks, np.zeros(0, np.int64)
    if dialect.has_exemplars:
        exemplars, spaces = _find_exemplars(view, starts, ends)
        end_marks = line_marks.copy()
        end_marks[exemplars] = np.searchsorted(marks, spaces)
    first_marks = np.concatenate((np.zeros(1, np.int64), line_marks[:-1] + 1)) if ends.size else ends
    good = (end_marks - first_marks >= 2) & (view[starts] != _HASH) & (ends - starts <= MAX_LINE_BYTES)
    if exemplars.size:
        good[exemplars] &= _are_exemplars(data, marks[end_marks[exemplars]] + 1, ends[exemplars])
    lines = np.flatnonzero(good)
    at = end_marks[lines]
    timed = _read(data, starts, ends, _Parts(lines, marks[at - 2], marks[at - 1], marks[at]), dialect)
    if at_ms is None:
        return timed
    lines = np.flatnonzero((end_marks - first_marks == 1) & (view[starts] != _HASH) & (ends - starts <= MAX_LINE_BYTES))
    return _with_timeless(data, timed, lines, marks[end_marks[lines] - 1], at_ms)


def _with_timeless(data: bytes, timed: SplitPiece, lines: I64, spaces: I64, at_ms: int) -> SplitPiece:
    """Adds lines of a series, a space and a value."""
    begins, ends = (timed.starts[lines], spaces + 1), (spaces, timed.ends[lines])
    series, values = _texts(data, begins, ends)
    numbers, sure = values_of(values)
    keep = np.flatnonzero(sure)
    taken = np.concatenate((timed.taken, lines[keep]))
    order = np.argsort(taken, kind="stable")
    return SplitPiece(
        timed.starts,
        timed.ends,
        taken[order],
        _arrow.concat_arrays([timed.series, series.take(keep)]).take(_arrow.array(order)),
        np.concatenate((timed.timestamps, np.full(keep.size, at_ms, np.int64)))[order],
        np.concatenate((timed.values, numbers[keep]))[order],
    )


def _read(data: bytes, starts: I64, ends: I64, parts: _Parts, dialect: Dialect) -> SplitPiece:
    lines = parts.lines
    begins = (starts[lines], parts.value_space + 1, parts.time_space + 1)
    series, values, times = _texts(data, begins, (parts.value_space, parts.time_space, parts.end))
    numbers, sure = values_of(values)
    timestamps, sure_times = dialect.times_of(times)
    sure &= sure_times
    if not sure.all():
        keep = np.flatnonzero(sure)
        lines, numbers, timestamps, series = lines[keep], numbers[keep], timestamps[keep], series.take(keep)
    return SplitPiece(starts, ends, lines, series, timestamps, numbers)


def _find_exemplars(view: NDArray[np.uint8], starts: I64, ends: I64) -> tuple[I64, I64]:
    """Lines in which ` # {` stands, and where it does, the last one of each line."""
    hashes = np.flatnonzero(view[:-2] == _HASH)
    hashes = hashes[(view[hashes - 1] == _SPACE) & (view[hashes + 1] == _SPACE) & (view[hashes + 2] == _BRACE)]
    lines = np.searchsorted(ends, hashes)
    last = np.append(lines[1:] != lines[:-1], True)[: lines.size]
    inside = last & (hashes > starts[lines])
    return lines[inside], hashes[inside] - 1


def _are_exemplars(data: bytes, begins: I64, ends: I64) -> Bool:
    (texts,) = _texts(data, (begins,), (ends,))
    return np.array(_compute.match_substring_regex(texts, _EXEMPLAR).to_numpy(zero_copy_only=False), np.bool_)


def _texts(data: bytes, begins: tuple[I64, ...], ends: tuple[I64, ...]) -> list[Any]:
    """Arrays of texts that lie one after the other in each line.

    Arrow's texts follow each other without gaps: the gaps are texts too, and are left out afterwards.
    """
    width = 2 * len(begins)
    bounds = np.empty((begins[0].size, width), np.int32)
    for at, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        bounds[:, 2 * at] = begin
        bounds[:, 2 * at + 1] = end
    buffers = [None, _arrow.py_buffer(bounds), _arrow.py_buffer(data)]
    everything = _arrow.Array.from_buffers(_arrow.string(), max(0, bounds.size - 1), buffers)
    return [everything.take(_arrow.array(np.arange(2 * at, bounds.size, width))) for at in range(len(begins))]
