"""What the parts of a coordinator declare: written to the store, and told to the leader if it is in this process.

Any coordinator may declare and withdraw. If another one leads, that one finds it at its next look at the store.
"""

from collections.abc import Callable
from typing import Final

from quarterdeck.core.reconcile.model import GroupId, Thing, ThingSpec
from quarterdeck.crew.declared.port import DeclaredStore


class Declarations:
    def __init__(self, store: DeclaredStore, look: Callable[[], None]) -> None:
        self._store: Final = store
        self._look: Final = look

    async def declare(self, *specs: ThingSpec) -> None:
        """All of them or none; when this returns, they are committed. One that is declared already, in the same words,
        is fine; in others it is an error."""
        await self._store.declare(specs)
        self._look()

    async def withdraw(self, group_id: GroupId) -> bool:
        """All things of a group; whether there are any. They are gone from the store when no worker has them any more.
        Again is fine."""
        found = await self._store.withdraw(group_id)
        self._look()
        return found

    async def things(self, group_id: GroupId | None = None) -> tuple[Thing, ...]:
        """As they are committed, of a group or all."""
        return await self._store.things(group_id)
