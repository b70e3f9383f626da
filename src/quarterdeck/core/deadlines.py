"""Deadlines by key: the timers of a pure machine. It holds times, and knows no clock: the caller says what time it is.

Each key has at most one deadline. Moving one later costs nothing until it comes due. A canceled one is forgotten at
once; its trace in the heap is dropped when it surfaces, or when such traces outnumber what is alive.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

_COMPACT_ABOVE = 64


class Deadlines(Generic[KeyT]):
    """A priority queue of keys, earliest deadline first. The order of equal ones is fixed, and means nothing."""

    __slots__ = ("_at", "_heap", "_sequence")

    def __init__(self) -> None:
        self._at: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: object) -> bool:
        return key in self._at

    def set(self, key: KeyT, at: float) -> None:
        """Sets or moves the deadline of a key."""
        before = self._at.get(key)
        self._at[key] = at
        if before is None or at < before:
            self._push(key, at)

    def cancel(self, key: KeyT) -> None:
        """Forgets a key; one that has no deadline is fine."""
        self._at.pop(key, None)

    def next_at(self) -> float | None:
        """When the earliest deadline is, or None without any."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> tuple[KeyT, float] | None:
        """Takes out the earliest key whose deadline has come, with that deadline."""
        self._settle()
        if not self._heap or self._heap[0][0] > now:
            return None
        at, _, key = heapq.heappop(self._heap)
        del self._at[key]
        return key, at

    def _push(self, key: KeyT, at: float) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (at, self._sequence, key))
        if len(self._heap) > _COMPACT_ABOVE + 2 * len(self._at):
            self._heap = [(at, number, key) for number, (key, at) in enumerate(self._at.items())]
            self._sequence = len(self._heap)
            heapq.heapify(self._heap)

    def _settle(self) -> None:
        """Brings a true entry to the top: drops canceled ones, moves on those whose deadline was moved later."""
        while self._heap:
            at, number, key = self._heap[0]
            current = self._at.get(key)
            if current == at:
                return
            heapq.heappop(self._heap)
            if current is not None and current > at:
                heapq.heappush(self._heap, (current, number, key))
