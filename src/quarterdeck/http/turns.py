"""`Turns`: how many requests begin in one turn of the event loop.

Thousands of clients may ask at once. Each request is short, but all of them in one turn keep everything else waiting
for seconds, including heartbeats, and a silent worker is lost. So some begin in a turn, fewer if turns take long. The
others wait for the next turns, in the order in which they came.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

MOST: Final = 16
"""In a turn, when turns are short."""
_LONG_S: Final = 0.05
"""A turn that takes longer had too many: half of what is a stall."""
_SHORT_S: Final = 0.02


class Turns:
    """Shared by all connections of a server, on one loop."""

    def __init__(self) -> None:
        self.most = MOST
        """That the next turn may begin."""
        self._left = MOST
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_counting = False
        self._has_begun = False
        self._last_s = 0.0

    def __len__(self) -> int:
        """Requests that wait to be begun."""
        return len(self._waiting)

    def begin(self, request: Callable[[], None]) -> None:
        """Calls it, now or in one of the next turns."""
        if self._left and not self._waiting:
            self._left -= 1
            self._has_begun = True
            request()
        else:
            self._waiting.append(request)
        if not self._is_counting:
            self._is_counting = True
            loop = asyncio.get_running_loop()
            self._last_s = loop.time()
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once in each turn, until there is one without a request."""
        now_s = loop.time()
        self._adapt(now_s - self._last_s)
        self._last_s = now_s
        is_quiet = not self._has_begun and not self._waiting
        self._has_begun = False
        self._left = self.most
        while self._left and self._waiting:
            self._left -= 1
            self._has_begun = True
            self._waiting.popleft()()
        if is_quiet:
            self._is_counting = False
        else:
            loop.call_soon(self._turn, loop)

    def _adapt(self, took_s: float) -> None:
        if took_s > _LONG_S:
            self.most = max(1, self.most // 2)
        elif took_s < _SHORT_S:
            self.most = min(MOST, self.most * 2)
