"""Where the time of a query went, on a screen: a bar for each attempt of each work, on one scale from beginning to end.

The phases differ by sign and by colour, so that a bar can be read without colours too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from quarterdeck.metrics.commands.explain_report import AttemptReport, Leaf, LeafWork
from quarterdeck.terminal.telling import counted, printable

MOST_WORKS: Final = 20
_WAITING: Final = ("·", "dim")
_EXECUTING: Final = ("█", "green")
_FETCHING: Final = ("▒", "cyan")
_LOST: Final = ("x", "red")
_LEAST_BAR: Final = 20
_FIGURES: Final = 20
"""What the columns to the right of the bars take."""
_LONGEST_SHARDS: Final = 9
_LONGEST_WORKER: Final = 16
_DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class _Widths:
    """Of the columns: the same for all leaves, so that all bars have one scale."""

    shards: int
    worker: int
    bar: int

    @classmethod
    def of(cls, works: Sequence[LeafWork], width: int) -> "_Widths":
        shards = _widest("shards", (show_shards(work.shards) for work in works), _LONGEST_SHARDS)
        names = (attempt.worker_id for work in works for attempt in work.attempts)
        worker = _widest("worker", names, _LONGEST_WORKER)
        return cls(shards, worker, max(_LEAST_BAR, width - shards - worker - 2 - _FIGURES))


def _widest(heading: str, cells: Iterable[str], most: int) -> int:
    return min(most, max(map(len, (heading, *cells))))


def timeline(leaves: Sequence[Leaf], total_ms: float, width: int) -> Iterator[RenderableType]:
    """The slowest works by leaf; the others are counted."""
    works = [work for leaf in leaves for work in leaf.works]
    if not works:
        yield Text("no work was given to the crew", style="dim")
        return
    slowest = sorted(works, key=lambda work: work.length_ms(total_ms), reverse=True)[:MOST_WORKS]
    shown = {work.work_id for work in slowest}
    widths = _Widths.of(slowest, width)
    yield _key()
    for leaf in leaves:
        yield from _leaf_lines(leaf, [work for work in leaf.works if work.work_id in shown], total_ms, widths)
    more = len(works) - len(slowest)
    if more:
        yield Text(f"… and {counted(more, 'more work', 'more works')}, each faster than these", style="yellow")


def _key() -> Text:
    signs = ((_WAITING, "waiting"), (_EXECUTING, "executing"), (_FETCHING, "fetching"), (_LOST, "in vain"))
    return Text.assemble(*(part for (sign, style), word in signs for part in ((sign * 2, style), f" {word}  ")))


def _leaf_lines(leaf: Leaf, works: Sequence[LeafWork], total_ms: float, widths: _Widths) -> Iterator[RenderableType]:
    segments = f"{counted(leaf.read, 'segment')} read, {leaf.pruned:,} pruned"
    yield Text.assemble(
        "\n", (printable(leaf.text), "bold"), f"  {leaf.merge}; {segments}; {counted(len(leaf.works), 'work')}"
    )
    if not works:
        return
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("shards", no_wrap=True, width=widths.shards)
    table.add_column("worker", no_wrap=True, width=widths.worker)
    table.add_column(_scale(total_ms, widths.bar), no_wrap=True, width=widths.bar)
    table.add_column("ms", justify="right", no_wrap=True, min_width=7)
    table.add_column("samples", justify="right", no_wrap=True)
    for work in works:
        for row in _work_rows(work, total_ms, widths.bar):
            table.add_row(*row)
    yield table
    for work in works:
        for attempt in work.attempts:
            if attempt.error:
                told = f"{attempt.worker_id} {attempt.outcome}: {attempt.error}"
                yield Text(f"shards {show_shards(work.shards)}: {printable(told)}", style="red")


def _scale(total_ms: float, cells: int) -> Text:
    end = f"{total_ms:,.1f}"
    return Text("0".ljust(cells - len(end)) + end)


def _work_rows(work: LeafWork, total_ms: float, cells: int) -> Iterator[list[Text]]:
    shards = show_shards(work.shards)
    attempts = work.attempts
    for index, attempt in enumerate(attempts):
        last = index == len(attempts) - 1
        end_ms = _end_ms(attempt, None if last else attempts[index + 1].assigned_ms, total_ms)
        length_ms = end_ms - (attempt.assigned_ms or 0.0)
        samples = f"{work.figures.samples:,}" if last and work.figures is not None else ""
        good = attempt.outcome == _DONE
        yield [
            Text(shards if index == 0 else ""),
            Text(printable(attempt.worker_id)),
            bar(attempt, end_ms, total_ms, cells),
            Text(f"{length_ms:,.1f}"),
            Text(samples) if good else Text(printable(attempt.outcome), style="red"),
        ]
    if not attempts:
        yield [Text(shards), Text("nobody", style="red"), Text(_WAITING[0] * cells, style="dim"), Text(""), Text("")]


def _end_ms(attempt: AttemptReport, next_ms: float | None, total_ms: float) -> float:
    """Of one that came to nothing nobody knows more than when the next one began."""
    known = (attempt.fetched_ms, attempt.ready_ms if attempt.outcome != _DONE else None, next_ms, total_ms)
    return next(end_ms for end_ms in known if end_ms is not None)


def bar(attempt: AttemptReport, end_ms: float, total_ms: float, cells: int) -> Text:
    """From the query's begin: until it was assigned, until its result was ready, until that was here."""
    assigned_ms = attempt.assigned_ms if attempt.assigned_ms is not None else end_ms
    ready_ms = attempt.ready_ms if attempt.ready_ms is not None else end_ms
    executing = _EXECUTING if attempt.outcome == _DONE else _LOST
    edges = [_cell(at_ms, total_ms, cells) for at_ms in (0.0, assigned_ms, ready_ms, end_ms)]
    if edges[3] == edges[1]:  # however short it was, it is seen
        edges[1] = min(edges[1], cells - 1)
        edges[2] = edges[3] = edges[1] + 1
    signs = (_WAITING, executing, _FETCHING)
    return Text.assemble(
        *((sign * (to - at), style) for (sign, style), (at, to) in zip(signs, pairwise(edges), strict=True))
    )


def _cell(at_ms: float, total_ms: float, cells: int) -> int:
    return min(cells, max(0, round(at_ms / total_ms * cells))) if total_ms > 0 else 0


def show_shards(shards: Sequence[int]) -> str:
    """
    >>> show_shards([0, 1, 2, 3]), show_shards([0, 5]), show_shards([7]), show_shards([])
    ('0-3', '0,5', '7', 'all')
    """
    if not shards:
        return "all"
    ordered = sorted(shards)
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))
