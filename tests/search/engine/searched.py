"""A whole search in one thread: files, cut into chunks, searched and gathered."""

import gzip
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.crew.cancel import CancelToken
from quarterdeck.search.answer_check import AnswerCheck
from quarterdeck.search.engine.gathering import Gathering
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.executor import Searcher
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, FileProblem, Order, Piece, SearchSpec
from quarterdeck.search.row_payloads import RowPayloads
from quarterdeck.stores.disk import DiskBudget, DiskLimits

arrow: Any = _pyarrow
MIB = 1024**2
GATHERING_BYTES = 256 * MIB
"""To gather with, unless a test says otherwise."""
CONTAINED = "contained"
IN_THIS_PROCESS = ("in this process",)
ALL_WAYS = (*IN_THIS_PROCESS, CONTAINED)
KINDS = {".gz": FileKind.GZIP, ".zst": FileKind.ZSTD, ".parquet": FileKind.PARQUET}


@dataclass(frozen=True)
class Answer:
    lines: list[str]
    reports: list[ChunkReport]

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def matches(self) -> int:
        return sum(report.matches for report in self.reports)

    @property
    def problems(self) -> list[FileProblem]:
        return [problem for report in self.reports for problem in report.problems]

    @property
    def seen(self) -> set[str]:
        return {name for report in self.reports for name in report.seen}


class Bench:
    """Searches with one searcher, and a folder to gather in."""

    def __init__(self, folder: Path, searcher: Searcher) -> None:
        self.folder = folder
        self.spool = folder / "spool"
        self.searcher = searcher
        self.disk = DiskBudget(folder / "budget", DiskLimits(1 << 40))

    def write(self, name: str, *lines: object) -> Path:
        """A file of lines, which are told as they are or as JSON; compressed if its name says so."""
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        path = self.folder / name
        path.write_bytes(packed(text.encode(), KINDS.get(path.suffix)))
        return path

    def search(
        self,
        query: str,
        chunks: Sequence[Sequence[OpenPiece]],
        *,
        order: Order = Order.INPUT,
        time_field: str | None = "ts",
        ask_about: Collection[str] = (),
        start_us: int | None = None,
        end_us: int | None = None,
        now_us: int = 0,
        memory_bytes: int = GATHERING_BYTES,
        disk_bytes: int = 1024 * MIB,
        arrival: Sequence[int] | None = None,
    ) -> Answer:
        spec = SearchSpec(query, now_us, order, time_field, start_us, end_us)
        gathering = Gathering(spec, self.spool, memory_bytes=memory_bytes, disk_bytes=disk_bytes, disk=self.disk)
        try:
            parts: list[bytes] = []
            reports: list[ChunkReport] = []
            for number in range(len(chunks)) if arrival is None else arrival:
                batches, report = self.chunk(spec, chunks[number], ask_about)
                reports.append(report)
                parts += gathering.add(number, batches)
            parts += gathering.finish(CancelToken())
        finally:
            gathering.close()
        lines = b"".join(parts).decode().split("\n")
        assert lines.pop() == ""
        assert gathering.rows == len(lines)
        return Answer(lines, reports)

    def chunk(
        self, spec: SearchSpec, pieces: Sequence[OpenPiece], ask_about: Collection[str] = ()
    ) -> tuple[list[Any], ChunkReport]:
        with self.searcher.search(spec, pieces, CancelToken(), ask_about=ask_about) as rows:
            batches = list(rows)
            report = rows.report
        insist_adds_up(spec, [piece.piece for piece in pieces], ask_about, batches, report)
        return batches, report

    def found(self, query: str, *lines: object, **options: Any) -> Answer:
        """Of these lines in one file."""
        return self.search(query, [[whole(self.write("found.ndjson", *lines))]], **options)


def insist_adds_up(
    spec: SearchSpec, pieces: Sequence[Piece], ask_about: Collection[str], batches: list[Any], report: ChunkReport
) -> None:
    """Whatever a test searches: a root would take the answer."""
    check = AnswerCheck(plan_search(spec), Chunk(0, tuple(pieces)), ask_about)
    payloads = RowPayloads()
    for payload in payloads.of(batches):
        check.rows(payload)
    check.report(report, payloads.sent)


def packed(data: bytes, kind: FileKind | None) -> bytes:
    if kind is FileKind.GZIP:
        return gzip.compress(data, 1)
    if kind is FileKind.ZSTD:
        sink = arrow.BufferOutputStream()
        with arrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return data


def whole(path: Path, *, in_memory: bool = False) -> OpenPiece:
    size = path.stat().st_size if path.exists() else 10
    piece = Piece(str(path), KINDS.get(path.suffix, FileKind.NDJSON), size, "", 0, size)
    in_memory &= piece.kind is not FileKind.PARQUET
    return OpenPiece(piece, None, path.read_bytes()) if in_memory else OpenPiece(piece, path, None)


def part(path: Path, start: int, end: int) -> OpenPiece:
    return OpenPiece(Piece(str(path), FileKind.NDJSON, path.stat().st_size, "", start, end), path, None)


def parts(path: Path, cuts: Sequence[int]) -> Iterator[OpenPiece]:
    ends = [*sorted(cuts), path.stat().st_size]
    for start, end in zip([0, *ends], ends, strict=False):
        yield part(path, start, end)
