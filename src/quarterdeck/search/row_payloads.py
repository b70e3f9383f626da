"""Result rows as bytes, and back without trusting them.

    payload = xxh3_128 of the rest, 16 bytes | one Arrow IPC stream, its buffers compressed with LZ4

What comes from a worker is checked from outside to inside, and nothing is used before everything was checked: the
checksum; the kinds of messages; the columns, which are known beforehand, so that no unexpected type gets in; the
unpacked sizes that the buffers announce, before memory is taken for them; and finally each value: offsets, text,
lengths. Arrow itself checks none of that: a batch with bad offsets ends the process that reads it.

It must not know frames.
"""

import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.format import Hasher
from quarterdeck.search.model import Sent
from quarterdeck.search.ports import RecordBatch
from quarterdeck.stores.limits import MIB

_arrow: Final[Any] = pyarrow

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""

LARGEST_PAYLOAD_BYTES: Final = 64 * MIB
LARGEST_UNPACKED_BYTES: Final = 256 * MIB
"""What a payload may take in memory. Only a row that is as large alone takes more than `_TOGETHER_BYTES`."""
DIGEST_BYTES: Final = 16
_TOGETHER_BYTES: Final = 4 * MIB
"""Of rows, before they are compressed: enough for the frames to cost nothing, little enough to be sent as they come."""
_LARGEST_ROW_BYTES: Final = LARGEST_UNPACKED_BYTES // 2
"""Half, because what a reader allows for has to be more than what a writer counts."""
_LENGTH: Final = struct.Struct("<q")
_LARGE_BYTES: Final = 128 * 1024
"""Of a payload that may take tens of megabytes unpacked: LZ4 makes up to 255 bytes of one."""
_LARGE_TURNS: Final = threading.Semaphore(4)
"""For those to be unpacked, in all threads: each may take `LARGEST_UNPACKED_BYTES`."""


class RowsError(Exception):
    """What came are no rows, or not those that were expected."""


# Writing


class RowPayloads:
    """Makes payloads, and keeps count of them."""

    def __init__(self) -> None:
        self._tally = Tally()

    @property
    def sent(self) -> Sent:
        """What was made so far."""
        return self._tally.sent

    def of(self, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
        """As few as their size allows; small batches go together, large ones in parts."""
        waiting: list[RecordBatch] = []
        waiting_bytes = 0
        for batch in batches:
            for part in _parts(batch):
                if waiting and (
                    waiting_bytes + part.nbytes > _TOGETHER_BYTES or not part.schema.equals(waiting[0].schema)
                ):
                    yield self._payload(waiting)
                    waiting, waiting_bytes = [], 0
                waiting.append(part)
                waiting_bytes += part.nbytes
        if waiting:
            yield self._payload(waiting)

    def _payload(self, batches: list[RecordBatch]) -> bytes:
        stream = _encoded(batches)
        digest = Hasher(stream).digest()
        self._tally.add(digest, sum(batch.num_rows for batch in batches), DIGEST_BYTES + len(stream))
        return digest + stream


class Tally:
    """Counts payloads of one answer, in their order."""

    def __init__(self) -> None:
        self._payloads = 0
        self._rows = 0
        self._size_bytes = 0
        self._hasher = Hasher()
        """Of the checksums of all: as good as one of all bytes, and no second look at them."""

    def add(self, digest: bytes, rows: int, size_bytes: int) -> None:
        self._payloads += 1
        self._rows += rows
        self._size_bytes += size_bytes
        self._hasher.update(digest)

    @property
    def sent(self) -> Sent:
        return Sent(self._payloads, self._rows, self._size_bytes, self._hasher.hexdigest())


def _parts(batch: RecordBatch) -> Iterator[RecordBatch]:
    rows = max(1, batch.num_rows * _TOGETHER_BYTES // max(1, batch.nbytes))
    if rows >= batch.num_rows:
        yield batch
        return
    for at in range(0, batch.num_rows, rows):
        yield batch.slice(at, rows)


def _encoded(batches: list[RecordBatch]) -> bytes:
    sink = _arrow.BufferOutputStream()
    options = _arrow.ipc.IpcWriteOptions(compression="lz4")
    with _arrow.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream = sink.getvalue().to_pybytes()
    unpacked_bytes = sum(batch.nbytes for batch in batches)
    for size_bytes, limit_bytes in (
        (DIGEST_BYTES + len(stream), LARGEST_PAYLOAD_BYTES),
        (unpacked_bytes, _LARGEST_ROW_BYTES),
    ):
        if size_bytes > limit_bytes:
            raise QuarterdeckError(
                ErrorCode.RESOURCE_EXHAUSTED,
                "the result was not sent",
                f"one of its rows takes {size_bytes:,} bytes, and {limit_bytes:,} can be sent",
                "cut the fields that you need",
                retryable=False,
            )
    return stream


# Reading


def read_rows(payload: bytes) -> Iterator[RecordBatch]:
    """Of a payload that this process made, or has checked."""
    with _arrow.ipc.open_stream(memoryview(payload)[DIGEST_BYTES:]) as stream:
        yield from stream


def is_whole(payload: bytes) -> bool:
    """Whether its bytes are those that were hashed."""
    return Hasher(memoryview(payload)[DIGEST_BYTES:]).digest() == payload[:DIGEST_BYTES]


def checked_rows(payload: bytes, schema: Schema) -> list[RecordBatch]:
    """Of a payload that somebody sent, who is to send rows of these columns. Raises `RowsError`, whatever it is."""
    if not is_whole(payload):
        raise RowsError("they are not those that were hashed")
    if len(payload) <= _LARGE_BYTES:
        return _checked_or_refused(payload, schema)
    with _LARGE_TURNS:
        return _checked_or_refused(payload, schema)


def _checked_or_refused(payload: bytes, schema: Schema) -> list[RecordBatch]:
    try:
        return _checked(memoryview(payload)[DIGEST_BYTES:], schema)
    except (_arrow.ArrowException, OSError, MemoryError) as error:  # what is damaged is one of these
        raise RowsError(str(error)) from error
    except (struct.error, ValueError) as error:
        raise RowsError(f"its messages make no sense: {error}") from error


def _checked(stream: memoryview, schema: Schema) -> list[RecordBatch]:
    batches: list[RecordBatch] = []
    left_bytes = LARGEST_UNPACKED_BYTES
    messages = iter(_arrow.ipc.MessageReader.open_stream(stream))
    _insist_columns(next(messages, None), schema)
    for message in messages:
        if message.type != "record batch":
            raise RowsError(f"there is a message of the kind {message.type!r}")
        left_bytes -= _unpacked_bytes(memoryview(message.metadata), memoryview(message.body))
        if left_bytes < 0:
            raise RowsError(f"they say that they take more than {LARGEST_UNPACKED_BYTES:,} bytes unpacked")
        batch = _arrow.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        if not batch.num_rows:
            raise RowsError("there is a batch without rows")
        batches.append(batch)
    if not batches:
        raise RowsError("there are none")
    return batches


def _insist_columns(message: Any, schema: Schema) -> None:
    if message is None or message.type != "schema":
        raise RowsError("it does not begin with its columns")
    found = _arrow.ipc.read_schema(message)
    if not found.equals(schema, check_metadata=True):
        raise RowsError("their columns are not those of this search")


# Arrow's messages are flatbuffers (format/Message.fbs in Arrow's repository). What a record batch unpacks to, pyarrow
# does not tell, and it must be known before the batch is asked for.

_MESSAGE_HEADER: Final = 2
_BATCH_BUFFERS: Final = 2
_BATCH_COMPRESSION: Final = 3
_BUFFER: Final = struct.Struct("<qq")
_NOT_PACKED: Final = -1


def _unpacked_bytes(metadata: memoryview, body: memoryview) -> int:
    """What the buffers of a record batch say they take. Each that is compressed begins with its length, or with -1 if
    it is not after all."""
    message = _number("<I", metadata, 0)
    batch = _target(metadata, message, _MESSAGE_HEADER)
    buffers = None if batch is None else _target(metadata, batch, _BATCH_BUFFERS)
    if batch is None or buffers is None:
        raise RowsError("there is a record batch without buffers")
    is_packed = _place(metadata, batch, _BATCH_COMPRESSION) is not None
    total_bytes = 0
    for number in range(_number("<I", metadata, buffers)):
        at, length = _BUFFER.unpack_from(metadata, buffers + 4 + number * _BUFFER.size)
        if at < 0 or length < 0 or at + length > len(body):
            raise RowsError("there is a buffer outside of its message")
        if is_packed and length:
            (told,) = _LENGTH.unpack_from(body, at)
            if told < _NOT_PACKED:
                raise RowsError(f"there is a buffer of {told} bytes")
            total_bytes += length if told == _NOT_PACKED else told
        else:
            total_bytes += length
    return total_bytes


def _target(data: memoryview, table: int, field: int) -> int | None:
    """Where the table or the list begins that a field refers to."""
    place = _place(data, table, field)
    return None if place is None else place + _number("<I", data, place)


def _place(data: memoryview, table: int, field: int) -> int | None:
    """Where a field is; None if the table does not have it."""
    layout = table - _number("<i", data, table)
    at = 4 + 2 * field
    if at >= _number("<H", data, layout):
        return None
    offset = _number("<H", data, layout + at)
    return table + offset if offset else None


def _number(form: str, data: memoryview, at: int) -> int:
    if at < 0:
        raise RowsError("there is a place before the beginning")
    return struct.unpack_from(form, data, at)[0]
