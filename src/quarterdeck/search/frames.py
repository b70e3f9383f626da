"""The answer to one chunk as it goes from a worker to a root: a stream of frames.

    frame   = length of the payload, 4 bytes, little-endian | kind, 1 byte | payload
    kind 1  = some result rows, with their checksum: see `row_payloads`
    kind 2  = progress, also as a heartbeat: {"scanned_bytes": n}
    kind 3  = the report, with what was sent. It is the last frame: without it the stream was cut off, and nothing of it
              counts
    kind 4  = why there will be no report, in the form of `http.errors`. It is also the last frame

Nothing that comes is trusted: a frame that is too long, too deep, out of range or of another type is a `FrameError`,
and nothing else is raised. `answer_check` checks whether a report fits what was asked.

It must not know what is in the rows.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.http.error_documents import parse_error, rendered
from quarterdeck.search.model import ChunkReport, FileProblem, Sent
from quarterdeck.search.ports import RecordBatch
from quarterdeck.search.row_payloads import LARGEST_PAYLOAD_BYTES, RowPayloads
from quarterdeck.stores.limits import MIB

ModelT = TypeVar("ModelT", bound=BaseModel)

CONTENT_TYPE: Final = "application/vnd.quarterdeck.chunk"
LARGEST_FRAME_BYTES: Final = LARGEST_PAYLOAD_BYTES
_HEAD: Final = struct.Struct("<IB")
_MOST_WORDS: Final = 4_000
"""Characters of words for people that travel; the rest of an error that quotes a whole file is cut off."""
_MOST_PROBLEMS: Final = 20_000
"""Two for each piece that a chunk may have."""


class FrameKind(IntEnum):
    ROWS = 1
    PROGRESS = 2
    REPORT = 3
    ERROR = 4


_LARGEST_BYTES: Final = {
    FrameKind.ROWS: LARGEST_FRAME_BYTES,
    FrameKind.PROGRESS: 1024,
    FrameKind.REPORT: 16 * MIB,
    FrameKind.ERROR: MIB,
}


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    payload: bytes


class FrameError(Exception):
    """What came is no frame, or not what its kind says, or does not fit the rest."""


# Writing


class RowFrames:
    """Makes frames of rows, and keeps count of them."""

    def __init__(self) -> None:
        self._payloads = RowPayloads()

    @property
    def sent(self) -> Sent:
        """What was made so far."""
        return self._payloads.sent

    def of(self, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
        return (_frame(FrameKind.ROWS, payload) for payload in self._payloads.of(batches))


def encode_progress(scanned_bytes: int) -> bytes:
    return _json_frame(FrameKind.PROGRESS, {"scanned_bytes": scanned_bytes})


def encode_report(report: ChunkReport, sent: Sent) -> bytes:
    problems = [{"url": each.url, "why": _words(each.why), "lines": each.lines} for each in report.problems]
    document = {
        "scanned_bytes": report.scanned_bytes,
        "pieces": report.pieces,
        "matches": report.matches,
        "problems": problems,
        "seen": sorted(report.seen),
        "sent": {"frames": sent.frames, "rows": sent.rows, "bytes": sent.size_bytes, "checksum": sent.checksum},
    }
    return _json_frame(FrameKind.REPORT, document)


def encode_error(error: QuarterdeckError) -> bytes:
    what, why, next_step = map(_words, (error.what, error.why, error.next_step))
    return _frame(FrameKind.ERROR, rendered(QuarterdeckError(error.code, what, why, next_step, error.retryable)))


def _words(words: str) -> str:
    """They may quote a file's name that is no text, or go on for ever."""
    return words[:_MOST_WORDS].encode("utf-8", "backslashreplace").decode()[:_MOST_WORDS]


def _json_frame(kind: FrameKind, document: object) -> bytes:
    return _frame(kind, json.dumps(document, separators=(",", ":")).encode())


def _frame(kind: FrameKind, payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), kind) + payload


# Reading


class FrameDecoder:
    """Give it bytes as they come."""

    def __init__(self, limit_bytes: int = LARGEST_FRAME_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        """One piece, however small those are that come: a frame may come byte by byte."""
        self.needs_bytes = _HEAD.size
        """What the frame that has begun takes when it is whole, or the head of the next."""

    @property
    def has_rest(self) -> bool:
        """Whether a frame has begun that is not whole."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now; all of them, if it is iterated to its end. Raises `FrameError`."""
        buffer = self._buffer
        buffer += data
        if len(buffer) < self.needs_bytes:
            return
        at = 0
        self.needs_bytes = _HEAD.size
        while len(buffer) - at >= _HEAD.size:
            length, number = _HEAD.unpack_from(buffer, at)
            kind = _kind(number)
            limit_bytes = min(self._limit_bytes, _LARGEST_BYTES[kind])
            if length > limit_bytes:
                raise FrameError(f"a frame of {length:,} bytes came, and {limit_bytes:,} is the most")
            end = at + _HEAD.size + length
            if end > len(buffer):
                self.needs_bytes = end - at
                break
            with memoryview(buffer) as view:
                payload = bytes(view[at + _HEAD.size : end])
            yield Frame(kind, payload)
            at = end
        del buffer[:at]


_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Words = Annotated[str, StringConstraints(max_length=_MOST_WORDS)]
_STRICT: Final = ConfigDict(strict=True, extra="forbid")


class _WireProgress(BaseModel):
    model_config = _STRICT
    scanned_bytes: _Count


class _WireProblem(BaseModel):
    model_config = _STRICT
    url: str
    why: _Words
    lines: _Count


class _WireSent(BaseModel):
    model_config = _STRICT
    frames: _Count
    rows: _Count
    size_bytes: _Count = Field(alias="bytes")
    checksum: str = Field(pattern="^[0-9a-f]{32}$")


class _WireReport(BaseModel):
    model_config = _STRICT
    scanned_bytes: _Count
    pieces: _Count
    matches: _Count
    problems: list[_WireProblem] = Field(max_length=_MOST_PROBLEMS)
    seen: list[Annotated[str, StringConstraints(max_length=1000)]] = Field(max_length=1000)
    sent: _WireSent


def decode_progress(payload: bytes) -> int:
    """The bytes that were scanned so far."""
    return _told(_WireProgress, payload, "progress").scanned_bytes


def decode_report(payload: bytes) -> tuple[ChunkReport, Sent]:
    """The report, and what was sent before it."""
    told = _told(_WireReport, payload, "a report")
    problems = tuple(FileProblem(each.url, each.why, each.lines) for each in told.problems)
    report = ChunkReport(told.scanned_bytes, told.matches, problems, frozenset(told.seen), told.pieces)
    return report, Sent(told.sent.frames, told.sent.rows, told.sent.size_bytes, told.sent.checksum)


def decode_error(payload: bytes) -> QuarterdeckError:
    """Of a frame, or of a response that is an error."""
    try:
        return parse_error(payload)
    except ValueError as error:
        raise FrameError(str(error)) from None


def _told(model: type[ModelT], payload: bytes, what: str) -> ModelT:
    """What is wrong with a document is a `FrameError`."""
    try:
        return model.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])[:100] or "all of it"
        raise FrameError(f"{what} that cannot be read: {place}: {first['msg'][:200]}") from None


def _kind(number: int) -> FrameKind:
    try:
        return FrameKind(number)
    except ValueError:
        raise FrameError(f"there is no frame of kind {number}") from None
