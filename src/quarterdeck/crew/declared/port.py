"""The store of declared things, as those see it that need it: it commits, and only then anybody acts.

Each method is one transaction. What is to be committed under a fence is refused when the store has seen a higher one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterdeck.core.ids import Fence
from quarterdeck.core.reconcile.changes import Change
from quarterdeck.core.reconcile.model import GroupId, Revision, Thing, ThingId, ThingSpec


class ConflictError(Exception):
    """A thing has changed since the revision that a change had seen. Nothing was committed."""


@dataclass(frozen=True, slots=True)
class Loaded:
    revision: Revision
    """Of the newest change in the store."""
    things: tuple[Thing, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    things: tuple[Thing, ...]
    gone: tuple[ThingId, ...] = ()


class DeclaredStore(Protocol):
    # For the leader

    async def load(self, fence: Fence, since: Revision) -> Loaded:
        """Remembers the fence, and gives what was committed after a revision. `DeposedError` if it has seen a higher
        fence."""
        ...

    async def commit(self, fence: Fence, changes: Sequence[Change]) -> Committed:
        """All of them or none. `DeposedError` if it has seen a higher fence; `ConflictError` if a thing has changed."""
        ...

    # For whoever declares, on any coordinator

    async def declare(self, specs: Sequence[ThingSpec]) -> None:
        """All of them or none. One that is declared already, in the same words, is fine; in others it is an error."""
        ...

    async def withdraw(self, group_id: GroupId) -> bool:
        """All things of a group; whether there are any. Again is fine."""
        ...

    async def things(self, group_id: GroupId | None = None) -> tuple[Thing, ...]:
        """As they are committed, of a group or all."""
        ...
