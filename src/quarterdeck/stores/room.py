"""Bytes of a budget for what it cannot see: files without a name, and a folder in which a library writes.

Rules: take room before anything is written, and give it back when that is deleted. One thread at a time uses it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from quarterdeck.stores.disk_full import DiskFullError
from quarterdeck.stores.limits import Owner


class Room:
    """Made by `DiskBudget.room`. It holds what it took until it is given back."""

    def __init__(self, owner: Owner, key: str, enlarge: "Callable[[Room, int], None]", returned: "deque[Room]") -> None:
        """`enlarge` reserves more for it, or raises. What is put to the end of `returned` is counted out."""
        self.owner: Final = owner
        self.key: Final = key
        self.size_bytes = 0
        """What is known to be on the disk of it: the file system does not count that as free any more."""
        self.reserved_bytes = 0
        """Written by the budget alone, under its lock."""
        self._enlarge: Final = enlarge
        self._returned: Final = returned

    def take(self, more_bytes: int) -> None:
        """Raises `DiskFullError`, and then has what it had."""
        if more_bytes:
            self._enlarge(self, more_bytes)

    def take_up_to(self, wished_bytes: int) -> int:
        """How much it got: this, or a half of it as often as there is not so much."""
        while wished_bytes:
            try:
                self.take(wished_bytes)
            except DiskFullError:
                wished_bytes //= 2
            else:
                break
        return wished_bytes

    def give_back(self) -> None:
        """All of it. It takes no lock, so that a finalizer may call it, which can run at any line of any thread: the
        budget counts it out when it is next asked for something."""
        self._returned.append(self)
