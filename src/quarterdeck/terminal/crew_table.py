"""The crew and its queries on a screen: it takes reports, and makes something that Rich can draw."""

import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.telemetry.masking import printable
from quarterdeck.terminal.documents import CrewReport, LeaderReport, QueryReport, WorkerReport
from quarterdeck.terminal.short_numbers import shown_size
from quarterdeck.terminal.telling import counted

STATE_STYLES = {
    "accepting": "green",
    "paused": "yellow",
    "throttled": "yellow",
    "late": "bold yellow",
    "draining": "cyan",
    "queued": "dim",
    "running": "cyan",
    "succeeded": "green",
    "partial": "yellow",
    "failed": "bold red",
    "canceled": "yellow",
}
_QUERY_ID_SHOWN = 8
_MOST_OF_REASON = 400
"""Characters; `/v1/queries` tells more."""


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
    yield Text.assemble(
        (printable(crew.name), "bold"),
        f"   {counted(crew.queries, 'query', 'queries')} running, {waiting}",
        "" if crew.leader is None else f"   {_leader(crew.leader)}",
    )
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
        yield from _reasons(queries[:most_queries])


def _leader(leader: LeaderReport) -> str:
    if leader.is_this_one:
        return "leads"
    return "nobody leads" if leader.name is None else f"{printable(leader.name)} leads"


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
            _plain(worker.worker_id),
            _plain(worker.node),
            Text(worker.state, style=STATE_STYLES.get(worker.state, "")),
            Text(f"{worker.in_flight}/{worker.slots}", style="" if worker.in_flight else "dim"),
            str(worker.credit),
            *(map(shown_size, sizes) if sizes else ("", "", "")),
            f"{worker.heard_s_ago:.1f} s",
        )
    return table


def _queries_table(queries: Sequence[QueryReport]) -> Table:
    """All but the text has its width; the text takes what is left of the window. Tenants are shown where there are
    any."""
    has_tenants = any(query.tenant != DEFAULT_TENANT for query in queries)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=True)
    for name in ("query", "kind", "state"):
        table.add_column(name, no_wrap=True)
    if has_tenants:
        table.add_column("tenant", no_wrap=True, overflow="ellipsis", max_width=12)
    table.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("works", "rows", "age", "took"):
        table.add_column(name, justify="right", no_wrap=True)
    for query in queries:
        works = Text(f"{query.delivered}/{query.works}" if query.works else "")
        if query.repeated:
            works.append(f" +{query.repeated}", "yellow")
        table.add_row(
            _plain(query.query_id[:_QUERY_ID_SHOWN]),
            _plain(query.kind),
            Text(query.state, style=STATE_STYLES.get(query.state, "")),
            *([Text(query.tenant)] if has_tenants else []),
            Text(query.text),
            works,
            f"{query.rows:,}",
            shown_age(query.age_s),
            "" if query.duration_s is None else shown_duration(query.duration_s),
        )
    return table


def _reasons(queries: Sequence[QueryReport]) -> Iterator[RenderableType]:
    """Why queries did not end well, below the table: the whole width is there for it."""
    for query in queries:
        if query.error is not None:
            _, message = query.error
            cut = message if len(message) <= _MOST_OF_REASON else message[:_MOST_OF_REASON] + "…"
            style = STATE_STYLES.get(query.state, "")
            yield Text.assemble((f"{query.query_id[:_QUERY_ID_SHOWN]} {query.state}: ", style), cut)


def _plain(name: str) -> Text:
    """A name as it is: brackets in it are no style, and nothing in it moves the cursor."""
    return Text(printable(name))


def shown_duration(duration_s: float) -> str:
    """With three digits or so.

    >>> shown_duration(0.0004), shown_duration(0.25), shown_duration(1.5), shown_duration(1234.5)
    ('0.4 ms', '250 ms', '1.50 s', '1,234 s')
    """
    if duration_s < 1:
        return f"{duration_s * 1000:.{1 if duration_s < 0.01 else 0}f} ms"
    return f"{duration_s:,.2f} s" if duration_s < 100 else f"{duration_s:,.0f} s"


def shown_age(age_s: float) -> str:
    """A length of time in the largest unit that it has.

    >>> shown_age(0.4), shown_age(59), shown_age(3600), shown_age(100_000)
    ('0 s', '59 s', '1 h', '1 d')
    """
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if age_s >= unit_s:
            return f"{int(age_s // unit_s)} {unit}"
    return f"{int(age_s)} s"


def _in_order(name: str) -> list[tuple[int, str]]:
    """A key by which worker-2 comes before worker-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
