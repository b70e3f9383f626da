"""Lines as a stream of Arrow batches, which DuckDB reads: where each record is, and where in it the values of some
keys are. No byte of them is copied. Lines that are no records are counted, and are not there.

The columns are `line`, and for each key `r0`, `r1` and so on, a value as it stands in the line and NULL where it is
absent or null, and `c0`, `c1`, its `ValueKind`.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.search.engine.line_buffer import LineBuffer
from quarterdeck.search.engine.line_call import DEEPEST, MARGIN_BYTES, Call
from quarterdeck.search.engine.line_code import SCAN_LINES

_arrow: Final[Any] = pyarrow
_TEXT: Final[Any] = _arrow.string_view()
_KIND: Final[Any] = _arrow.uint8()
_ROOM: Final = 16_384
"""Rows of a batch."""
Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""
Stream: TypeAlias = Any
"""A `pyarrow.RecordBatchReader`."""


class LineScan:
    """All records of a buffer in their order, once. The keys are different ones."""

    def __init__(self, buffer: LineBuffer, keys: Sequence[str]) -> None:
        self.bad_lines: Final[dict[int, int]] = {}
        """How many lines are no records, by the number of their file; of what was read."""
        self._buffer = buffer
        self._keys = keys
        self._schema = _schema(len(keys))
        self._batches = self._scanned()

    def stream(self) -> Stream:
        return _arrow.RecordBatchReader.from_batches(self._schema, self._batches)

    def finish(self) -> None:
        """Counts the bad lines in what nobody has read: DuckDB reads nothing where no record can fulfil a condition."""
        deque(self._batches, 0)

    def _scanned(self) -> Iterator[Batch]:
        scan_lines = SCAN_LINES.load().of_address
        room, count = self._buffer.room, len(self._keys)
        encoded = [key.encode("utf-8", "surrogatepass") for key in self._keys]
        text = numpy.frombuffer(b"".join(encoded) + bytes(MARGIN_BYTES), numpy.uint8)
        ends = numpy.cumsum([0, *map(len, encoded)], dtype=numpy.int64)[1:]
        stack = numpy.empty(DEEPEST, numpy.uint8)
        shared = _arrow.py_buffer(room)
        call = numpy.zeros(len(Call), numpy.int64)
        call[Call.BASE] = room.ctypes.data
        call[Call.KEYS] = text.ctypes.data
        call[Call.KEY_ENDS] = ends.ctypes.data
        call[Call.KEY_COUNT] = count
        call[Call.ROOM] = _ROOM
        call[Call.STACK] = stack.ctypes.data
        address = call.ctypes.data
        for file, (start, end) in enumerate(self._buffer.parts):
            call[Call.PLACE], call[Call.END] = start, end
            while call[Call.PLACE] < end:
                views = numpy.empty((1 + count, _ROOM, 2), numpy.uint64)
                there = numpy.zeros((count, _ROOM // 8), numpy.uint8)
                kinds = numpy.zeros((count, _ROOM), numpy.uint8)
                call[Call.LINES] = views.ctypes.data
                call[Call.VIEWS] = views.ctypes.data + views.strides[0]
                call[Call.THERE] = there.ctypes.data
                call[Call.KINDS] = kinds.ctypes.data
                scan_lines(address)
                if bad := int(call[Call.BAD]):
                    self.bad_lines[file] = self.bad_lines.get(file, 0) + bad
                if rows := int(call[Call.ROWS]):
                    yield _batch(self._schema, shared, rows, views, there, kinds)


def _schema(key_count: int) -> Any:
    fields = [("line", _TEXT)]
    for number in range(key_count):
        fields += [(f"r{number}", _TEXT), (f"c{number}", _KIND)]
    return _arrow.schema(fields)


def _batch(schema: Any, shared: Any, rows: int, views: Any, there: Any, kinds: Any) -> Batch:
    wrapped, array = _arrow.py_buffer, _arrow.Array.from_buffers
    columns = [array(_TEXT, rows, [None, wrapped(views[0]), shared])]
    for number in range(len(kinds)):
        columns.append(array(_TEXT, rows, [wrapped(there[number]), wrapped(views[1 + number]), shared]))
        columns.append(array(_KIND, rows, [None, wrapped(kinds[number])]))
    return _arrow.RecordBatch.from_arrays(columns, schema=schema)
