"""Frames of a stream of results: one event of server-sent events for each sample, by rising time.

A frame is `data: {"type":"result","data":{"tags":{…},"value":1,"timestamp":1435781430781,"label":"up{…}"}}` and an
empty line; the time is in milliseconds. JSON has no numbers for not-a-number and the infinities: these values are the
texts `"NaN"`, `"+Inf"` and `"-Inf"`. A native histogram stands in a member `histogram` instead of `value`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.api.decimals import ROOM_BYTES, U64, Bytes, write_float, write_text, write_whole
from quarterdeck.metrics.api.histogram_text import histogram_texts
from quarterdeck.metrics.api.json_text import LabelTexts, json_bytes
from quarterdeck.metrics.api.samples import CHUNK_BYTES
from quarterdeck.metrics.api.series_text import show_series
from quarterdeck.metrics.promql.blocks import (
    I64,
    Axis,
    Block,
    Bool,
    Grid,
    ScalarBlock,
    StringBlock,
    VectorBlock,
    totals_before,
)
from quarterdeck.metrics.promql.exec.remembered import Remembered
from quarterdeck.metrics.promql.exec.scalars import NO_LABELS
from quarterdeck.metrics.promql.kernels.compile import given, kernel, warms

_TIME: Final = b',"timestamp":'
_TIME_TEXT: Final = np.frombuffer(_TIME, np.uint8)
_CELL_BYTES: Final = 2 * ROOM_BYTES + len(_TIME) + 2
_NOT_FINITE: Final = np.uint64(0x7FF0000000000000)


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """What stands before or after the number, for many series: that of series `i` from `starts[i]` on."""

    joined: Bytes
    starts: I64
    longest: int

    @staticmethod
    def of(texts: Sequence[bytes]) -> "_Texts":
        lengths = np.array([len(text) for text in texts], np.int64)
        joined = given(np.frombuffer(b"".join(texts), np.uint8))
        return _Texts(joined, given(totals_before(lengths)), max(map(len, texts), default=0))


@dataclass(frozen=True, slots=True, eq=False)
class _Series:
    heads: _Texts
    tails: _Texts


@kernel
def _fill(
    out: Bytes,
    heads: Bytes,
    head_starts: I64,
    tails: Bytes,
    tail_starts: I64,
    times: I64,
    bits: U64,
    present: Bool,
    step: int,
    row: int,
) -> tuple[int, int, int]:
    """Write frames from a row of a step on, until there is no room; the number of bytes, and where to go on."""
    position = 0
    while step < len(times):
        while row < len(present):
            if present[row, step]:
                text = head_starts[row + 1] - head_starts[row] + tail_starts[row + 1] - tail_starts[row]
                if position + text + _CELL_BYTES > len(out):
                    return position, step, row
                position = write_text(out, position, heads, head_starts[row], head_starts[row + 1])
                quoted = bits[row, step] & _NOT_FINITE == _NOT_FINITE
                if quoted:
                    out[position] = 34  # "
                    position += 1
                position = write_float(out, position, bits[row, step])
                if quoted:
                    out[position] = 34
                    position += 1
                position = write_text(out, position, _TIME_TEXT, 0, len(_TIME_TEXT))
                if times[step] < 0:
                    out[position] = 45  # -
                    position += 1
                position = write_whole(out, position, np.uint64(abs(times[step])))
                position = write_text(out, position, tails, tail_starts[row], tail_starts[row + 1])
            row += 1
        row = 0
        step += 1
    return position, step, row


class ResultFrames:
    """Makes frames of the blocks of one query, in chunks of bytes."""

    def __init__(self) -> None:
        self._series: Final[Remembered[_Series]] = Remembered()

    def of(self, grid: Grid, block: Block) -> Iterator[bytes]:
        """A frame for each sample of a block."""
        vector = as_vector(block)
        series = self._series.of((vector.axis,), lambda: _texts_of(vector.axis))
        if vector.histograms is None or not vector.is_histogram.any():
            yield from _floats(series, grid.times(), vector)
            return
        floats, times = VectorBlock(vector.axis, vector.values, vector.is_float), grid.times()
        for step in range(grid.count):
            yield from _floats(series, times[step : step + 1], floats.cut(step, step + 1))
            yield from _histograms(int(times[step]), vector.cut(step, step + 1))


def as_vector(block: Block) -> VectorBlock:
    """The block as one of series; a scalar is one without labels."""
    match block:
        case VectorBlock():
            return block
        case ScalarBlock(values=values):
            return VectorBlock(NO_LABELS, values.reshape(1, -1), np.ones((1, len(values)), np.bool_))
        case StringBlock():
            raise TypeError("a range query answers with numbers")


def _texts_of(axis: Axis) -> _Series:
    known, shown = LabelTexts(), axis.shown
    heads = [b'data: {"type":"result","data":{"tags":%s,"value":' % known.object(labels) for labels in shown]
    tails = [b',"label":%s}}\n\n' % json_bytes(show_series(labels)) for labels in shown]
    return _Series(_Texts.of(heads), _Texts.of(tails))


def _floats(series: _Series, times: I64, block: VectorBlock) -> Iterator[bytes]:
    heads, tails = series.heads, series.tails
    out = np.empty(CHUNK_BYTES + heads.longest + tails.longest, np.uint8)
    bits, present = given(block.values).view(np.uint64), given(block.present)
    given_times = given(times)
    step = row = 0
    while step < len(times):
        written, step, row = _fill(
            out, heads.joined, heads.starts, tails.joined, tails.starts, given_times, bits, present, step, row
        )
        if written:
            yield out[:written].tobytes()


def _histograms(time_ms: int, block: VectorBlock) -> Iterator[bytes]:
    assert block.histograms is not None, "the caller has seen some"
    rows: list[int] = np.flatnonzero(block.is_histogram[:, 0]).tolist()
    known = LabelTexts()
    for row, text in zip(rows, histogram_texts(block.histograms[rows, 0].tolist()), strict=True):
        labels = block.axis.shown[row]
        yield b'data: {"type":"result","data":{"tags":%s,"histogram":%s,"timestamp":%d,"label":%s}}\n\n' % (
            known.object(labels),
            text,
            time_ms,
            json_bytes(show_series(labels)),
        )


@warms
def warm_frames() -> None:
    """One frame."""
    list(ResultFrames().of(Grid(0, 1, 1), ScalarBlock(np.zeros(1))))
