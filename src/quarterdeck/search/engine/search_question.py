"""What is asked of an engine that searches, and what it says at the end, as they go to and from its process.

What is asked comes from this process and is believed. What is said comes from one that has read foreign files, and is
checked.
"""

import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from quarterdeck.engines.engine_wire import BrokenAnswerError
from quarterdeck.search.engine.open_piece import OpenPiece, Probe
from quarterdeck.search.model import ChunkReport, FileKind, FileProblem, Order, Piece, SearchSpec

T = TypeVar("T")

_LENGTH: Final = struct.Struct("<Q")
_REPORT: Final = TypeAdapter(ChunkReport)
_PROBE: Final = TypeAdapter(Probe)


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """A search over some pieces; without a spec, which fields the one piece has."""

    spec: SearchSpec | None
    pieces: tuple[OpenPiece, ...]
    ask_about: frozenset[str] = frozenset()

    def encode(self) -> tuple[bytes, list[bytes]]:
        """The question, and the bytes that follow it: what was read of pieces already."""
        pieces = [
            (
                asdict(each.piece),
                None if each.path is None else str(each.path),
                None if each.data is None else len(each.data),
            )
            for each in self.pieces
        ]
        spec = None if self.spec is None else asdict(self.spec)
        document = json.dumps([spec, pieces, sorted(self.ask_about)]).encode()
        data = [each.data for each in self.pieces if each.data is not None]
        return _LENGTH.pack(len(document)) + document, data

    @classmethod
    def decode(cls, question: memoryview) -> "SearchQuestion":
        (length,) = _LENGTH.unpack_from(question)
        at = _LENGTH.size + length
        spec, told, ask_about = json.loads(bytes(question[_LENGTH.size : at]))
        pieces: list[OpenPiece] = []
        for piece, path, size_bytes in told:
            data = None
            if size_bytes is not None:
                data = bytes(question[at : at + size_bytes])
                at += size_bytes
            pieces.append(OpenPiece(_piece(piece), None if path is None else Path(path), data))
        return cls(None if spec is None else _spec(spec), tuple(pieces), frozenset(ask_about))


def encode_report(report: ChunkReport) -> bytes:
    problems = [FileProblem(each.url, _text(each.why), each.lines) for each in report.problems]
    document = asdict(report) | {"problems": list(map(asdict, problems)), "seen": sorted(report.seen)}
    return json.dumps(document).encode()


def decode_report(payload: bytes | None) -> ChunkReport:
    """Raises `BrokenAnswerError`."""
    report = _checked(_REPORT, payload)
    if min(report.scanned_bytes, report.matches, report.pieces) < 0:
        raise BrokenAnswerError("a report of less than nothing")
    return report


def encode_probe(probe: Probe) -> bytes:
    return json.dumps({"fields": sorted(_texts(probe.fields))}).encode()


def decode_probe(payload: bytes | None) -> Probe:
    """Raises `BrokenAnswerError`."""
    return _checked(_PROBE, payload)


def _piece(told: dict[str, Any]) -> Piece:
    told["kind"] = FileKind(told["kind"])
    return Piece(**told)


def _spec(told: dict[str, Any]) -> SearchSpec:
    told["order"] = Order(told["order"])
    return SearchSpec(**told)


def _text(words: str) -> str:
    """They may quote what is no text."""
    return words.encode("utf-8", "backslashreplace").decode()


def _texts(names: Iterable[str]) -> Iterable[str]:
    """Names that are no text are nobody's fields: no query can name them."""
    return (name for name in names if name == _text(name))


def _checked(adapter: TypeAdapter[T], payload: bytes | None) -> T:
    try:
        return adapter.validate_json(payload or b"")
    except ValidationError as error:
        raise BrokenAnswerError(str(error)) from None
