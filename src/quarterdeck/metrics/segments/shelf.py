"""`Shelf`: row groups that were read, kept in memory as long as there is room for them.

What was used longest ago goes first. What a query still holds lives on until it lets go. Any thread may use it; two
that ask for the same at the same time may both read it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast


class Sized(Protocol):
    """Something that knows what it takes."""

    @property
    def size_bytes(self) -> int: ...


S = TypeVar("S", bound=Sized)


@dataclass(slots=True)
class Reading:
    """What one work has read, and what it found here."""

    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    groups_read: int = 0
    groups_pruned: int = 0


class Shelf:
    """See the module."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes: int = 0
        self.hits: int = 0
        self.misses: int = 0
        self._kept: Final[OrderedDict[Hashable, tuple[Any, int]]] = OrderedDict()
        self._lock: Final = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, read: Callable[[], S]) -> tuple[S, bool]:
        """What is kept under this key, or else what `read` gives, which is kept from now on; and whether it was
        here."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is not None:
                self._kept.move_to_end(key)
                self.hits += 1
                return cast("S", entry[0]), True
            self.misses += 1
        found = read()
        size_bytes = found.size_bytes
        if size_bytes <= self.limit_bytes:
            with self._lock:
                self._put(key, found, size_bytes)
        return found, False

    def clear(self) -> None:
        """Lets go of everything: memory is short."""
        with self._lock:
            self._kept.clear()
            self.used_bytes = 0

    def _put(self, key: Hashable, value: Sized, size_bytes: int) -> None:
        before = self._kept.pop(key, None)
        if before is not None:
            self.used_bytes -= before[1]
        self._kept[key] = (value, size_bytes)
        self.used_bytes += size_bytes
        while self.used_bytes > self.limit_bytes:
            _, (_, gone_bytes) = self._kept.popitem(last=False)
            self.used_bytes -= gone_bytes
