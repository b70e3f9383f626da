"""Searches in an engine's process: implements `engines.engine_child.Engine`."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.chunk_search import ChunkRows, ChunkSearcher, RecordBatch
from quarterdeck.search.engine.line_code import SCAN_LINES
from quarterdeck.search.engine.open_piece import OpenPiece, Probe
from quarterdeck.search.engine.parts import Schema, part_schema
from quarterdeck.search.engine.pieces import DamagedPieceError
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.engine.probing import probe
from quarterdeck.search.engine.search_question import SearchQuestion, encode_probe, encode_report

_arrow: Final[Any] = pyarrow


class SearchAnswer:
    """The rows of a chunk, and its report."""

    def __init__(self, schema: Schema, rows: ChunkRows, size_bytes: int) -> None:
        self.schema: Final = schema
        self._rows = rows
        self._size_bytes = max(1, size_bytes)

    @property
    def fraction(self) -> float:
        return min(1.0, self._rows.scanned_bytes / self._size_bytes)

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._rows)

    def last(self) -> bytes:
        return encode_report(self._rows.report)


class ProbeAnswer:
    """No rows; which fields there are is said at the end."""

    def __init__(self, found: Probe) -> None:
        self.schema: Final = _arrow.schema([])
        self.fraction: Final = 1.0
        self._found = found

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(())

    def last(self) -> bytes:
        return encode_probe(self._found)


Answer: TypeAlias = SearchAnswer | ProbeAnswer


class SearchEngine:
    """For one thread."""

    def __init__(self, limits: EngineLimits) -> None:
        self._searcher = ChunkSearcher(at_once=1, memory_limit_bytes=limits.memory_limit_bytes)

    @classmethod
    def load(cls) -> None:
        """Compiles the code that reads lines, if nobody on this machine has yet."""
        SCAN_LINES.load()

    def warm_up(self) -> None:
        self._searcher.warm_up()

    @contextmanager
    def answer(self, question: memoryview, stop: StopSignal) -> Generator[Answer]:
        asked = SearchQuestion.decode(question)
        if asked.spec is None:
            yield ProbeAnswer(_probed(asked.pieces[0]))
            return
        size_bytes = sum(each.piece.length_bytes for each in asked.pieces)
        with self._searcher.search(asked.spec, asked.pieces, stop, ask_about=asked.ask_about) as rows:
            yield SearchAnswer(part_schema(plan_search(asked.spec)), rows, size_bytes)


def _probed(piece: OpenPiece) -> Probe:
    try:
        return probe(piece)
    except DamagedPieceError as error:
        what = f"{piece.piece.url} cannot be read"
        raise QuarterdeckError(ErrorCode.WORK_FAILED, what, str(error), "look at the file") from error
