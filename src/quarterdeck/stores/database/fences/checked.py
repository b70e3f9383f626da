"""A transaction under a fence: it passes only in a database that has seen no higher one.

The row stays locked until the transaction ends. Without that, Postgres could commit a write of the older leader after
the takeover: in an order that is serializable, and yet after the new leader has read what there is.
"""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, select, update

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import Fence
from quarterdeck.stores.database.fences.tables import ONLY, fences

T = TypeVar("T")


class DeposedError(QuarterdeckError):
    """A write of a leader that another one has followed. Nothing was changed."""

    def __init__(self, fence: Fence, highest: Fence) -> None:
        super().__init__(
            ErrorCode.DEPOSED,
            "the change was refused, and nothing was changed",
            f"another coordinator leads now (fence {highest}; this one led under fence {fence})",
            "ask again: the coordinator that leads answers",
        )
        # So that copy and pickle make it anew.
        self.args = (fence, highest)
        self.fence = fence
        self.highest = highest


def under_fence(fence: Fence, transaction: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """The same transaction, which first checks and stores the fence and raises `DeposedError` if there was a higher
    one. What it stores is rolled back with the rest."""

    def checked(connection: Connection) -> T:
        see_fence(connection, fence)
        return transaction(connection)

    return checked


def see_fence(connection: Connection, fence: Fence) -> None:
    """Remembers a fence; refuses it if a higher one was seen."""
    highest = highest_fence(connection)
    if fence < highest:
        raise DeposedError(fence, highest)
    if fence > highest:
        connection.execute(update(fences).values(highest=fence).where(fences.c.fence_id == ONLY))


def highest_fence(connection: Connection) -> Fence:
    """It stays the highest until the transaction ends."""
    # SQLite has no such lock and needs none: it has one writer at a time.
    statement = select(fences.c.highest).where(fences.c.fence_id == ONLY).with_for_update()
    return Fence(connection.execute(statement).scalar_one())
