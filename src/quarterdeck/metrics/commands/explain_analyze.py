"""`quarterdeck explain --analyze`: runs a query, and shows its plan, a timeline of its works, and the totals."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quarterdeck.metrics.commands.explain_report import PHASES, Analysis, read_analysis
from quarterdeck.metrics.commands.explain_timeline import timeline
from quarterdeck.metrics.commands.query import print_notes
from quarterdeck.metrics.commands.query_request import Question, ask, read
from quarterdeck.metrics.commands.query_times import TimeOptions, resolve_times
from quarterdeck.terminal.client import Access, Client
from quarterdeck.terminal.short_numbers import shown_size
from quarterdeck.terminal.stdout_console import StdoutConsole
from quarterdeck.terminal.telling import counted, printable, reader_gone
from quarterdeck.terminal.times import now_s

_ANALYZE: Final = "analyze"
_PIPE_WIDTH: Final = 120
_POINTS: Final = 250


@dataclass(frozen=True, slots=True)
class AnalyzeOrder:
    """What somebody asked for at the terminal."""

    query: str
    last: str
    """`0` for an instant query."""
    step: str
    end: str | None = None
    timeout: str | None = None
    tenant: str | None = None


def run(access: Access, order: AnalyzeOrder) -> int:
    instant = order.last == "0"
    options = TimeOptions(at=order.end) if instant else TimeOptions(end=order.end, last=order.last, step=order.step)
    times = resolve_times(options, now_s(), _POINTS)
    client = Client(access)
    answer = read(client, ask(client, Question(order.query, times, order.timeout, order.tenant, explain=_ANALYZE)))
    if answer.explain is None:
        raise client.stranger("it answered the query and did not explain it")
    try:
        analysis = read_analysis(answer.explain)
    except KeyError as error:
        raise client.stranger(f"its explanation has no {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise client.stranger(f"its explanation cannot be read ({error})") from None
    console = StdoutConsole()
    if not console.is_terminal:
        console.width = max(console.width, _PIPE_WIDTH)  # nobody's window
    try:
        console.print(analysis_screen(analysis, console.width))
    except BrokenPipeError:
        return reader_gone()
    print_notes(answer.warnings, answer.infos)
    return 0


def analysis_screen(analysis: Analysis, width: int) -> RenderableType:
    parts: list[RenderableType] = [Text("\n".join(map(printable, analysis.plan.splitlines()))), ""]
    parts += timeline(analysis.leaves, analysis.total_ms, width)
    parts += ["", _totals(analysis)]
    return Group(*parts)


def _totals(analysis: Analysis) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in _total_rows(analysis):
        table.add_row(name, value)
    return table


def _total_rows(analysis: Analysis) -> Iterator[tuple[str, str | Text]]:
    yield "query", Text(analysis.query_id)
    phases = ", ".join(f"{name} {analysis.phases_ms[name]:,.1f}" for name in PHASES)
    yield "time", f"{analysis.total_ms:,.1f} ms: {phases}"
    segments = analysis.segments
    told = f"{segments['read']:,} read, {segments['pruned']:,} pruned of {segments['known']:,}"
    unreadable = segments["unreadable"]
    warned = Text.assemble(told, (f", {unreadable:,} UNREADABLE", "bold red") if unreadable else "")
    yield "segments", warned
    yield "samples", f"{analysis.samples:,} of {counted(analysis.series, 'series', 'series')}"
    works = [work for leaf in analysis.leaves for work in leaf.works]
    repeated = sum(max(0, len(work.attempts) - 1) for work in works)
    yield "works", f"{len(works):,}, {counted(repeated, 'attempt')} repeated"
    figures = [work.figures for work in works if work.figures is not None]
    hits, misses = sum(one.cache_hits for one in figures), sum(one.cache_misses for one in figures)
    yield "cache", f"{counted(hits, 'hit')}, {counted(misses, 'miss', 'misses')}"
    groups_read, groups_pruned = sum(f.row_groups_read for f in figures), sum(f.row_groups_pruned for f in figures)
    yield "row groups", f"{groups_read:,} read, {groups_pruned:,} pruned"
    yield "read", shown_size(sum(one.bytes_read for one in figures))
    yield "fetched", shown_size(analysis.bytes_fetched)
    yield "memory", f"{shown_size(analysis.peak_memory_bytes)} at most"
