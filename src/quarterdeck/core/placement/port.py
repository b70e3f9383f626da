"""The one thing every placement strategy is: a pool of workers that may be chosen now, and a way to pick one.

Rules: a strategy draws no chance and reads no clock, so that the same calls in the same order give the same answers in
every process. It has one owner and is not safe to share between threads.

It must not know what a work is, why a worker is excluded, or what becomes of the choice: the owner tells it with
`set_free` when a choice has used up room.
"""

from collections.abc import Collection
from typing import Protocol

from quarterdeck.core.ids import WorkerId


class Placement(Protocol):
    """Keeps the workers that may be chosen now and picks one of them."""

    def add(self, worker_id: WorkerId, free: int) -> None:
        """Let the worker be chosen. `ValueError` when it already may be."""
        ...

    def remove(self, worker_id: WorkerId) -> None:
        """Let the worker be chosen no longer. `KeyError` when it is not there."""
        ...

    def set_free(self, worker_id: WorkerId, free: int) -> None:
        """Say how many more works the worker can take now. `KeyError` when it is not there."""
        ...

    def choose(self, key: str, excluded: Collection[WorkerId] = ()) -> WorkerId | None:
        """Pick a worker for the key; `None` only when there is none that is not excluded.

        `excluded` may name workers that are not there. Beyond a handful, give a set: each look into it is one `in`.
        """
        ...

    def __len__(self) -> int: ...

    def __contains__(self, worker_id: object) -> bool: ...
