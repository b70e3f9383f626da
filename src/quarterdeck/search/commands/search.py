"""`quarterdeck search`: log lines of NDJSON and Parquet files, searched by the crew or by this process alone.

Rows go to stdout and everything about them to stderr. Without --format, records on a terminal are lines for people and
results a table; in a pipe both are NDJSON. Either an answer is whole, or the exit code is not 0.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.capability import Capability
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode, QuarterdeckError
from quarterdeck.search.commands.choices import SearchFormat, SearchOrder
from quarterdeck.search.commands.search_events import Done, Event, EventSource, ToldProgress, ToldRows
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.sources import absolute
from quarterdeck.terminal.telling import reader_gone

if TYPE_CHECKING:
    from quarterdeck.search.commands.search_progress import SearchProgress
    from quarterdeck.search.commands.search_shape import Shape
    from quarterdeck.search.commands.search_sinks import RowSink


@dataclass(frozen=True, slots=True)
class TerminalSearch:
    """What somebody asked for at the terminal."""

    query: str
    sources: Sequence[str]
    start: str | None = None
    end: str | None = None
    last: str | None = None
    order: SearchOrder | None = None
    time_field: str | None = None
    max_workers: int | None = None
    format: SearchFormat = SearchFormat.AUTO
    output: Path | None = None
    """A file for NDJSON; then nothing is shown."""
    timeout_s: float | None = None
    local: bool = False
    tenant: str | None = None

    def document(self) -> dict[str, object]:
        """For `POST /v1/search`."""
        start, end = self._range()
        given = {
            "start": start,
            "end": end,
            "order": self.order,
            "time_field": self.time_field,
            "max_workers": self.max_workers,
        }
        wanted: dict[str, object] = {"query": self.query, "sources": [absolute(source) for source in self.sources]}
        return {**wanted, **{name: value for name, value in given.items() if value is not None}}

    def _range(self) -> tuple[str | None, str | None]:
        if self.start is None and self.end is None and self.last is None:
            return None, None
        from quarterdeck.terminal.times import now_s, resolve_bounds  # noqa: PLC0415 - most searches have no times

        return resolve_bounds(self.start, self.end, self.last, now_s())


def run(access: Access, request: TerminalSearch, capabilities: Sequence[Capability]) -> int:
    with _begun(access, request, capabilities) as search:
        from rich.console import Console  # noqa: PLC0415 - the request comes first

        from quarterdeck.search.commands.search_progress import SearchProgress  # noqa: PLC0415
        from quarterdeck.search.commands.search_report import conclude, how_far  # noqa: PLC0415

        console = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
        progress = SearchProgress(console)
        with closing(_sink(request, progress)) as sink:
            try:
                with progress:
                    done = _pour(search, sink, progress)
                if done.error is not None:
                    raise done.error
                sink.finish()
            except BrokenPipeError:
                return reader_gone()
            except QuarterdeckError:
                if sink.has_shown:
                    console.print("what was shown is not the whole answer", style="bold yellow")
                raise
            except KeyboardInterrupt:
                sys.stderr.write(f"quarterdeck: interrupted: {how_far(progress.latest)}\n")
                return ERROR_TABLE[ErrorCode.CANCELED].exit_code
    return conclude(console, done)


def _begun(
    access: Access, request: TerminalSearch, capabilities: Sequence[Capability]
) -> AbstractContextManager[EventSource]:
    if request.local:
        from quarterdeck.search.commands.search_local import LocalSearch  # noqa: PLC0415 - it loads the engine
        from quarterdeck.search.engine.line_code import SCAN_LINES  # noqa: PLC0415

        if not SCAN_LINES.is_ready:
            sys.stderr.write("The code that reads lines is compiled for this machine, once: some ten seconds.\n")
        return LocalSearch(request.document(), capabilities, timeout_s=request.timeout_s)
    from quarterdeck.search.commands.search_stream import SearchStream  # noqa: PLC0415 - not for what is local

    return SearchStream(Client(access), request.document(), timeout_s=request.timeout_s, tenant=request.tenant)


def _sink(request: TerminalSearch, progress: "SearchProgress") -> "RowSink":
    from quarterdeck.search.commands import search_sinks as sinks  # noqa: PLC0415 - the request comes first

    if request.output is not None:
        return sinks.FileSink(request.output)
    at_terminal = sys.stdout.isatty()
    out = sinks.harmless(progress.write) if at_terminal else progress.write
    match request.format:
        case SearchFormat.AUTO if at_terminal:
            shape = _shape(request)
            return sinks.TableSink(shape.counts) if shape.is_table else _lines_sink(request, progress)
        case SearchFormat.TABLE:
            return sinks.TableSink(_shape(request).counts)
        case SearchFormat.LINES:
            return _lines_sink(request, progress)
        case SearchFormat.CSV:
            return sinks.CsvSink(out)
        case SearchFormat.NDJSON | SearchFormat.AUTO:
            return sinks.NdjsonSink(out)


def _shape(request: TerminalSearch) -> "Shape":
    from quarterdeck.search.commands.search_shape import shape_of  # noqa: PLC0415 - loads the language; only tables need it

    return shape_of(request.query)


def _lines_sink(request: TerminalSearch, progress: "SearchProgress") -> "RowSink":
    from rich.console import Console  # noqa: PLC0415 - the request comes first

    from quarterdeck.search.commands.record_lines import RecordPainter  # noqa: PLC0415
    from quarterdeck.search.commands.search_sinks import LinesSink  # noqa: PLC0415

    screen = Console()
    colours = screen.is_terminal and screen.color_system is not None and not screen.no_color
    columns = screen.width if screen.is_terminal else None
    painter = RecordPainter(columns=columns, colours=colours, time_field=request.time_field)
    return LinesSink(progress.write, painter, sys.stdout.encoding)


def _pour(search: EventSource, sink: "RowSink", progress: "SearchProgress") -> Done:
    """All rows into the sink; how it ended."""
    ends: list[Done] = []

    def take(event: Event) -> None:
        match event:
            case ToldRows():
                sink.write(event.text)
            case ToldProgress():
                progress.update(event)
            case Done():
                ends.append(event)

    search.pour(take)
    [done] = ends
    return done
