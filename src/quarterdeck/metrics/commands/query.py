"""`quarterdeck query`: PromQL over HTTP, with the answer as a chart, a table, JSON or CSV.

The answer goes to stdout, and everything about it to stderr. Without --format, a range is a chart on a terminal and CSV
in a pipe, since only people can read a chart. An instant is a table in both.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.commands.chart_canvas import dots_within
from quarterdeck.metrics.commands.choices import QueryFormat
from quarterdeck.metrics.commands.query_answer import Kind, QueryAnswer, read_notes
from quarterdeck.metrics.commands.query_request import Question, ask, read, read_document
from quarterdeck.metrics.commands.query_times import Range, TimeOptions, resolve_times
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.telling import counted, printable, reader_gone
from quarterdeck.terminal.times import now_s

if TYPE_CHECKING:
    from rich.console import Console

_POINTS: Final = 250
"""About so many for each series, where there is no chart whose width says it."""
_FEWEST_ROWS: Final = 8
_MOST_ROWS: Final = 18
_OTHER_LINES: Final = 7
"""Of a chart, beside its rows and the rows of its legend."""


@dataclass(frozen=True, slots=True)
class QueryOrder:
    """What somebody asked for at the terminal."""

    query: str
    times: TimeOptions
    format: QueryFormat | None = None
    timeout: str | None = None
    tenant: str | None = None
    partial: str | None = None


def run(access: Access, order: QueryOrder) -> int:
    form = order.format or _default_format(order.times)
    points = dots_within(shutil.get_terminal_size().columns) if form is QueryFormat.CHART else _POINTS
    times = resolve_times(order.times, now_s(), points)
    client = Client(access)
    question = Question(order.query, times, order.timeout, order.tenant, order.partial)
    body = ask(client, question)
    try:
        if form is QueryFormat.JSON:
            _print_json(client, body)
        else:
            answer = read(client, body)
            _show(answer, form, times if isinstance(times, Range) else None)
            if answer.single is None and not answer.series:
                _say_why(client, question)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_gone()
    return 0


def _default_format(times: TimeOptions) -> QueryFormat:
    if not times.is_range:
        return QueryFormat.TABLE
    return QueryFormat.CHART if sys.stdout.isatty() else QueryFormat.CSV


def _print_json(client: Client, body: bytes) -> None:
    sys.stdout.buffer.write(body if body.endswith(b"\n") else body + b"\n")
    sys.stdout.buffer.flush()
    if b'"warnings"' in body or b'"infos"' in body:
        print_notes(*read_notes(read_document(client, body)))


def _show(answer: QueryAnswer, form: QueryFormat, times: Range | None) -> None:
    from quarterdeck.terminal.stdout_console import StdoutConsole  # noqa: PLC0415 - the request comes first

    if form is QueryFormat.CSV:
        from quarterdeck.metrics.commands.query_csv import write_csv  # noqa: PLC0415

        write_csv(answer, sys.stdout)
    elif answer.single is None and not answer.series:
        pass  # it is told below
    elif form is QueryFormat.CHART and times is not None and answer.kind is Kind.MATRIX:
        _print_chart(StdoutConsole(), answer, times)
    else:
        from quarterdeck.metrics.commands.query_table import HISTOGRAM_HINT, print_table  # noqa: PLC0415

        print_table(StdoutConsole(), answer)
        if answer.has_histograms:
            _console().print(HISTOGRAM_HINT, style="dim")
    print_notes(answer.warnings, answer.infos)


def _say_why(client: Client, question: Question) -> None:
    """That the answer is empty, and what may be done about it."""
    from quarterdeck.metrics.commands.query_hint import hints  # noqa: PLC0415 - most answers are not empty

    is_range = isinstance(question.times, Range)
    first, *more = hints(client, question.fields(), question.tenant, is_range=is_range)
    console = _console()
    console.print(f"the answer is empty: {first}", style="yellow", markup=False)
    for line in more:
        console.print(line, markup=False)


def _print_chart(console: "Console", answer: QueryAnswer, times: Range) -> None:
    from quarterdeck.metrics.commands.chart_legend import MOST_LISTED  # noqa: PLC0415 - the request comes first
    from quarterdeck.metrics.commands.query_chart import chart  # noqa: PLC0415
    from quarterdeck.metrics.commands.query_table import HISTOGRAM_HINT, histogram_table  # noqa: PLC0415

    if not console.encoding.startswith("utf"):
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "there is no chart",
            f"its dots cannot be written in the encoding {console.encoding}",
            "set LANG to one with UTF-8, or take --format table",
        )
    lines = [one for one in answer.series if one.values]
    histograms = [one for one in answer.series if one.histograms]
    if lines:
        listed = min(len(lines), MOST_LISTED)
        rows = max(_FEWEST_ROWS, min(_MOST_ROWS, console.height - _OTHER_LINES - listed))
        colours = console.color_system is not None and not console.no_color
        console.print(chart(lines, times, width=console.width, rows=rows, colours=colours))
    if histograms:
        console.print(histogram_table(histograms[:MOST_LISTED]))
        more = len(histograms) - MOST_LISTED
        if more > 0:
            console.print(f"… and {counted(more, 'more series', 'more series')}; --format table lists all")
        _console().print(HISTOGRAM_HINT, style="dim")


def print_notes(warnings: Sequence[str], infos: Sequence[str]) -> None:
    """What the server has to say about its answer, on stderr."""
    if not warnings and not infos:
        return
    console = _console()
    for text in warnings:
        if "partial" in text.lower():
            console.print(f"WARNING: THE ANSWER IS NOT WHOLE: {printable(text)}", style="bold red", markup=False)
        else:
            console.print(f"warning: {printable(text)}", style="bold yellow", markup=False)
    for text in infos:
        console.print(f"info: {printable(text)}", style="cyan", markup=False)


def _console() -> "Console":
    from rich.console import Console  # noqa: PLC0415 - the request comes first

    return Console(stderr=True, highlight=False, soft_wrap=True)
