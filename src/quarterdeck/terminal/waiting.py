"""A sign on stderr that something is going on, for a person who waits at a terminal. Nothing is shown if nobody waits,
or not for long."""

import sys
import threading
from typing import Final, Self

_AFTER_S: Final = 0.5


class Waiting:
    """Use it as a context. It is drawn by a thread of its own, which ends with the block and wipes what it drew."""

    def __init__(self, words: str, *, after_s: float = _AFTER_S) -> None:
        self._words = words
        self._after_s = after_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._show, name="waiting")
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._over.wait(self._after_s):
            return
        from rich.console import Console  # noqa: PLC0415 - most answers are faster
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        console = Console(stderr=True, highlight=False)
        if not console.is_terminal or console.is_dumb_terminal:
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            progress.add_task(self._words, total=None)
            self._over.wait()
