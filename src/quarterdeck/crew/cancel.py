"""How a thread learns that nobody wants its result any more.

A thread cannot be stopped from outside: it asks, or something that it waits for is interrupted on its behalf. A token
is shared by the one who cancels, on the event loop, and the one who works, in a thread.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from quarterdeck.core.errors import ErrorCode, QuarterdeckError


class WorkCanceledError(QuarterdeckError):
    """Raised in the thread, where work stops because it was canceled."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.CANCELED, "the work was stopped", "nobody waits for its result any more", "ask again if you do"
        )


class CancelToken:
    """Canceled once, for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._canceled = False

    @property
    def is_canceled(self) -> bool:
        return self._canceled

    def check(self) -> None:
        """Raises `WorkCanceledError` if it was canceled. A thread that loops calls this in every round."""
        if self._canceled:
            raise WorkCanceledError

    def cancel(self) -> None:
        """Says it again when called again: an interrupt that comes a moment before what it is to interrupt is lost, so
        whoever waits for the thread cancels until it has ended."""
        with self._lock:
            self._canceled = True
            for callback in self._callbacks:
                callback()

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Generator[None]:
        """While the block runs, `cancel` calls this, from the canceling thread; at once if it was canceled already.
        After the block it is not called any more. It must be quick, must not raise, and must not use the token."""
        with self._lock:
            self._callbacks.append(callback)
            if self._canceled:
                callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)
