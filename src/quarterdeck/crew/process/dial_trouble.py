"""What is in the way of the peers that a process dials: told when it changes and now and then, not at each try."""

from collections.abc import Callable
from typing import Final

AGAIN_S: Final = 60.0
"""How often the same trouble is told again."""


class DialTrouble:
    """By address, until it is connected or nobody dials it any more."""

    def __init__(self, tell: Callable[[str, str], None], clock: Callable[[], float]) -> None:
        self._tell = tell
        self._clock = clock
        self._current: dict[str, tuple[str, float]] = {}

    def met(self, address: str, why: str) -> None:
        """A dial failed."""
        now_s = self._clock()
        before, told_s = self._current.get(address, ("", -AGAIN_S))
        is_news = why != before or now_s - told_s >= AGAIN_S
        self._current[address] = (why, now_s if is_news else told_s)
        if is_news:
            self._tell(address, why)

    def over(self, address: str) -> None:
        self._current.pop(address, None)

    def current(self) -> list[str]:
        """Why which address is not connected; each reason names it."""
        return [why for _, (why, _) in sorted(self._current.items())]
