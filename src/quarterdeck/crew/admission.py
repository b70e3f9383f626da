"""How many of a kind run at once. The others wait in the order in which they came, not for ever and not without number;
when the process is on its way out, nobody new is let in.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.ports import Clock


class QueuedTooLongError(QuarterdeckError):
    """Somebody's time was over before their turn came."""

    def __init__(self, what: str, waited_s: float, at_once: int, setting: str) -> None:
        super().__init__(
            ErrorCode.DEADLINE_EXCEEDED,
            f"the {what} was not run",
            f"it waited {waited_s:.3g} s while {at_once} others ran",
            f"ask again later, or let more run at once with {setting}",
            retryable=True,
        )
        self.args = (what, waited_s, at_once, setting)


class ClosedError(QuarterdeckError):
    """The process is on its way out."""

    def __init__(self, what: str) -> None:
        super().__init__(
            ErrorCode.UNAVAILABLE,
            f"the {what} was not begun",
            "this process is shutting down",
            "ask another one, or this one when it is back",
        )
        self.args = (what,)


class LineFullError(QuarterdeckError):
    """So many wait already that one more would only wait in vain."""

    def __init__(self, what: str, waiting: int, at_once: int, setting: str) -> None:
        super().__init__(
            ErrorCode.RESOURCE_EXHAUSTED,
            f"the {what} was not run",
            f"{waiting} others wait already, and {at_once} run",
            f"ask again later, or let more run at once with {setting}",
        )
        self.args = (what, waiting, at_once, setting)


class Admission:
    """A line of those who wait, and a number of places. One event loop uses it."""

    def __init__(
        self,
        at_once: int,
        clock: Clock,
        *,
        what: str,
        setting: str,
        waiting_for_each: int = 50,
    ) -> None:
        """`what` waits here, and how many may run is told with `setting`: for whoever reads the errors. For each place
        so many may wait: the last of more would wait for minutes, each connected."""
        self._at_once: Final = at_once
        self._clock: Final = clock
        self._what: Final = what
        self._setting: Final = setting
        self._waiting_at_most: Final = waiting_for_each * at_once
        self._waiting: Final[OrderedDict[asyncio.Future[None], float]] = OrderedDict()
        """Since when each waits, the first in line first."""
        self._closed = False
        self.running = 0

    def close(self) -> None:
        """Lets nobody in who is not in line by now."""
        self._closed = True

    @property
    def is_full(self) -> bool:
        """Whether whoever comes now has to wait."""
        return self.running >= self._at_once

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def oldest_s(self) -> float:
        """How long the first in line has waited; 0 when nobody does."""
        return self._clock.now() - next(iter(self._waiting.values())) if self._waiting else 0.0

    @asynccontextmanager
    async def admitted(self, wait_limit_s: float) -> AsyncGenerator[float]:
        """Runs the block when there is a place; yields how long that took. Raises `QueuedTooLongError`,
        `LineFullError` and `ClosedError`."""
        if self._closed:
            raise ClosedError(self._what)
        began_s = self._clock.now()
        await self._take(wait_limit_s)
        try:
            yield self._clock.now() - began_s
        finally:
            self._give_back()

    async def _take(self, wait_limit_s: float) -> None:
        if self.running < self._at_once:  # then nobody waits: a place that gets free goes to who does
            self.running += 1
            return
        if self.depth >= self._waiting_at_most:
            raise LineFullError(self._what, self.depth, self._at_once, self._setting)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = began_s = self._clock.now()
        try:
            async with asyncio.timeout(wait_limit_s):
                await turn
        except BaseException as error:
            self._waiting.pop(turn, None)
            if turn.done() and not turn.cancelled():
                self._give_back()  # its turn came in the moment in which it gave up
            if isinstance(error, TimeoutError):
                waited_s = self._clock.now() - began_s
                raise QueuedTooLongError(self._what, waited_s, self._at_once, self._setting) from None
            raise

    def _give_back(self) -> None:
        """The place goes to the first who waits."""
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1
