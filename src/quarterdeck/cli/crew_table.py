"""The crew and its queries on a screen: reports in, something for Rich to draw out."""

import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from quarterdeck.cli.documents import CrewReport, QueryReport, WorkerReport
from quarterdeck.cli.telling import counted

STATE_STYLES = {
    "accepting": "green",
    "paused": "yellow",
    "throttled": "yellow",
    "late": "bold yellow",
    "draining": "cyan",
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "yellow",
}
_BAR_WIDTH = 20
_QUERY_ID_SHOWN = 12
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def crew_screen(
    crew: CrewReport, queries: Sequence[QueryReport], *, most_workers: int | None = None, most_queries: int = 5
) -> RenderableType:
    """Coordinator, workers, queries. What does not fit is counted."""
    return Group(*_parts(crew, queries, most_workers, most_queries))


def _parts(
    crew: CrewReport, queries: Sequence[QueryReport], most_workers: int | None, most_queries: int
) -> Iterator[RenderableType]:
    waiting = f"{counted(crew.queue_depth, 'work')} waiting"
    if crew.queue_depth:
        waiting += f", the oldest for {crew.oldest_age_s:.1f} s"
    yield Text.assemble((crew.name, "bold"), f"   {counted(crew.queries, 'query', 'queries')} running, {waiting}")
    yield ""
    if crew.workers:
        workers = sorted(crew.workers, key=lambda worker: _in_order(worker.worker_id))
        yield _workers_table(workers[:most_workers])
    else:
        yield Text("no workers: start one with `quarterdeck worker`", style="yellow")
    if most_workers is not None and len(crew.workers) > most_workers:
        yield Text(f"… and {len(crew.workers) - most_workers} more workers", style="dim")
    if queries:
        yield ""
        yield _queries_table(queries[:most_queries])


def _workers_table(workers: Sequence[WorkerReport]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("worker", no_wrap=True)
    table.add_column("node", overflow="ellipsis")  # the one to be cut where the window is narrow
    table.add_column("state", no_wrap=True)
    for name in ("busy", "credit", "cache", "results", "free disk", "heard"):
        table.add_column(name, justify="right", no_wrap=True)
    for worker in workers:
        disk = worker.disk
        sizes = () if disk is None else (disk.cache_bytes, disk.artifact_bytes, disk.free_bytes)
        table.add_row(
            worker.worker_id,
            worker.node,
            Text(worker.state, style=STATE_STYLES.get(worker.state, "")),
            Text(f"{worker.in_flight}/{worker.slots}", style="" if worker.in_flight else "dim"),
            str(worker.credit),
            *(map(shown_size, sizes) if sizes else ("", "", "")),
            f"{worker.heard_s_ago:.1f} s",
        )
    return table


def _queries_table(queries: Sequence[QueryReport]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("query", "state", "works"):
        table.add_column(name, no_wrap=True)
    for name in ("", "repeated", "rows", "duration"):
        table.add_column(name, justify="right", no_wrap=True)
    for query in queries:
        table.add_row(
            query.query_id[:_QUERY_ID_SHOWN],
            Text(query.state, style=STATE_STYLES.get(query.state, "")),
            ProgressBar(max(1, query.works), query.delivered, width=_BAR_WIDTH),
            f"{query.delivered}/{query.works}",
            Text(str(query.repeated), style="yellow" if query.repeated else "dim"),
            f"{query.rows:,}",
            "" if query.duration_s is None else f"{query.duration_s:.2f} s",
        )
    return table


def _in_order(name: str) -> list[tuple[int, str]]:
    """A key by which worker-2 comes before worker-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def shown_size(size_bytes: float) -> str:
    """In the unit that keeps it short.

    >>> shown_size(0), shown_size(1023), shown_size(1536), shown_size(20 * 1024**3)
    ('0 B', '1023 B', '1.5 KiB', '20.0 GiB')
    """
    unit = _UNITS[0]
    for unit in _UNITS:
        if size_bytes < 1024 or unit == _UNITS[-1]:
            break
        size_bytes /= 1024
    return f"{size_bytes:.0f} {unit}" if unit == _UNITS[0] else f"{size_bytes:.1f} {unit}"
