"""Lines as a stream of Arrow batches, which DuckDB reads: where each line is, whether it is a record, and where in it
the values of some keys are. No byte of them is copied.

The columns are `line`, which is NULL where `bad` is true; `file`, the number of its file; and for each key `r0`, `r1`
and so on, a value as it stands in the line and NULL where it is absent or null, and `c0`, `c1`, its `ValueKind`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.recruiter.engine.line_buffer import LineBuffer
from quarterdeck.recruiter.engine.line_call import DEEPEST, MARGIN_BYTES, Call
from quarterdeck.recruiter.engine.line_code import SCAN_LINES

_arrow: Final[Any] = pyarrow
_TEXT: Final[Any] = _arrow.string_view()
_ROOM: Final = 8192
"""Rows of a batch."""
Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
Stream: TypeAlias = Any
"""A `pyarrow.RecordBatchReader`."""


def scanned(buffer: LineBuffer, keys: Sequence[str]) -> Stream:
    """All lines in their order, once. The keys are different ones."""
    schema = _schema(len(keys))
    return _arrow.RecordBatchReader.from_batches(schema, _batches(buffer, keys, schema))


def _schema(key_count: int) -> Any:
    fields = [("line", _TEXT), ("bad", _arrow.bool_()), ("file", _arrow.int32())]
    for number in range(key_count):
        fields += [(f"r{number}", _TEXT), (f"c{number}", _arrow.uint8())]
    return _arrow.schema(fields)


def _batches(buffer: LineBuffer, keys: Sequence[str], schema: Any) -> Iterator[Batch]:
    scan_lines = SCAN_LINES.load()
    encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
    text = numpy.frombuffer(b"".join(encoded) + bytes(MARGIN_BYTES), numpy.uint8)
    ends = numpy.cumsum([0, *map(len, encoded)], dtype=numpy.int64)[1:]
    stack = numpy.empty(DEEPEST, numpy.uint8)
    room = buffer.room
    shared = _arrow.py_buffer(room)
    call = numpy.zeros(len(Call), numpy.int64)
    call[Call.BASE] = room.ctypes.data
    call[Call.KEYS] = text.ctypes.data
    call[Call.KEY_ENDS] = ends.ctypes.data
    call[Call.KEY_COUNT] = len(keys)
    call[Call.ROOM] = _ROOM
    call[Call.STACK] = stack.ctypes.data
    address = call.ctypes.data
    for file, (start, end) in enumerate(buffer.parts):
        call[Call.PLACE], call[Call.END] = start, end
        while call[Call.PLACE] < end:
            views = numpy.empty((1 + len(keys), _ROOM, 2), numpy.uint64)
            bits = numpy.zeros((2 + len(keys), _ROOM // 8), numpy.uint8)
            kinds = numpy.zeros((len(keys), _ROOM), numpy.uint8)
            call[Call.LINES] = views.ctypes.data
            call[Call.VIEWS] = views.ctypes.data + 16 * _ROOM
            call[Call.GOOD] = bits.ctypes.data
            call[Call.BAD] = bits.ctypes.data + _ROOM // 8
            call[Call.THERE] = bits.ctypes.data + 2 * _ROOM // 8
            call[Call.KINDS] = kinds.ctypes.data
            scan_lines(address)
            rows = int(call[Call.ROWS])
            if rows:
                yield _batch(schema, shared, rows, file, views, bits, kinds)


def _batch(schema: Any, shared: Any, rows: int, file: int, views: Any, bits: Any, kinds: Any) -> Batch:
    def texts(number: int, there: int) -> Any:
        buffers = [_arrow.py_buffer(bits[there]), _arrow.py_buffer(views[number]), shared]
        return _arrow.Array.from_buffers(_TEXT, rows, buffers)

    columns = [
        texts(0, 0),
        _arrow.Array.from_buffers(_arrow.bool_(), rows, [None, _arrow.py_buffer(bits[1])]),
        _arrow.Array.from_buffers(_arrow.int32(), rows, [None, _arrow.py_buffer(numpy.full(rows, file, numpy.int32))]),
    ]
    for number in range(len(kinds)):
        columns.append(texts(1 + number, 2 + number))
        columns.append(_arrow.Array.from_buffers(_arrow.uint8(), rows, [None, _arrow.py_buffer(kinds[number])]))
    return _arrow.RecordBatch.from_arrays(columns, schema=schema)
