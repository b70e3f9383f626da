"""One search over one chunk.

What a piece adds to the answer counts as a whole or not at all: a file that turns out damaged leaves nothing behind but
its name. What `head` does not need is not read.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.databases import SearchDatabase
from quarterdeck.search.engine.failures import READING_ERRORS, damage_of, failure
from quarterdeck.search.engine.groups import Columns, groups_of
from quarterdeck.search.engine.line_records import LINES, LineRecords
from quarterdeck.search.engine.line_scanner import LineScan
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.engine.parquet_records import ParquetRecords, columns_of
from quarterdeck.search.engine.parts import MARKS, SearchedRecords, chunk_sql, part_schema, reduced_sql
from quarterdeck.search.engine.pieces import DamagedPieceError, add_lines, check_packed, line_blocks
from quarterdeck.search.engine.plan import Plan
from quarterdeck.search.engine.sql import Parameters, Sql
from quarterdeck.search.model import ChunkReport, FileProblem, SearchSpec

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute

Table: TypeAlias = Any
"""A `pyarrow.Table`."""
RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""

_BATCH_ROWS: Final = 16_384
_REDUCE_BYTES: Final = 32 * 1024**2
_HELD_BYTES: Final = 64 * 1024**2


@dataclass(slots=True)
class _Found:
    """What some files add to the answer."""

    tables: list[Table] = field(default_factory=list[Table])
    matches: int = 0
    bad_lines: dict[str, int] = field(default_factory=dict[str, int])
    """By URL."""
    seen: set[str] = field(default_factory=set[str])
    """Of the fields that were asked about."""

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)

    @property
    def size_bytes(self) -> int:
        return sum(table.nbytes for table in self.tables)

    def add(self, other: "_Found") -> None:
        self.tables += other.tables
        self.matches += other.matches
        self.seen |= other.seen
        for url, lines in other.bad_lines.items():
            self.bad_lines[url] = self.bad_lines.get(url, 0) + lines


class Searching:
    """For one thread, and once."""

    def __init__(
        self, spec: SearchSpec, plan: Plan, database: SearchDatabase, stop: StopSignal, ask_about: Collection[str]
    ) -> None:
        self.scanned_bytes = 0
        """How far it is; of the pieces that are searched to their end, the report tells."""
        self._searched_pieces = 0
        self._searched_bytes = 0
        self._spec = spec
        self._plan = plan
        self._database = database
        self._stop = stop
        self._ask_about = frozenset(ask_about)
        self._problems: list[FileProblem] = []
        self._blamed: set[tuple[str, int]] = set()
        self._found = _Found()
        self._given_rows = 0
        self._base = 0
        self._schema = part_schema(plan)

    def batches(self, pieces: Sequence[OpenPiece]) -> Generator[RecordBatch]:
        """The answer. Nothing of it is given out before it is certain."""
        is_streamed = self._plan.first is not None or reduced_sql(self._plan, "", Parameters()) is None
        for found in self._searched(pieces):
            self._found.add(found)
            if is_streamed:
                yield from self._given()
                if self._is_enough(0):
                    return
            elif self._found.size_bytes > _REDUCE_BYTES:
                self._reduce()
        if not is_streamed:
            self._reduce()
            yield from self._given()

    def report(self) -> ChunkReport:
        bad = [
            FileProblem(url, "a line is not a JSON object" if lines == 1 else "lines are not JSON objects", lines)
            for url, lines in self._found.bad_lines.items()
        ]
        problems = (*self._problems, *bad)
        seen = frozenset(self._found.seen)
        return ChunkReport(self._searched_bytes, self._found.matches, problems, seen, self._searched_pieces)

    def _given(self) -> Iterator[RecordBatch]:
        tables, self._found.tables = self._found.tables, []
        for table in tables:
            if self._plan.first is not None:
                table = table.slice(0, max(0, self._plan.first - self._given_rows))  # noqa: PLW2901
            self._given_rows += table.num_rows
            yield from (batch for batch in table.to_batches() if batch.num_rows)

    def _is_enough(self, more_rows: int) -> bool:
        return self._plan.first is not None and self._given_rows + more_rows >= self._plan.first

    def _reduce(self) -> None:
        if len(self._found.tables) < 2:
            return
        parameters = Parameters()
        sql = reduced_sql(self._plan, "SELECT * FROM parts", parameters)
        assert sql is not None
        connection = self._database.connection
        connection.register("parts", _arrow.concat_tables(self._found.tables))
        try:
            self._found.tables = [self._run(sql, parameters)]
        except READING_ERRORS as error:
            raise self._failure(error) from error
        finally:
            connection.unregister("parts")

    # Files

    def _searched(self, pieces: Sequence[OpenPiece]) -> Iterator[_Found]:
        for group in groups_of(pieces, self._columns_of, self._blame):
            self._stop.check()
            if group.in_blocks:
                yield from self._search_blocks(group.pieces[0])
                self._note_end(group.pieces)
                continue
            if group.columns is None:
                yield from self._search_lines(group.pieces)
            else:
                yield from self._search_parquet(group.pieces, group.columns)
            self.scanned_bytes += sum(piece.piece.length_bytes for piece in group.pieces)
            self._note_end(group.pieces)

    def _note_end(self, pieces: Sequence[OpenPiece]) -> None:
        """They were searched to their ends, but for those that are to blame."""
        lengths = [each.piece.length_bytes for each in pieces if _place(each) not in self._blamed]
        self._searched_pieces += len(lengths)
        self._searched_bytes += sum(lengths)

    def _search_lines(self, pieces: Sequence[OpenPiece]) -> Iterator[_Found]:
        """One query over the lines of all of them."""
        self._database.buffer.clear()
        urls: list[str] = []
        for piece in pieces:
            try:
                add_lines(piece, self._database.buffer)
            except DamagedPieceError as error:
                self._blame(piece, error)
            else:
                urls.append(piece.piece.url)
        if urls:
            yield self._query_lines(urls)

    def _search_parquet(self, pieces: Sequence[OpenPiece], columns: Columns) -> Iterator[_Found]:
        """One query over several files; if it fails, one over each, which tells which of them is to blame."""
        try:
            found = self._query_parquet(pieces, columns)
        except READING_ERRORS as error:
            self._stop.check()
            if len(pieces) == 1:
                self._blame(pieces[0], error)
            else:
                for piece in pieces:
                    yield from self._search_parquet([piece], columns)
        else:
            yield found

    def _search_blocks(self, piece: OpenPiece) -> Iterator[_Found]:
        """What is found is held back until the end of the piece was seen. When that becomes too much, a compressed file
        is looked through ahead; what goes wrong after that is the end of the search."""
        before = self.scanned_bytes
        held = _Found()
        is_trusted = False
        try:
            for read_bytes in line_blocks(piece, self._database.buffer):
                self._stop.check()
                held.add(self._query_lines([piece.piece.url]))
                self.scanned_bytes = before + min(read_bytes, piece.piece.length_bytes)
                if not is_trusted and held.size_bytes > _HELD_BYTES:
                    check_packed(piece, self._stop.check)
                    is_trusted = True
                if is_trusted or self._is_enough(held.rows):
                    yield held
                    held = _Found()
            yield held
        except DamagedPieceError as error:
            if is_trusted:
                raise self._failure(error) from error
            self._blame(piece, error)
        self.scanned_bytes = before + piece.piece.length_bytes

    def _columns_of(self, piece: OpenPiece) -> Columns:
        try:
            return columns_of(self._database.connection, str(piece.path))
        except READING_ERRORS as error:
            self._stop.check()
            raise DamagedPieceError(damage_of(error)) from error

    # Queries

    def _query_lines(self, urls: Sequence[str]) -> _Found:
        """Over what is in the buffer."""
        try:
            rows, scan = self._rows_of_lines(self._chunk_sql, self._plan.first)
            if self._plan.first is None:
                scan.finish()
            found = self._found_in(rows)
            for number, count in scan.bad_lines.items():
                found.bad_lines[urls[number]] = found.bad_lines.get(urls[number], 0) + count
            found.seen = self._seen(lambda any_having: self._rows_of_lines(any_having)[0])
        except READING_ERRORS as error:
            raise self._failure(error) from error
        return found

    def _rows_of_lines(
        self, make: Callable[[LineRecords, Parameters], Sql], first: int | None = None
    ) -> tuple[Table, LineScan]:
        """The answer to a query, and how it was read."""
        parameters = Parameters()
        records = LineRecords(self._spec.time_field, parameters, self._plan.search.condition)
        sql = make(records, parameters)
        scan = LineScan(self._database.buffer, records.keys)
        # As a bare stream: of a reader, DuckDB would have pyarrow pick columns and rows, which takes longer.
        self._database.connection.register(LINES, scan.stream().__arrow_c_stream__())
        try:
            return self._run(sql, parameters, first), scan
        finally:
            self._database.connection.unregister(LINES)

    def _query_parquet(self, pieces: Sequence[OpenPiece], columns: Columns) -> _Found:
        paths = [str(piece.path) for piece in pieces]

        def rows_of(make: Callable[[ParquetRecords, Parameters], Sql], first: int | None = None) -> Table:
            parameters = Parameters()
            sql = make(ParquetRecords(paths, columns, self._spec.time_field, parameters), parameters)
            return self._run(sql, parameters, first)

        found = self._found_in(rows_of(self._chunk_sql, self._plan.first))
        found.seen = self._seen(rows_of)
        return found

    def _seen(self, rows_of: Callable[[Callable[[SearchedRecords, Parameters], Sql]], Table]) -> set[str]:
        """The fields that were asked about, not seen before, and that some record has."""
        return {
            name
            for name in self._ask_about - self._found.seen
            if rows_of(lambda records, _, name=name: f"{records.having_sql(name)} LIMIT 1").num_rows
        }

    def _chunk_sql(self, records: SearchedRecords, parameters: Parameters) -> Sql:
        return chunk_sql(self._plan, self._spec, records, parameters, self._base)

    def _found_in(self, rows: Table) -> _Found:
        counted = _total(rows.column("counted"))
        self._base += rows.num_rows + counted
        answer = rows.filter(rows.column("is_answer")).drop_columns(list(MARKS)).cast(self._schema)
        return _Found([answer], matches=counted)

    def _run(self, sql: Sql, parameters: Parameters, first: int | None = None) -> Table:
        """All rows, or so many that they hold the first of a number that the answer still lacks."""
        self._stop.check()
        relation = self._database.connection.sql(sql, params=parameters.values)
        reader: Any = relation.to_arrow_reader(_BATCH_ROWS)
        try:
            if first is None:
                return reader.read_all()
            batches: list[RecordBatch] = []
            missing = first - self._given_rows
            while missing > 0:
                try:
                    batches.append(reader.read_next_batch())
                except StopIteration:
                    break
                missing -= _total(batches[-1].column("is_answer"))
            return _arrow.Table.from_batches(batches, reader.schema)
        finally:
            reader.close()

    def _blame(self, piece: OpenPiece, error: Exception) -> None:
        self._stop.check()
        why = str(error) if isinstance(error, DamagedPieceError) else damage_of(error)
        self._problems.append(FileProblem(piece.piece.url, why))
        self._blamed.add(_place(piece))

    def _failure(self, error: Exception) -> QuarterdeckError:
        self._stop.check()
        self._database.is_sound = False
        return failure(error)


def _place(piece: OpenPiece) -> tuple[str, int]:
    """What tells it from the others; it may have been unpacked since."""
    return piece.piece.url, piece.piece.start


def _total(counts: Any) -> int:
    return _compute.sum(counts).as_py() or 0
