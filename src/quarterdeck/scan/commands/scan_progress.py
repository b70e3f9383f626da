"""The progress of a query, on stderr, while somebody waits for its rows."""

import threading
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.terminal.client import Client
from quarterdeck.terminal.documents import ask_query

_EVERY_S: Final = 0.25


class ScanProgress:
    """Use it as a context. It asks the coordinator in a thread of its own, which ends with the block. It does not
    report its own errors: whoever reads the rows will meet them too, and knows more."""

    def __init__(self, client: Client, console: Console, *, shown: bool) -> None:
        self._client = client
        self._shown = shown
        self._over = threading.Event()
        self._drawing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("works"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self._shown:
            self._progress.start()
            self._bar = self._progress.add_task("waiting for the first rows", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if self._thread is not None:
            self._thread.join()

    def clear(self) -> None:
        """Wipes it, for good: now rows come to the same screen. Again is fine."""
        with self._drawing:
            self._over.set()
            if self._shown:
                self._shown = False
                self._progress.stop()

    def follow(self, query_id: str) -> None:
        """From now on its works are counted."""
        if self._shown:
            self._thread = threading.Thread(target=self._ask, args=(query_id,), name="scan progress")
            self._thread.start()

    def _ask(self, query_id: str) -> None:
        while not self._over.is_set():
            try:
                query = ask_query(self._client, query_id)
            except QuarterdeckError:
                return
            with self._drawing:
                if self._over.is_set():
                    return
                self._progress.update(
                    self._bar, description="scanning", total=query.works, completed=query.delivered, refresh=True
                )
            self._over.wait(_EVERY_S)
