"""Searches over chunks as in `chunk_search`, in processes of their own: see `engines.contained`.

Foreign files are unpacked and read by native code there: one that ends it costs the search of its chunk, and neither a
worker nor a coordinator.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from quarterdeck.engines.contained import PATIENCE_S, ContainedEngine, ContainedRows
from quarterdeck.engines.engine_wire import BrokenAnswerError, RecordBatch
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.open_piece import OpenPiece, Probe
from quarterdeck.search.engine.parts import Schema, part_schema
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.engine.search_question import SearchQuestion, decode_probe, decode_report
from quarterdeck.search.model import ChunkReport, SearchSpec

_ENGINE: Final = "quarterdeck.search.engine.search_engine:SearchEngine"
_MIB: Final = 1024**2
UNCOUNTED_BYTES: Final = 1024 * _MIB
"""What a process may have beyond the memory that DuckDB counts: a block of lines as it was read, unpacked, and as rows,
rows that are held back, and a line that is as long as a line may be."""
KEPT_BYTES: Final = 512 * _MIB
"""Buffers are kept between chunks; see `engines.contained.KEPT_BYTES`."""


class ContainedChunkRows:
    """Implements `executor.Rows`. Read it once, in the thread that searches."""

    def __init__(self, rows: ContainedRows, schema: Schema, size_bytes: int) -> None:
        if not rows.schema.equals(schema):
            raise rows.broke(BrokenAnswerError("rows of another search"))
        self._rows = rows
        self._size_bytes = size_bytes

    def __iter__(self) -> Iterator[RecordBatch]:
        return iter(self._rows)

    @property
    def scanned_bytes(self) -> int:
        """Any thread may ask."""
        return int(self._rows.fraction * self._size_bytes)

    @property
    def report(self) -> ChunkReport:
        """Once the rows have come to their end."""
        try:
            return decode_report(self._rows.last)
        except BrokenAnswerError as error:
            raise self._rows.broke(error) from error


class ContainedSearcher(ContainedEngine):
    """Implements `executor.Searcher`. Any number of threads may search at once."""

    def __init__(
        self, *, at_once: int, memory_limit_bytes: int, engine: str = _ENGINE, patience_s: float = PATIENCE_S
    ) -> None:
        """The memory is for each search."""
        super().__init__(
            engine,
            EngineLimits(threads=1, memory_limit_bytes=memory_limit_bytes, idle_databases=1),
            at_once=at_once,
            uncounted_bytes=UNCOUNTED_BYTES,
            kept_bytes=KEPT_BYTES,
            patience_s=patience_s,
        )

    def warm_up(self) -> None:
        """One process: others are forked from what it was forked from, in some milliseconds."""
        self._have(1)

    @contextmanager
    def search(
        self, spec: SearchSpec, pieces: Sequence[OpenPiece], stop: StopSignal, *, ask_about: Collection[str] = ()
    ) -> Generator[ContainedChunkRows]:
        """Gives the rows to the block. Raises `SearchSyntaxError`, and what `stop.check` raises when it is stopped;
        what is wrong with a file is in the report."""
        stop.check()
        schema = part_schema(plan_search(spec))
        question, data = SearchQuestion(spec, tuple(pieces), frozenset(ask_about)).encode()
        size_bytes = sum(each.piece.length_bytes for each in pieces)
        with self.asked(None, question, stop, *data) as rows:
            yield ContainedChunkRows(rows, schema, size_bytes)

    def probe(self, piece: OpenPiece, stop: StopSignal) -> Probe:
        """Which fields a piece has, as far as a quick look tells. A piece that cannot be read is a
        `QuarterdeckError`."""
        question, data = SearchQuestion(None, (piece,)).encode()
        with self.asked(None, question, stop, *data) as rows:
            for _ in rows:
                raise rows.broke(BrokenAnswerError("rows, and nobody asked for any"))
            try:
                return decode_probe(rows.last)
            except BrokenAnswerError as error:
                raise rows.broke(error) from error
