"""`quarterdeck scan`: SQL over Parquet files on the crew, with its rows on the screen, in a pipe or in a file.

An answer is whole or an error. If something fails after rows were printed, a line on stderr follows, and the exit code
is not 0.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.scan.commands.choices import RowFormat
from quarterdeck.scan.commands.scan_stream import ScanStream
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.documents import ask_query
from quarterdeck.terminal.sources import absolute
from quarterdeck.terminal.stdout_place import rows_stay_off_the_screen
from quarterdeck.terminal.telling import counted, reader_gone

if TYPE_CHECKING:
    from rich.console import Console

    from quarterdeck.scan.commands.row_sinks import RowSink

_TABLE_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class ScanOrder:
    """What somebody asked for at the terminal."""

    sql: str
    sources: Sequence[str]
    format: RowFormat = RowFormat.TABLE
    output: Path | None = None
    """A Parquet file; then nothing is shown."""
    merge: str | None = None
    files_per_work: int | None = None
    timeout_s: float | None = None
    parts: bool = False
    """The rows of each group of files as they are."""

    def document(self) -> dict[str, object]:
        """For `POST /v1/scan`."""
        wanted: dict[str, object] = {"sql": self.sql, "sources": [absolute(source) for source in self.sources]}
        if self.merge is not None or self.parts:
            wanted["merge"] = "none"
        return wanted if self.files_per_work is None else {**wanted, "files_per_work": self.files_per_work}


def run(access: Access, order: ScanOrder) -> int:
    began_at = time.monotonic()
    client = Client(access)
    with ExitStack() as stack:
        # A SELECT to merge is checked before the request; what a sink needs besides can be loaded later.
        sink = stack.enter_context(_Sink(order)) if order.merge is not None else None
        stream = stack.enter_context(ScanStream(client, order.document(), timeout_s=order.timeout_s))
        sink = sink or stack.enter_context(_Sink(order))
        console = _console()
        try:
            rows = _pour(client, stream, sink.sink, console, order)
        except BrokenPipeError:
            return reader_gone()
    _conclude(client, console, stream.query_id, rows, time.monotonic() - began_at)
    return 0


def _pour(client: Client, stream: ScanStream, sink: "RowSink", console: "Console", order: ScanOrder) -> int:
    """All rows into the sink; how many there were."""
    from quarterdeck.scan.commands.scan_progress import ScanProgress  # noqa: PLC0415 - the request comes first

    rows = 0
    streams = order.output is None and order.merge is None and order.format is not RowFormat.TABLE
    clears = streams and not rows_stay_off_the_screen()
    with ScanProgress(client, console, shown=console.is_terminal and not _streams_to_terminal(order)) as progress:
        schema = stream.begin()
        progress.follow(stream.query_id)
        if schema is not None:
            sink.begin(schema)
        for batch in stream:
            rows += batch.num_rows
            if clears:
                progress.clear()
            sink.write(batch)
    sink.finish()
    return rows


class _Sink:
    """Where the rows of an order go; closed at the end of the block."""

    def __init__(self, order: ScanOrder) -> None:
        self._order = order

    def __enter__(self) -> "_Sink":
        from quarterdeck.scan.commands.row_sinks import ParquetSink, TableSink, TextSink  # noqa: PLC0415 - the request comes first
        from quarterdeck.scan.formats import Format  # noqa: PLC0415

        order = self._order
        if order.output is not None:
            self.sink: RowSink = ParquetSink(order.output)
        elif order.format is RowFormat.TABLE:
            from rich.console import Console  # noqa: PLC0415

            self.sink = TableSink(Console(highlight=False), _TABLE_ROWS)
        else:
            self.sink = TextSink(Format.CSV if order.format is RowFormat.CSV else Format.NDJSON)
        if order.merge is not None:
            from quarterdeck.scan.commands.merging import MergingSink  # noqa: PLC0415

            self.sink = MergingSink(order.merge, self.sink)
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()


def _console() -> "Console":
    from rich.console import Console  # noqa: PLC0415 - the request comes first

    return Console(stderr=True, highlight=False, soft_wrap=True)


def _streams_to_terminal(order: ScanOrder) -> bool:
    """Whether rows appear where a progress bar would be drawn."""
    return order.output is None and order.merge is None and order.format is not RowFormat.TABLE and sys.stdout.isatty()


def _conclude(client: Client, console: "Console", query_id: str, rows: int, seconds: float) -> None:
    try:
        query = ask_query(client, query_id)
    except QuarterdeckError as error:  # the answer is whole; only how it came about is not known
        console.print(f"{counted(rows, 'row')} in {seconds:.2f} s; {error.what}", style="dim", markup=False)
        return
    figures = (
        f"{counted(query.works, 'work')} on {counted(len(query.by_worker), 'worker')}",
        f"{counted(query.repeated, 'attempt')} repeated",
        f"{counted(rows, 'row')} in {seconds:.2f} s",
    )
    console.print(", ".join(figures), style="dim")
