"""How many fetches run at once: in all, and from one host, so that a slow worker cannot take all places."""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager


class _Host:
    def __init__(self, limit: int) -> None:
        self.places = asyncio.Semaphore(limit)
        self.users = 0


class Places:
    def __init__(self, limit: int, limit_per_host: int) -> None:
        self._all = asyncio.Semaphore(limit)
        self._limit_per_host = limit_per_host
        self._hosts: dict[Hashable, _Host] = {}

    @property
    def taken_or_waited_for(self) -> int:
        return sum(entry.users for entry in self._hosts.values())

    @asynccontextmanager
    async def taken(self, host: Hashable) -> AsyncGenerator[None]:
        """Waits for a place at the host first: who waits for a slow one keeps nobody else from a place."""
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = _Host(self._limit_per_host)
        entry.users += 1
        try:
            async with entry.places, self._all:
                yield
        finally:
            entry.users -= 1
            if entry.users == 0:
                del self._hosts[host]
