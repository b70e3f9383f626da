"""How a query learns that it is no longer wanted."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class StopSignal(Protocol):
    """Given by whoever asks; looked at by whoever computes."""

    def check(self) -> None:
        """Raises if it is so."""
        ...

    def on_cancel(self, callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Calls this, again and again until the block ends, from when it is so."""
        ...
