"""Most free: the worker with the most room is next, and workers with the same room take turns.

Rules: a worker without room (`free` of zero or less) is chosen only when no other may be; whether to wait instead is
for the caller to decide. Choosing does not use up room: the caller says so with `set_free`.

Workers stand in one line for each number of free places, and a choice takes the first of the line with the highest
number: its cost does not grow with the number of workers. The numbers in use are a sorted list; there are few of them,
because a worker has tens of places, not thousands.

It must not know the key.
"""

from bisect import bisect_left, insort
from collections.abc import Collection

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement.round_robin import RoundRobin


class MostFree:
    """Picks the worker with the most free places. Ignores the key."""

    def __init__(self) -> None:
        self._free_of: dict[WorkerId, int] = {}
        self._line_of: dict[int, RoundRobin] = {}
        """By number of free places. No line is empty."""
        self._numbers: list[int] = []
        """The keys of `_line_of`, lowest first."""

    def add(self, worker_id: WorkerId, free: int) -> None:
        """Let the worker be chosen. `ValueError` when it already may be."""
        if worker_id in self._free_of:
            raise ValueError(f"worker {worker_id!r} is already there: remove it before it is added again")
        self._join_line(worker_id, free)

    def remove(self, worker_id: WorkerId) -> None:
        """Let the worker be chosen no longer. `KeyError` when it is not there."""
        self._leave_line(worker_id, self._free_of.pop(worker_id))

    def set_free(self, worker_id: WorkerId, free: int) -> None:
        """Say how many more works the worker can take now. `KeyError` when it is not there.

        With the number it already has, the worker keeps its turn; with another, it goes to the end of that line.
        """
        before = self._free_of[worker_id]
        if before != free:
            self._leave_line(worker_id, before)
            self._join_line(worker_id, free)

    def choose(self, key: str, excluded: Collection[WorkerId] = ()) -> WorkerId | None:
        """Pick, of the workers that are not excluded and have the most room, the one whose turn it is."""
        for free in reversed(self._numbers):
            worker_id = self._line_of[free].choose(key, excluded)
            if worker_id is not None:
                return worker_id
        return None

    def __len__(self) -> int:
        return len(self._free_of)

    def __contains__(self, worker_id: object) -> bool:
        return worker_id in self._free_of

    def _join_line(self, worker_id: WorkerId, free: int) -> None:
        self._free_of[worker_id] = free
        if free not in self._line_of:
            self._line_of[free] = RoundRobin()
            insort(self._numbers, free)
        self._line_of[free].add(worker_id, free)

    def _leave_line(self, worker_id: WorkerId, free: int) -> None:
        line = self._line_of[free]
        line.remove(worker_id)
        if not line:
            del self._line_of[free]
            del self._numbers[bisect_left(self._numbers, free)]
