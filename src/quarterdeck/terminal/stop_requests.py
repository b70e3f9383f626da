"""SIGINT and SIGTERM as something to check between two steps, instead of an exception anywhere."""

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequests:
    """Use it as a context, in the main thread."""

    def __init__(self) -> None:
        self.number = 0
        """How often it was asked to stop."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def once(self) -> bool:
        """Whether to stop."""
        return self.number > 0

    def twice(self) -> bool:
        """Whether to stop at once."""
        return self.number > 1

    def _came(self, _number: int, _frame: FrameType | None) -> None:
        self.number += 1
