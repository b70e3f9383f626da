"""What a kind of held thing is made of on a worker: threads and a share of memory of its own, and no slot.

A query never waits for what is held, nor the other way round.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.reconcile.model import HeldError, HeldId, ThingSpec
from quarterdeck.core.tracebacks import with_empty_frames
from quarterdeck.crew.cancel import CancelToken

T = TypeVar("T")

_CANCEL_INTERVAL_S: Final = 0.01


class HeldMemory:
    """The memory that all held things of one kind share on one worker. Nobody is ended for another: who comes last, and
    does not fit, is refused. Any thread may use it."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self._lock: Final = threading.Lock()
        self._taken: Final[dict[HeldId, int]] = {}

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return sum(self._taken.values())

    def reserve(self, held_id: HeldId, total_bytes: int) -> None:
        """What it takes altogether from now on."""
        with self._lock:
            others = sum(self._taken.values()) - self._taken.get(held_id, 0)
            if others + total_bytes > self.limit_bytes:
                raise QuarterdeckError(
                    ErrorCode.RESOURCE_EXHAUSTED,
                    f"{held_id} cannot be held here",
                    f"it needs {total_bytes:,} bytes, and {others:,} of {self.limit_bytes:,} are taken",
                    "give workers more memory for held things, or start more of them",
                )
            self._taken[held_id] = total_bytes

    def free(self, held_id: HeldId) -> None:
        with self._lock:
            self._taken.pop(held_id, None)


class Held:
    """One held thing, as its holder sees it, from when it is acquired until it is released."""

    def __init__(
        self,
        held_id: HeldId,
        spec: ThingSpec,
        memory: HeldMemory,
        pool: ThreadPoolExecutor,
        broke: Callable[[HeldError], None],
    ) -> None:
        self.held_id: Final = held_id
        self.spec: Final = spec
        self.token: Final = CancelToken()
        self._memory: Final = memory
        self._pool: Final = pool
        self._broke: Final = broke

    def reserve(self, total_bytes: int) -> None:
        """Ask for memory before taking it, this much altogether; refused, it raises. Given back when it is released."""
        self._memory.reserve(self.held_id, total_bytes)

    def free(self) -> None:
        """It takes no memory any more."""
        self._memory.free(self.held_id)

    def broke(self, error: HeldError) -> None:
        """It is not held any more, by no word of the leader; on the event loop. The leader decides what follows."""
        self._broke(error)

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """What it returns or raises. Canceled, it cancels the token and waits until the function has ended."""
        future = self._pool.submit(copy_context().run, with_empty_frames, function)
        wrapped = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(wrapped)
        except asyncio.CancelledError:
            future.cancel()
            while not future.done():
                self.token.cancel()
                # Canceled once more, it waits all the same: what the function still does must not outlive this.
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((wrapped,), timeout=_CANCEL_INTERVAL_S)
            if not future.cancelled():
                future.exception()
            raise


class KindHolder(Protocol):
    """Holds the things of one kind."""

    async def acquire(self, held: Held) -> None:
        """Begins to hold it: when this returns, it is held. Or raises a `QuarterdeckError`; one that retrying does not
        cure ends the whole group. Canceled, it ends soon."""
        ...

    async def release(self, held: Held) -> None:
        """Stops holding it. Also called for one whose `acquire` failed or was canceled, and may be called again: what
        is not there is fine."""
        ...


@dataclass(frozen=True, slots=True)
class HeldKindOffer:
    """What a capability contributes to a worker for one kind of held thing."""

    holder: KindHolder
    threads: int = 1
    """Of its own. More load faster and take processors from queries."""
    memory_bytes: int = 256 << 20
    """Its share. Too small holds less than there is room for; too large leaves queries short."""
