"""What the demo shows: a live display on a terminal, plain lines elsewhere. Both show the same story."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from quarterdeck.terminal.crew_table import STATE_STYLES
from quarterdeck.terminal.documents import CrewReport, QueryReport

_LINE_SHARE = 4
"""Without a terminal, a line for each such part of the works."""


class DemoScreen:
    def __init__(self, console: Console, workers: Sequence[str]) -> None:
        self._console = console
        self._workers = workers
        self._began_at = time.monotonic()
        self._lines: list[str] = []
        self._once: set[str] = set()
        self._told = 0
        self._killed: str | None = None
        self._live: Live | None = None
        self._shown: tuple[CrewReport, QueryReport | None] | None = None

    def say(self, text: str = "") -> None:
        self._console.print(text)

    @contextmanager
    def step(self, doing: str, total: int) -> Generator[Callable[[int], None]]:
        """A bar that is gone when the step is over; the block is given what moves it."""
        if not self._console.is_terminal:
            self.say(doing)
            yield lambda _done: None
            return
        columns = (TextColumn("  {task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
        with Progress(*columns, console=self._console, transient=True) as progress:
            bar = progress.add_task(doing, total=total)
            yield lambda done: progress.update(bar, completed=done)

    @contextmanager
    def crew(self) -> Generator[None]:
        """The block in which the crew is watched."""
        self._began_at = time.monotonic()
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield

    def tell(self, text: str) -> None:
        """An event in the story."""
        line = f"[dim]{time.monotonic() - self._began_at:5.1f} s[/]  {text}"
        self._lines.append(line)
        if self._live is None:
            self.say(line)
        elif self._shown is not None:
            self.show(*self._shown)

    def tell_once(self, text: str) -> None:
        """An event that is seen again and again."""
        if text not in self._once:
            self._once.add(text)
            self.tell(text)

    def killed(self, worker: str) -> None:
        self._killed = worker

    def show(self, crew: CrewReport, query: QueryReport | None) -> None:
        self._shown = (crew, query)
        if self._live is not None:
            self._live.update(self._picture(crew, query), refresh=True)
        elif query is not None and query.works and query.delivered * _LINE_SHARE // query.works > self._told:
            self._told = query.delivered * _LINE_SHARE // query.works
            self.tell(f"{query.delivered} of {query.works} works delivered")

    def _picture(self, crew: CrewReport, query: QueryReport | None) -> RenderableType:
        there = {worker.worker_id: worker for worker in crew.workers}
        table = Table(box=None, padding=(0, 3, 0, 2), header_style="dim")
        for name in ("worker", "state", "in flight", "done"):
            table.add_column(name, justify="right" if name == "done" else "left", min_width=len("accepting"))
        for name in self._workers:
            worker = there.get(name)
            state = "killed" if name == self._killed else "gone" if worker is None else worker.state
            in_flight = 0 if worker is None else worker.in_flight
            table.add_row(
                name,
                Text(state, style=STATE_STYLES.get(state, "bold red")),
                Text("■ " * in_flight, style="cyan"),
                str(0 if query is None else query.by_worker.get(name, 0)),
            )
        works, delivered = (0, 0) if query is None else (query.works, query.delivered)
        bar = Table.grid(padding=(0, 2))
        seconds = f"{time.monotonic() - self._began_at:.1f} s"
        bar.add_row("", ProgressBar(max(1, works), delivered, width=40), f"{delivered}/{works} works", seconds)
        return Group(table, "", bar, "", *(Text.from_markup(f"  {line}") for line in self._lines))
