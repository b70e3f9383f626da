"""One answer out of those of the chunks, as NDJSON.

Rows that need not wait for others are given out as they come. The rest is kept, on disk beyond a limit, and put
together by DuckDB when all is there. DuckDB is loaded only then: most processes that could gather never do.
"""

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.aggregates import group_lines, merged_states
from quarterdeck.search.engine.parts import part_schema, record_order
from quarterdeck.search.engine.plan import Part, plan_search
from quarterdeck.search.engine.rendering import rendered
from quarterdeck.search.engine.spool import Spool
from quarterdeck.search.engine.sql import Parameters
from quarterdeck.search.engine.stages import Lines, field_lines, with_stages
from quarterdeck.search.language.ast import Summarize
from quarterdeck.search.model import Order, SearchSpec
from quarterdeck.search.stored_rows import no_room
from quarterdeck.stores.disk import DiskBudget

if TYPE_CHECKING:
    import duckdb

_arrow: Final[Any] = pyarrow

RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""

_BATCH_ROWS: Final = 8192
_LEAST_BYTES: Final = 64 * 1024**2
"""With less, DuckDB cannot even sort on disk."""
_PARTS: Final = "SELECT * FROM parts"


class Gathering:
    """For one search, and for one thread at a time. Close it, however it ended."""

    def __init__(self, spec: SearchSpec, folder: Path, *, memory_bytes: int, disk_bytes: int, disk: DiskBudget) -> None:
        """`memory_bytes` are for the rows that are kept, and as many again for putting them together; in `folder`, up
        to `disk_bytes`, is what does not fit, and `disk` counts it. Raises `SearchSyntaxError`."""
        self.rows = 0
        """That were given out so far."""
        self._plan = plan_search(spec)
        self._schema = part_schema(self._plan)
        self._memory_bytes = memory_bytes
        self._spool = Spool(folder, self._schema, memory_bytes=memory_bytes, disk_bytes=disk_bytes, disk=disk)
        self._next_chunk = 0

    @property
    def is_satisfied(self) -> bool:
        """Whether all of the answer was given out, so that the rest need not be searched."""
        return self._plan.is_streamed and self._left_rows == 0

    def add(self, chunk: int, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
        """The whole answer of a chunk, once for each, in any order. Gives what can be given out by now; iterate to its
        end, or nothing is added."""
        if self._plan.is_streamed and self._plan.order is Order.NONE:
            yield from self._given(batches)
            return
        self._spool.add(chunk, batches)
        while self._plan.is_streamed and self._next_chunk in self._spool:
            yield from self._given(self._spool.batches(self._next_chunk))
            self._spool.drop(self._next_chunk)
            self._next_chunk += 1

    def finish(self, stop: StopSignal) -> Iterator[bytes]:
        """What is left, when all chunks were added that will be. What `stop.check` raises ends it."""
        stop.check()
        if not self._plan.is_streamed:
            yield from self._put_together(stop)
            return
        for chunk in self._spool.chunks:
            stop.check()
            yield from self._given(self._spool.batches(chunk))

    def close(self) -> None:
        """Deletes what is on disk. Again is fine."""
        self._spool.close()

    @property
    def _left_rows(self) -> int | None:
        """How many rows may still be given out; None for any number."""
        return None if self._plan.first is None else max(0, self._plan.first - self.rows)

    def _given(self, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
        for batch in batches:
            lines = batch.column("line")
            if self._left_rows is not None:
                lines = lines.slice(0, self._left_rows)
            self.rows += len(lines)
            yield from rendered(lines)

    def _put_together(self, stop: StopSignal) -> Generator[bytes]:
        from quarterdeck.engines.duckdb_database import open_database  # noqa: PLC0415 - see above

        spill_bytes = self._spool.take_room_to_sort()
        database = open_database(
            threads=1,  # sums are made in the order of the chunks
            memory_limit_bytes=max(self._memory_bytes, _LEAST_BYTES),
            temp_directory=str(self._spool.folder / "sorting") if spill_bytes else "",
            spill_bytes=spill_bytes,
        )
        try:
            with stop.on_cancel(database.interrupt):
                yield from self._answer(database, stop, spill_bytes)
        finally:
            database.close()

    def _answer(self, database: "duckdb.DuckDBPyConnection", stop: StopSignal, spill_bytes: int) -> Iterator[bytes]:
        from quarterdeck.engines.duckdb_errors import ENGINE_ERRORS  # noqa: PLC0415 - see above
        from quarterdeck.search.engine.failures import failure, is_of_the_disk  # noqa: PLC0415

        parameters = Parameters()
        lines = with_stages(self._lines(parameters), self._plan.rest, parameters)
        try:
            database.register("parts", self._parts())
            reader: Any = database.sql(lines.ordered_sql, params=parameters.values).to_arrow_reader(_BATCH_ROWS)
            try:
                for batch in reader:
                    stop.check()
                    self.rows += batch.num_rows
                    yield from rendered(batch.column("line"))
            finally:
                reader.close()
        except ENGINE_ERRORS as error:
            stop.check()
            why = str(error).partition("\n")[0]
            if is_of_the_disk(error) or (not spill_bytes and why.startswith("Out of Memory")):
                raise no_room(f"{spill_bytes:,} bytes of disk were left to put it together: {why}") from error
            raise failure(error) from error

    def _lines(self, parameters: Parameters) -> Lines:
        """What the chunks found, before the stages that are left."""
        match self._plan.part:
            case Part.RECORDS | Part.SOME:
                return Lines(_PARTS, record_order(self._plan.order, "chunk"))
            case Part.DISTINCT:
                return Lines(_PARTS, record_order(self._plan.order, "chunk"), weight="n")
            case Part.GROUPS:
                assert isinstance(self._plan.stage, Summarize)
                sql, order = group_lines(self._plan.stage, merged_states(self._plan.stage, _PARTS), parameters)
                return Lines(sql, tuple(order))
            case Part.FIELDS:
                return field_lines(f"SELECT name, sum(n)::BIGINT AS n FROM ({_PARTS}) GROUP BY name")

    def _parts(self) -> Any:
        """All chunks' answers, in the order of the chunks, with their numbers."""
        schema = self._schema.append(_arrow.field("chunk", _arrow.int64()))

        def batches() -> Iterator[RecordBatch]:
            for chunk in self._spool.chunks:
                for batch in self._spool.batches(chunk):
                    numbers = _arrow.repeat(_arrow.scalar(chunk, _arrow.int64()), batch.num_rows)
                    yield _arrow.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)

        return _arrow.RecordBatchReader.from_batches(schema, batches())
