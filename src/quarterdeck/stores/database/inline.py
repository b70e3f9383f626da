"""A database whose transactions run in place, on the event loop: for the simulator, which has no threads.

It is not for a real process: while a transaction runs, nothing else does.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection

from quarterdeck.core.ids import Fence
from quarterdeck.stores.database.fences.checked import under_fence
from quarterdeck.stores.database.sql import SqlDatabase

T = TypeVar("T")


class InlineDatabase:
    """`port.Database`. Before and after a transaction other tasks run, as they would while a thread works. So whoever
    waits may be canceled before the transaction began, or after it was committed."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database: Final = database

    async def run(self, transaction: Callable[[Connection], T]) -> T:
        return await self._in_turn(lambda: self._database.run(transaction))

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        return await self._in_turn(lambda: self._database.read(transaction))

    async def fenced(self, fence: Fence, transaction: Callable[[Connection], T]) -> T:
        return await self.run(under_fence(fence, transaction))

    async def upgrade(self) -> None:
        await self._in_turn(self._database.upgrade)

    async def close(self) -> None:
        self._database.close()

    async def _in_turn(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        result = work()
        await asyncio.sleep(0)
        return result
