"""One more SELECT over the rows that came back, in this process: it makes one answer of what each group of files
gave."""

from typing import Any, Final

import duckdb
import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.scan.commands.arrow_answer import Batch, Schema
from quarterdeck.scan.commands.row_sinks import RowSink

PARTS: Final = "parts"
_arrow: Final[Any] = pyarrow
_BATCH_ROWS: Final = 65_536


class MergingSink:
    """Keeps all rows in memory, as the table `parts`; the result of the SELECT goes to the next sink.

    A mistake in the SELECT is found as early as can be: in its grammar before the scan begins, in its columns with the
    first rows.
    """

    def __init__(self, sql: str, onward: RowSink) -> None:
        self._sql = sql
        self._onward = onward
        self._schema: Schema | None = None
        self._batches: list[Batch] = []
        self._engine = duckdb.connect(":memory:")
        self._engine.execute("SET GLOBAL TimeZone = 'UTC'")  # a day begins here when it begins on the workers
        try:
            statements = self._engine.extract_statements(sql)
        except duckdb.Error as error:
            raise self._refused(error) from None
        if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
            raise self._refused("it is not one SELECT")

    def begin(self, schema: Schema) -> None:
        self._schema = schema
        self._run(_arrow.Table.from_batches([], schema))

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)

    def finish(self) -> None:
        if self._schema is None:
            raise self._refused("there is no row, and so nobody knows the columns of `parts`")
        reader = self._run(_arrow.Table.from_batches(self._batches, self._schema))
        self._onward.begin(reader.schema)
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                break
            except (duckdb.Error, _arrow.ArrowException) as error:
                raise self._refused(error) from None
            self._onward.write(batch)
        self._onward.finish()

    def close(self) -> None:
        self._engine.close()
        self._onward.close()

    def _run(self, parts: Any) -> Any:
        try:
            self._engine.register(PARTS, parts)
            return self._engine.sql(self._sql).to_arrow_reader(_BATCH_ROWS)
        except duckdb.Error as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception | str) -> QuarterdeckError:
        return QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "the rows cannot be merged",
            " ".join(str(error).partition("\n\nLINE ")[0].split()),
            "correct --merge: one SELECT over the table `parts`, which has the columns of the scan",
        )
