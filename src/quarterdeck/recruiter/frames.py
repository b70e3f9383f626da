"""The answer to one chunk as it goes from a worker to a root: a stream of frames.

    frame   = length of the payload, 4 bytes, little-endian | kind, 1 byte | payload
    kind 1  = some result rows: one Arrow IPC stream, buffers compressed with LZ4
    kind 2  = progress, also as a sign of life: {"scanned_bytes": n}
    kind 3  = the report. It is the last frame: without it the stream was cut off, and nothing of it counts
    kind 4  = why there will be no report, as `http.errors` tells it. It is the last frame too

It must not know what is in the rows.
"""

import json
import struct
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.errors import rendered
from quarterdeck.recruiter.model import ChunkReport, FileProblem
from quarterdeck.recruiter.ports import RecordBatch
from quarterdeck.stores.limits import MIB

_arrow: Any = pyarrow

CONTENT_TYPE: Final = "application/vnd.quarterdeck.chunk"
LARGEST_FRAME_BYTES: Final = 64 * MIB
_FRAME_BYTES: Final = 4 * MIB
"""Of rows, before they are compressed: enough for the frames to cost nothing, little enough to be sent as they come."""
_HEAD: Final = struct.Struct("<IB")


class FrameKind(IntEnum):
    ROWS = 1
    PROGRESS = 2
    REPORT = 3
    ERROR = 4


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    payload: bytes


class FrameError(Exception):
    """What came is no frame, or not what its kind says."""


# Writing


def encode_rows(batches: Iterable[RecordBatch]) -> Iterator[bytes]:
    """Frames; see `row_payloads`."""
    return (_frame(FrameKind.ROWS, payload) for payload in row_payloads(batches))


def row_payloads(batches: Iterable[RecordBatch]) -> Iterator[bytes]:
    """What is in frames of rows: as few as their size allows; small batches go together, large ones in parts."""
    waiting: list[RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        for part in _parts(batch):
            if waiting and (waiting_bytes + part.nbytes > _FRAME_BYTES or not part.schema.equals(waiting[0].schema)):
                yield _encoded(waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(part)
            waiting_bytes += part.nbytes
    if waiting:
        yield _encoded(waiting)


def encode_progress(scanned_bytes: int) -> bytes:
    return _json_frame(FrameKind.PROGRESS, {"scanned_bytes": scanned_bytes})


def encode_report(report: ChunkReport) -> bytes:
    problems = [{"url": each.url, "why": each.why, "lines": each.lines} for each in report.problems]
    document = {
        "scanned_bytes": report.scanned_bytes,
        "matches": report.matches,
        "problems": problems,
        "seen": sorted(report.seen),
    }
    return _json_frame(FrameKind.REPORT, document)


def encode_error(error: QuarterdeckError) -> bytes:
    return _frame(FrameKind.ERROR, rendered(error))


def _parts(batch: RecordBatch) -> Iterator[RecordBatch]:
    rows = max(1, batch.num_rows * _FRAME_BYTES // max(1, batch.nbytes))
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
    payload = sink.getvalue().to_pybytes()
    if len(payload) > LARGEST_FRAME_BYTES:
        raise QuarterdeckError(
            ErrorCode.RESOURCE_EXHAUSTED,
            "the result was not sent",
            f"one of its rows takes {len(payload):,} bytes, and {LARGEST_FRAME_BYTES:,} can be sent",
            "cut the fields that you need",
            retryable=False,
        )
    return payload


def _json_frame(kind: FrameKind, document: object) -> bytes:
    return _frame(kind, json.dumps(document, separators=(",", ":")).encode())


def _frame(kind: FrameKind, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), kind) + payload


# Reading


class FrameDecoder:
    """Give it bytes as they come."""

    def __init__(self, limit_bytes: int = LARGEST_FRAME_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._have_bytes = 0
        self._need_bytes = _HEAD.size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now; all of them, if it is iterated to its end. Raises `FrameError`."""
        self._pieces.append(data)
        self._have_bytes += len(data)
        if self._have_bytes < self._need_bytes:  # else every piece of a large frame would be copied again and again
            return
        buffer = b"".join(self._pieces)
        at = 0
        self._need_bytes = _HEAD.size
        while len(buffer) - at >= _HEAD.size:
            length, kind = _HEAD.unpack_from(buffer, at)
            if length > self._limit_bytes:
                raise FrameError(f"a frame of {length:,} bytes came, and {self._limit_bytes:,} is the most")
            end = at + _HEAD.size + length
            if end > len(buffer):
                self._need_bytes = end - at
                break
            yield Frame(_kind(kind), buffer[at + _HEAD.size : end])
            at = end
        rest = buffer[at:]
        self._pieces = [rest] if rest else []
        self._have_bytes = len(rest)


def decode_rows(payload: bytes) -> list[RecordBatch]:
    try:
        with _arrow.ipc.open_stream(payload) as stream:
            return list(stream)
    except (_arrow.ArrowException, OSError) as error:  # what is damaged is one of both
        raise FrameError(f"rows that cannot be read: {error}") from error


def decode_progress(payload: bytes) -> int:
    """The bytes that were scanned so far."""
    with _told("progress"):
        return int(json.loads(payload)["scanned_bytes"])


def decode_report(payload: bytes) -> ChunkReport:
    with _told("a report"):
        document = json.loads(payload)
        problems = tuple(
            FileProblem(str(each["url"]), str(each["why"]), int(each["lines"])) for each in document["problems"]
        )
        scanned_bytes, matches = int(document["scanned_bytes"]), int(document["matches"])
        return ChunkReport(scanned_bytes, matches, problems, frozenset(map(str, document["seen"])))


def decode_error(payload: bytes) -> QuarterdeckError:
    """Of a frame, or of a response that is an error."""
    with _told("an error"):
        told = json.loads(payload)["error"]
        return QuarterdeckError(
            ErrorCode(told["code"]), str(told["what"]), str(told["why"]), str(told["next_step"]), told["retryable"]
        )


@contextmanager
def _told(what: str) -> Generator[None]:
    """What is wrong with a document is a `FrameError`."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise FrameError(f"{what} that cannot be read: {error!r}") from error


def _kind(number: int) -> FrameKind:
    try:
        return FrameKind(number)
    except ValueError:
        raise FrameError(f"there is no frame of kind {number}") from None
