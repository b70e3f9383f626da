"""Room in memory for small artifacts: a file for each would cost more than the work that made it.

Bookkeeping only: no bytes, no lock, no clock. When room is short, what nobody waits for any more goes, the oldest
first; what is waited for stays, and the newcomer has to go to disk.
"""

from collections import OrderedDict
from typing import Final

SMALL_BYTES: Final = 16 * 1024
"""The largest artifact that is kept in memory."""


class Pocket:
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._wanted: dict[str, int] = {}
        self._released: OrderedDict[str, int] = OrderedDict()
        self._released_bytes = 0
        self.used_bytes = 0

    def put(self, name: str, size_bytes: int) -> list[str] | None:
        """The names that have to go for it; None when it finds no room."""
        if size_bytes > SMALL_BYTES or self.used_bytes - self._released_bytes + size_bytes > self._limit_bytes:
            return None
        gone: list[str] = []
        while self.used_bytes + size_bytes > self._limit_bytes:
            oldest = next(iter(self._released))
            self.remove(oldest)
            gone.append(oldest)
        self._wanted[name] = size_bytes
        self.used_bytes += size_bytes
        return gone

    def release(self, name: str) -> bool:
        """Nobody waits for it: it goes first from now on. Whether it is here."""
        size_bytes = self._wanted.pop(name, None)
        if size_bytes is not None:
            self._released[name] = size_bytes
            self._released_bytes += size_bytes
        return name in self._released

    def remove(self, name: str) -> bool:
        """Whether it was here."""
        size_bytes = self._wanted.pop(name, None)
        if size_bytes is None:
            size_bytes = self._released.pop(name, None)
            if size_bytes is None:
                return False
            self._released_bytes -= size_bytes
        self.used_bytes -= size_bytes
        return True
