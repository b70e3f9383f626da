"""A database beside the event loop: one thread writes, a few read, and a slow disk blocks neither the loop nor readers.

A transaction that has begun in its thread runs to its end, even if nobody waits for it any more. One that has not begun
is then dropped.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import Fence
from quarterdeck.stores.database.failures import DatabaseClosedError
from quarterdeck.stores.database.fences.checked import under_fence
from quarterdeck.stores.database.sql import SqlDatabase

T = TypeVar("T")


class ThreadedDatabase:
    """`port.Database`, for a real process."""

    def __init__(self, database: SqlDatabase, *, waiting_max: int = 1024, close_max_s: float = 10.0) -> None:
        """Beyond `waiting_max` transactions, those that run included, more are refused: a disk that hangs must not fill
        the memory. `close_max_s` is how long closing waits for them."""
        self._database: Final = database
        self._waiting_max: Final = waiting_max
        self._close_max_s: Final = close_max_s
        self._writer: Final = ThreadPoolExecutor(1, "database-writer")
        self._readers: Final = ThreadPoolExecutor(database.readers, "database-reader")
        self._under_way: Final[set[Future[Any]]] = set()
        self._closing = False

    async def run(self, transaction: Callable[[Connection], T]) -> T:
        return await self._in(self._writer, lambda: self._database.run(transaction))

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        return await self._in(self._readers, lambda: self._database.read(transaction))

    async def fenced(self, fence: Fence, transaction: Callable[[Connection], T]) -> T:
        return await self.run(under_fence(fence, transaction))

    async def upgrade(self) -> None:
        await self._in(self._writer, self._database.upgrade)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        try:
            async with asyncio.timeout(self._close_max_s):
                await self._wait_ended()
                await self._submit(self._writer, self._database.close)
        except TimeoutError:
            raise QuarterdeckError(
                ErrorCode.DEADLINE_EXCEEDED,
                f"the database {self._database.place} was not closed in good order",
                f"{len(self._under_way)} transactions had not ended within {self._close_max_s:g} s",
                "what they do is committed or not, each as a whole; look at the disk or the server they wait for",
            ) from None
        finally:
            self._database.close()  # what has not begun in its thread will not
            self._writer.shutdown(wait=not self._under_way)
            self._readers.shutdown(wait=not self._under_way)

    async def _wait_ended(self) -> None:
        """Waits until everything that is running has ended, including what nobody else waits for any more."""
        ends = [asyncio.wrap_future(future) for future in tuple(self._under_way)]
        for end in ends:
            end.add_done_callback(_see)
        if ends:
            await asyncio.wait(ends)

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closing:
            raise DatabaseClosedError(self._database.place)
        if len(self._under_way) >= self._waiting_max:
            raise QuarterdeckError(
                ErrorCode.RESOURCE_EXHAUSTED,
                f"the database {self._database.place} was not asked",
                f"{self._waiting_max} transactions wait for it already",
                "try again when it has caught up; look at its disk when that takes long",
            )
        return await self._submit(threads, work)

    async def _submit(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        future = threads.submit(work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(future)


def _see(future: asyncio.Future[Any]) -> None:
    """Its error is for whoever asked for the transaction; asyncio must not miss anybody here."""
    if not future.cancelled():
        future.exception()
