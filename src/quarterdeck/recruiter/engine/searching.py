"""One search over one chunk.

What a piece adds to the answer counts as a whole or not at all: a file that turns out damaged leaves nothing behind but
its name. What `head` does not need is not read.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.engines.duckdb_scan import StopSignal
from quarterdeck.recruiter.engine.column_records import ColumnRecords, names_by_columns
from quarterdeck.recruiter.engine.databases import SearchDatabase
from quarterdeck.recruiter.engine.failures import READING_ERRORS, damage_of, failure
from quarterdeck.recruiter.engine.groups import Columns, Group, groups_of, path_of
from quarterdeck.recruiter.engine.line_records import EVERYTHING
from quarterdeck.recruiter.engine.parquet_records import columns_of
from quarterdeck.recruiter.engine.parts import MARKS, SearchedRecords, chunk_sql, part_schema, reduced_sql
from quarterdeck.recruiter.engine.pieces import DamagedPieceError, OpenPiece, check_packed, line_blocks
from quarterdeck.recruiter.engine.plan import Plan
from quarterdeck.recruiter.engine.sql import Parameters, Sql
from quarterdeck.recruiter.model import ChunkReport, FileProblem, SearchSpec

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
        self._spec = spec
        self._plan = plan
        self._database = database
        self._stop = stop
        self._ask_about = frozenset(ask_about)
        self._problems: list[FileProblem] = []
        self._found = _Found()
        self._given_rows = 0
        self._base = 0
        self._schema = part_schema(plan)
        self._names = names_by_columns(plan, spec.time_field)

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
            FileProblem(url, "a line is no JSON object" if lines == 1 else "lines are no JSON objects", lines)
            for url, lines in self._found.bad_lines.items()
        ]
        problems = (*self._problems, *bad)
        return ChunkReport(self.scanned_bytes, self._found.matches, problems, frozenset(self._found.seen))

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
                yield from self._search_blocks(group)
            else:
                yield from self._search_together(group)
                self.scanned_bytes += sum(piece.piece.length_bytes for piece in group.pieces)

    def _search_together(self, group: Group) -> Iterator[_Found]:
        """One query over several files; if it fails, one over each, which tells which of them is to blame."""
        try:
            with ExitStack() as files:
                paths = [path_of(piece, files) for piece in group.pieces]
                urls = {path: piece.piece.url for path, piece in zip(paths, group.pieces, strict=True)}
                found = self._query(group, paths, urls)
        except READING_ERRORS as error:
            self._stop.check()
            match group.pieces:
                case (piece,):
                    self._blame(piece, error)
                case pieces:
                    for piece in pieces:
                        yield from self._search_together(Group((piece,), group.columns))
        else:
            yield found

    def _search_blocks(self, group: Group) -> Iterator[_Found]:
        """What is found is held back until the end of the piece was seen. When that becomes too much, a compressed file
        is looked through ahead; what goes wrong after that is the end of the search."""
        (piece,) = group.pieces
        before = self.scanned_bytes
        held = _Found()
        is_trusted = False
        memory = self._database.memory
        try:
            for read_bytes in line_blocks(piece, memory):
                self._stop.check()
                held.add(self._query(group, [memory.path], {memory.path: piece.piece.url}))
                self.scanned_bytes = before + min(read_bytes, piece.piece.length_bytes)
                if not is_trusted and held.size_bytes > _HELD_BYTES:
                    check_packed(piece, self._stop.check)
                    is_trusted = True
                if is_trusted or self._is_enough(held.rows):
                    yield held
                    held = _Found()
            yield held
        except (DamagedPieceError, *READING_ERRORS) as error:
            if is_trusted:
                raise self._failure(error) from error
            self._blame(piece, error)
        self.scanned_bytes = before + piece.piece.length_bytes

    def _columns_of(self, piece: OpenPiece) -> Columns:
        with ExitStack() as files:
            try:
                return columns_of(self._database.connection, path_of(piece, files))
            except READING_ERRORS as error:
                self._stop.check()
                raise DamagedPieceError(damage_of(error)) from error

    # Queries

    def _query(self, group: Group, paths: Sequence[str], urls: Mapping[str, str]) -> _Found:
        rows = self._rows(group, paths)
        self._base += rows.num_rows + _total(rows.column("counted"))
        is_answer = _compute.equal(rows.column("mark"), 0)
        is_bad = _compute.equal(rows.column("mark"), 1)
        found = _Found([rows.filter(is_answer).drop_columns(list(MARKS)).cast(self._schema)])
        found.matches = _total(rows.column("counted").filter(_compute.invert(is_bad)))
        bad = (
            rows.filter(_compute.and_(is_bad, _compute.greater(rows.column("counted"), 0)))
            .group_by("file")
            .aggregate([("counted", "sum")])
            .to_pylist()
        )
        for row in bad:
            url = urls[paths[0]] if row["file"] is None else urls[row["file"]]
            found.bad_lines[url] = found.bad_lines.get(url, 0) + row["counted_sum"]
        found.seen = {name for name in self._ask_about - self._found.seen if self._has(group, paths, name)}
        return found

    def _rows(self, group: Group, paths: Sequence[str]) -> Table:
        parameters = Parameters()
        time_field = self._spec.time_field
        if group.columns is None and self._names is not None:
            try:
                return self._searched_rows(ColumnRecords(paths, self._names, time_field, parameters), parameters)
            except READING_ERRORS:
                self._stop.check()
                self._names = None  # some lines are bad: by lines they can be counted
                parameters = Parameters()
        return self._searched_rows(
            group.records(paths, time_field, parameters, self._plan.search.condition), parameters
        )

    def _searched_rows(self, records: SearchedRecords, parameters: Parameters) -> Table:
        sql = chunk_sql(self._plan, self._spec, records, parameters, self._base)
        return self._run(sql, parameters, self._plan.first)

    def _has(self, group: Group, paths: Sequence[str], name: str) -> bool:
        """Whether some record has this field."""
        parameters = Parameters()
        sql = group.records(paths, None, parameters, EVERYTHING).having_sql(name)
        return self._run(f"{sql} LIMIT 1", parameters).num_rows > 0

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
                missing -= _total(_compute.equal(batches[-1].column("mark"), 0))
            return _arrow.Table.from_batches(batches, reader.schema)
        finally:
            reader.close()

    def _blame(self, piece: OpenPiece, error: Exception) -> None:
        self._stop.check()
        why = str(error) if isinstance(error, DamagedPieceError) else damage_of(error)
        self._problems.append(FileProblem(piece.piece.url, why))

    def _failure(self, error: Exception) -> QuarterdeckError:
        self._stop.check()
        self._database.is_sound = False
        return failure(error)


def _total(counts: Any) -> int:
    return _compute.sum(counts).as_py() or 0
