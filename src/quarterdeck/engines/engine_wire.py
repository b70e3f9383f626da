"""What a process and its engine's process say to each other over a pair of sockets.

A frame is a kind, the number of its query, the query's progress, and a payload. A question goes one way, and may be
followed by any number of interrupts. The other way come a schema, batches and an end, or an error, and progress while
nothing else does. A batch is an Arrow stream of its own, so that it can be read without those before it.

The process that asks does not trust the other one, because native code reads foreign files there. A breach of these
rules is a `BrokenAnswerError`.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import IntEnum
from socket import socket
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.result_shape import check_shape

_arrow: Any = pyarrow

Schema: TypeAlias = Any
"""A `pyarrow.Schema`."""
RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""

_HEADER: Final = struct.Struct("<BxxxIdQ")
HEADER_BYTES: Final = _HEADER.size
_QUESTION_MAX: Final = 2 * 1024**3
"""Bytes of a question: a query, the names of its files, and what was read of them already."""
_WORDS_MAX: Final = 2_000
"""Characters of each part of an error. SQL can make DuckDB say a hundred megabytes, and whoever hears it logs it."""
_ERROR_MAX: Final = 128 * 1024
"""Bytes of an error: its three parts, when each character takes as many as JSON can need."""


class BrokenAnswerError(Exception):
    """What came is none of what may come."""


class FrameKind(IntEnum):
    QUESTION = 1
    INTERRUPT = 2
    SCHEMA = 3
    BATCH = 4
    END = 5
    ERROR = 6
    PROGRESS = 7


@dataclass(frozen=True, slots=True)
class Header:
    kind: FrameKind
    query: int
    fraction: float
    """From 0 to 1."""
    size_bytes: int
    """Of the payload that follows."""


def header_of(kind: FrameKind, query: int, size_bytes: int = 0, fraction: float = 0.0) -> bytes:
    return _HEADER.pack(kind, query, fraction, size_bytes)


def read_header(data: bytes | bytearray, size_max: int = _QUESTION_MAX) -> Header:
    kind, query, fraction, size_bytes = _HEADER.unpack(data)
    if size_bytes > size_max:
        raise BrokenAnswerError(f"a frame of {size_bytes} bytes")
    try:
        header = Header(FrameKind(kind), query, fraction if 0 <= fraction <= 1 else 0.0, size_bytes)
    except ValueError:
        raise BrokenAnswerError(f"a frame of the kind {kind}") from None
    if header.kind is FrameKind.ERROR and size_bytes > _ERROR_MAX:
        raise BrokenAnswerError(f"an error of {size_bytes} bytes")
    return header


def send_frame(link: socket, kind: FrameKind, query: int, *payload: Any, fraction: float = 0.0) -> None:
    """`payload` is one or more of bytes, or of pyarrow's buffers."""
    views = [memoryview(part).cast("B") for part in payload]
    size_bytes = sum(view.nbytes for view in views)
    header = header_of(kind, query, size_bytes, fraction)
    if size_bytes < 64 * 1024:
        link.sendall(b"".join((header, *views)))
        return
    link.sendall(header)
    for view in views:
        link.sendall(view)


def receive_exactly(size_bytes: int, receive: Callable[[memoryview], int]) -> Any:
    """A buffer of pyarrow's with as many bytes, taken a part at a time; None if there is an end before."""
    buffer = _arrow.allocate_buffer(size_bytes)
    view = memoryview(buffer)
    while view.nbytes:
        count = receive(view)
        if not count:
            return None
        view = view[count:]
    return buffer


# Payloads


def encode_schema(schema: Schema) -> Any:
    return schema.serialize()


def decode_schema(payload: Any) -> Schema:
    try:
        schema = _arrow.ipc.read_schema(payload)
        check_shape(schema)
    except (_arrow.ArrowException, OSError, QuarterdeckError) as error:
        raise BrokenAnswerError(str(error)) from error
    return schema


def encode_batch(batch: RecordBatch) -> Any:
    sink = _arrow.BufferOutputStream()
    with _arrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def decode_batch(payload: Any, schema: Schema) -> RecordBatch:
    """Its memory is the payload's. Looked through to the last offset: a wrong one would end who reads it."""
    try:
        with _arrow.ipc.open_stream(payload) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (_arrow.ArrowException, OSError, StopIteration) as error:
        raise BrokenAnswerError(str(error)) from error
    if not batch.schema.equals(schema):
        raise BrokenAnswerError("a batch of another schema")
    return batch


@dataclass(frozen=True, slots=True)
class _Failure:
    code: str
    what: str
    why: str
    next_step: str
    retryable: bool


def encode_error(error: QuarterdeckError) -> bytes:
    what, why, next_step = map(_cut, (error.what, error.why, error.next_step))
    failure = _Failure(error.code.value, what, why, next_step, error.retryable)
    return json.dumps(asdict(failure)).encode()


def _cut(words: str) -> str:
    return words if len(words) <= _WORDS_MAX else words[:_WORDS_MAX] + " ..."


def decode_error(payload: Any) -> QuarterdeckError:
    try:
        failure = _Failure(**json.loads(bytes(payload)))
        return QuarterdeckError(
            ErrorCode(failure.code), failure.what, failure.why, failure.next_step, retryable=failure.retryable
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise BrokenAnswerError(str(error)) from error
