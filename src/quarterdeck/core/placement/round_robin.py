"""Round robin: whoever has waited longest is next.

Rules: a worker that is chosen or added goes to the end of the line. A worker that is passed over because it is excluded
keeps its place, so it is next as soon as it may be chosen, once and not several times over.

It must not know the key or how much room a worker has.
"""

from collections import OrderedDict
from collections.abc import Collection

from quarterdeck.core.ids import WorkerId


class RoundRobin:
    """Picks the workers in turn. Ignores the key and how much room the workers have."""

    def __init__(self) -> None:
        # Not a dict: moving its first key to the end again and again leaves holes that the next look has to cross.
        self._line: OrderedDict[WorkerId, None] = OrderedDict()

    def add(self, worker_id: WorkerId, free: int) -> None:  # noqa: ARG002
        """Put the worker at the end of the line. `ValueError` when it already stands in it."""
        if worker_id in self._line:
            raise ValueError(f"worker {worker_id!r} is already there: remove it before it is added again")
        self._line[worker_id] = None

    def remove(self, worker_id: WorkerId) -> None:
        """Take the worker out of the line. `KeyError` when it is not there."""
        del self._line[worker_id]

    def set_free(self, worker_id: WorkerId, free: int) -> None:  # noqa: ARG002
        """Change nothing. `KeyError` when the worker is not there."""
        if worker_id not in self._line:
            raise KeyError(worker_id)

    def choose(self, key: str, excluded: Collection[WorkerId] = ()) -> WorkerId | None:  # noqa: ARG002
        """Pick the first in line that is not excluded and send it to the end; `None` when there is none."""
        for worker_id in self._line:
            if worker_id not in excluded:
                self._line.move_to_end(worker_id)
                return worker_id
        return None

    def __len__(self) -> int:
        return len(self._line)

    def __contains__(self, worker_id: object) -> bool:
        return worker_id in self._line
