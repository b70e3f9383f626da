"""The progress of a search, on stderr, while somebody waits for it. Rows on the same terminal go above the bar."""

import os
import sys
import time
from collections.abc import Iterator
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.text import Text

from quarterdeck.search.commands.search_events import ToldProgress
from quarterdeck.terminal.short_numbers import short_bytes, short_share
from quarterdeck.terminal.stdout_place import rows_stay_off_the_screen
from quarterdeck.terminal.telling import counted

_SHORTEST_BAR: Final = 8
_LONGEST_BAR: Final = 30
_FIGURES: Final = 72
"""Columns that the figures mostly fit into."""


class SearchProgress:
    """Use it as a context: the bar is gone at its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = console.is_terminal and not console.is_dumb_terminal
        self._above = False
        self._keeps = rows_stay_off_the_screen()
        self._latest: ToldProgress | None = None
        self._heard_s = 0.0
        columns = (BarColumn(max(_SHORTEST_BAR, min(_LONGEST_BAR, console.width - _FIGURES))), _Figures(self))
        self._bars = Bars(
            *columns,
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self._shown,
        )
        self._bar = self._bars.add_task("", total=None)

    @property
    def latest(self) -> ToldProgress | None:
        """What is known; None when nothing is yet."""
        return self._latest

    @property
    def rate(self) -> float:
        """Bytes a second, since it was first heard of."""
        latest, seconds = self._latest, time.monotonic() - self._heard_s
        return 0.0 if latest is None or seconds <= 0 else latest.done_bytes / seconds

    def __enter__(self) -> Self:
        self._bars.start()
        self._above = self._shown and _is_one_terminal()
        return self

    def __exit__(self, *_: object) -> None:
        self._above = False
        self._bars.stop()

    def update(self, progress: ToldProgress) -> None:
        if self._latest is None:
            self._heard_s = time.monotonic()
        self._latest = progress
        self._bars.update(self._bar, total=progress.total_bytes, completed=progress.done_bytes)

    def write(self, text: bytes) -> None:
        """Rows for stdout."""
        if self._above:
            self._console.print(_Raw(text.decode(errors="replace")), crop=False, end="")
        else:
            if not self._keeps:
                self._bars.stop()  # again is fine
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()


class _Figures(ProgressColumn):
    max_refresh = 0.1

    def __init__(self, search: SearchProgress) -> None:
        super().__init__()
        self._search = search

    def render(self, task: Task) -> Text:
        return Text("  ".join(self._figures(task)), no_wrap=True, overflow="ellipsis")

    def _figures(self, task: Task) -> Iterator[str]:
        now, elapsed_s = self._search.latest, task.elapsed or 0.0
        if now is None:
            yield shown_clock(elapsed_s)
            return
        yield short_share(now.done_bytes, now.total_bytes)
        rate = self._search.rate
        if rate:
            left_s = max(0, now.total_bytes - now.done_bytes) / rate
            yield f"{short_bytes(rate)}/s"
            yield f"{shown_clock(elapsed_s)}, {shown_clock(left_s)} left"
        else:
            yield shown_clock(elapsed_s)
        yield counted(now.matches, "match", "matches")
        if now.workers_lost:
            yield f"{now.workers_lost:,} lost"
        if now.bad_lines:
            yield counted(now.bad_lines, "bad line")
        if now.workers:
            yield counted(now.workers, "worker")


class _Raw:
    """Text with its colours in it, as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, _console: Console, _options: object) -> Iterator[Segment]:
        yield Segment(self._text)


def shown_clock(seconds: float) -> str:
    """
    >>> shown_clock(5.9), shown_clock(65), shown_clock(3723)
    ('0:05', '1:05', '1:02:03')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _is_one_terminal() -> bool:
    """Whether stdout and stderr are the same one."""
    try:
        out, error = sys.stdout.fileno(), sys.stderr.fileno()
        return os.isatty(out) and os.ttyname(out) == os.ttyname(error)
    except OSError:
        return False
