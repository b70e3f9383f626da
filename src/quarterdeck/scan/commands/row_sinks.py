"""Where the rows of an answer go: a table on the screen, text on stdout, a Parquet file, or one more SELECT.

A sink takes batches of one schema, in order. `finish` is called only when the answer is complete: anything that looks
like a whole answer appears there, not before. `close` is always called.
"""

import os
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.scan.commands.arrow_answer import Batch, Schema
from quarterdeck.scan.formats import Format, make_writer
from quarterdeck.stores.disk_full import is_full, no_room

_arrow: Final[Any] = pyarrow
_LONGEST_CELL: Final = 200


class RowSink(Protocol):
    def begin(self, schema: Schema) -> None:
        """Called first, unless there is no row and so nobody knows the columns."""
        ...

    def write(self, batch: Batch) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class TableSink:
    """The first rows as a table, and how many more there were."""

    def __init__(self, console: Console, limit: int) -> None:
        self._console = console
        self._limit = limit
        self._schema: Schema | None = None
        self._shown: list[Batch] = []
        self._kept = 0
        self._rows = 0

    def begin(self, schema: Schema) -> None:
        self._schema = schema

    def write(self, batch: Batch) -> None:
        self._rows += batch.num_rows
        if self._kept < self._limit:
            part = batch.slice(0, self._limit - self._kept)
            self._kept += part.num_rows
            self._shown.append(part)

    def finish(self) -> None:
        if self._schema is None:
            self._console.print("no rows")
            return
        table = Table(header_style="bold")
        for field in self._schema:
            table.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left")
        for batch in self._shown:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                table.add_row(*map(_cell, row))
        if not self._console.is_terminal:
            self._console.width = max(80, self._console.measure(table).maximum)  # nobody's window: nothing is cut
        self._console.print(table)
        more = self._rows - self._kept
        if more > 0:
            self._console.print(f"… and {more:,} more rows; --format csv or --output shows all", style="yellow")

    def close(self) -> None:
        pass


class TextSink:
    """Rows as text on stdout, as they come."""

    def __init__(self, form: Format) -> None:
        self._writer = make_writer(form)

    def begin(self, schema: Schema) -> None:
        pass

    def write(self, batch: Batch) -> None:
        sys.stdout.buffer.write(self._writer.write(batch))
        sys.stdout.buffer.flush()

    def finish(self) -> None:
        sys.stdout.buffer.write(self._writer.finish())
        sys.stdout.buffer.flush()

    def close(self) -> None:
        self._writer.close()


class ParquetSink:
    """A Parquet file that is there when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._writer: Any = None

    def begin(self, schema: Schema) -> None:
        from pyarrow import parquet  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs] - loaded when needed

        parquet_any: Any = parquet
        try:
            self._writer = parquet_any.ParquetWriter(self._part, schema, compression="zstd")
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, batch: Batch) -> None:
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._unwritable(error) from None

    def finish(self) -> None:
        if self._writer is None:
            raise QuarterdeckError(
                ErrorCode.WORK_FAILED,
                f"{self._path} was not written",
                "there is no row, and so nobody knows the columns",
                "ask for something that has rows",
            )
        try:
            self._writer.close()
            self._part.replace(self._path)
        except OSError as error:
            raise self._unwritable(error) from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()  # again is fine
        self._part.unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> QuarterdeckError:
        if is_full(error):
            return no_room(f"{self._path} was not written", self._path, error)
        return QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{self._path} was not written",
            error.strerror or str(error),
            "name a file in a folder that can be written to",
        )


def _is_number(kind: Any) -> bool:
    return _arrow.types.is_integer(kind) or _arrow.types.is_floating(kind) or _arrow.types.is_decimal(kind)


def _cell(value: object) -> Text:
    if value is None:
        return Text("null", style="dim")
    text = repr(value) if isinstance(value, bytes) else str(value)
    return Text(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")
