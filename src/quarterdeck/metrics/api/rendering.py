"""`render_result`: what a query answers, as the JSON that Prometheus sends.

An answer may be large: it comes as chunks of bytes, made as they are asked for, and is never in memory as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from quarterdeck.metrics.api.histogram_text import histogram_texts
from quarterdeck.metrics.api.json_text import LabelTexts, json_bytes
from quarterdeck.metrics.api.numbers import show_seconds
from quarterdeck.metrics.api.samples import chunks_of
from quarterdeck.metrics.promql.blocks import I64, Bool, SeriesBlock, are_histograms, totals_before
from quarterdeck.metrics.promql.floats import show_float
from quarterdeck.metrics.promql.result import Result, Scalar, String, Value, Vector

LEAST_BYTES: Final = 64 * 1024
"""Of a chunk that is not the last one."""

_ROWS: Final = 1024
"""So many series are prepared at once."""
_HISTOGRAMS: Final = 4096
"""About so many histograms are written at once: of one kilobyte each, as a rule."""


def render_result(result: Result, extra: Mapping[str, object] | None = None) -> Iterator[bytes]:
    """The whole body. `extra` are more members of `data`, such as how the query was run.

    >>> b"".join(render_result(Result(Scalar(4000, 2.0))))
    b'{"status":"success","data":{"resultType":"scalar","result":[4,"2"]}}'
    """
    return _gathered(_parts(result, extra or {}))


def _parts(result: Result, extra: Mapping[str, object]) -> Iterator[bytes]:
    yield b'{"status":"success","data":{"resultType":"%s","result":' % _kind(result.value)
    yield from _value(result.value)
    for name, value in extra.items():
        yield b"," + json_bytes(name) + b":" + json_bytes(value)
    yield b"}"
    for name, texts in ((b"warnings", result.warnings), (b"infos", result.infos)):
        if texts:
            yield b',"%s":%s' % (name, json_bytes(texts))
    yield b"}"


def _kind(value: Value) -> bytes:
    match value:
        case Scalar():
            return b"scalar"
        case String():
            return b"string"
        case Vector():
            return b"vector"
        case SeriesBlock():
            return b"matrix"


def _value(value: Value) -> Iterator[bytes]:
    match value:
        case Scalar(time_ms=time_ms, value=number):
            return iter([_pair(time_ms, show_float(number))])
        case String(time_ms=time_ms, value=text):
            return iter([_pair(time_ms, text)])
        case Vector():
            return _vector(value)
        case SeriesBlock():
            return _matrix(value)


def _pair(time_ms: int, text: str) -> bytes:
    """A scalar or a string, whose numbers Prometheus writes in another way: never with an exponent or with zeros."""
    return f"[{show_float(time_ms / 1000)},".encode() + json_bytes(text) + b"]"


def _vector(vector: Vector) -> Iterator[bytes]:
    """Each series with its one sample, which is a float or a histogram."""
    labels, known = vector.labels, LabelTexts()
    is_histogram: Bool = np.zeros(len(labels), np.bool_)
    if vector.histograms is not None:
        is_histogram = are_histograms(vector.histograms)
    time = show_seconds(vector.time_ms).encode()
    yield b"["
    before = b""
    for low in range(0, len(labels), _ROWS):
        rows = slice(low, low + _ROWS)
        floats = ~is_histogram[rows]
        names = [b',"value":' if is_float else b',"histogram":' for is_float in floats.tolist()]
        openings = [b'{"metric":' + known.object(one) + name for one, name in zip(labels[rows], names, strict=True)]
        closings = [b"}"] * len(openings)
        if vector.histograms is not None:
            places: list[int] = np.flatnonzero(is_histogram[rows]).tolist()
            shown = histogram_texts(vector.histograms[rows][places].tolist())
            for place, text in zip(places, shown, strict=True):
                closings[place] = b"[%s,%s]}" % (time, text)
        times: I64 = np.full(np.count_nonzero(floats), vector.time_ms, np.int64)
        texts = _between(before, openings, closings)
        yield from chunks_of(texts, totals_before(floats), times, vector.values[rows][floats])
        before = closings[-1] + b","
    yield before[:-1] + b"]"


def _matrix(block: SeriesBlock) -> Iterator[bytes]:
    """Each series with its floats, and then its histograms."""
    labels, known = block.axis.shown, LabelTexts()
    floats, histograms = _apart(block)
    has_floats: list[bool] = (np.diff(floats.offsets) > 0).tolist()
    yield b"["
    before = b""
    for low, high in _batches(len(labels), None if histograms is None else histograms.offsets):
        there = has_floats[low:high]
        names = [b',"values":[' if some else b"" for some in there]
        openings = [b'{"metric":' + known.object(one) + name for one, name in zip(labels[low:high], names, strict=True)]
        closings = [b"]" if some else b"" for some in there]
        if histograms is not None:
            written = _histogram_lists(histograms, low, high)
            closings = [one + more for one, more in zip(closings, written, strict=True)]
        texts = _between(before, openings, [one + b"}" for one in closings])
        yield from chunks_of(texts, floats.offsets[low : high + 1], floats.timestamps, floats.values)
        before = closings[-1] + b"},"
    yield before[:-1] + b"]"


def _between(before: bytes, openings: Sequence[bytes], closings: Sequence[bytes]) -> list[bytes]:
    """What stands before the samples of each series: the end of the one before it, and its own beginning."""
    return [before + openings[0], *(b"%s,%s" % pair for pair in zip(closings[:-1], openings[1:], strict=True))]


def _apart(block: SeriesBlock) -> tuple[SeriesBlock, SeriesBlock | None]:
    """The floats and the histograms of all series."""
    if block.histograms is None:
        return block, None
    is_histogram = are_histograms(block.histograms)
    return block.filter(~is_histogram), block.filter(is_histogram)


def _batches(rows: int, histogram_offsets: I64 | None) -> Iterator[tuple[int, int]]:
    """Ranges of rows, none with much more than one row's histograms or `_HISTOGRAMS`."""
    low = 0
    while low < rows:
        high = min(low + _ROWS, rows)
        if histogram_offsets is not None:
            most = int(histogram_offsets[low]) + _HISTOGRAMS
            fitting = int(np.searchsorted(histogram_offsets, most))
            high = max(low + 1, min(high, fitting))
        yield low, high
        low = high


def _histogram_lists(block: SeriesBlock, low: int, high: int) -> list[bytes]:
    """For each row the member that holds its histograms; nothing if it has none."""
    assert block.histograms is not None, "the caller has seen some"
    offsets: list[int] = (block.offsets[low : high + 1] - block.offsets[low]).tolist()
    place = slice(int(block.offsets[low]), int(block.offsets[high]))
    found: list[Any] = block.histograms[place].tolist()
    times: list[int] = block.timestamps[place].tolist()
    shown = [
        b"[%s,%s]" % (show_seconds(time_ms).encode(), text)
        for time_ms, text in zip(times, histogram_texts(found), strict=True)
    ]
    lists = [b",".join(shown[start:end]) for start, end in pairwise(offsets)]
    return [b',"histograms":[%s]' % one if one else b"" for one in lists]


def _gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks that are worth sending."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= LEAST_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size = 0
    if waiting:
        yield b"".join(waiting)
