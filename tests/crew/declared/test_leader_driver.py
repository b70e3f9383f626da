"""The leader's driver: a store that may end a question in any way, and who hears of higher fences."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from quarterdeck.control.link import Message
from quarterdeck.core.ids import Fence, SessionId
from quarterdeck.core.reconcile.changes import Change
from quarterdeck.core.reconcile.leader import LeaderMachine
from quarterdeck.core.reconcile.model import NEVER, GroupId, Revision, Thing, ThingSpec
from quarterdeck.crew.declared.leader import LeaderDriver
from quarterdeck.crew.declared.port import Committed, Loaded
from quarterdeck.stores.database.fences.checked import DeposedError
from tests.crew.played import LoopClock, played, settle


def to_nobody(session_id: SessionId, message: Message) -> None:
    """Where nobody listens."""
    del session_id, message


class Panic(BaseException):
    """What compiled code may raise."""


@dataclass
class Store:
    """One that is empty, and fails as the test says."""

    errors: list[BaseException] = field(default_factory=list[BaseException])
    loads: list[Revision] = field(default_factory=list[Revision])

    async def load(self, fence: Fence, since: Revision) -> Loaded:
        del fence
        self.loads.append(since)
        if self.errors:
            raise self.errors.pop(0)
        return Loaded(Revision(1), ())

    async def commit(self, fence: Fence, changes: Sequence[Change]) -> Committed:
        raise AssertionError(f"{changes} under {fence}")

    async def declare(self, specs: Sequence[ThingSpec]) -> None:
        raise AssertionError(specs)

    async def withdraw(self, group_id: GroupId) -> bool:
        raise AssertionError(group_id)

    async def things(self, group_id: GroupId | None = None) -> tuple[Thing, ...]:
        raise AssertionError(group_id)


class Lead:
    """A driver that runs and leads."""

    def __init__(self, store: Store) -> None:
        self.doubts: list[Fence] = []
        self.driver = LeaderDriver(
            LeaderMachine(), store, clock=LoopClock(), send=to_nobody, on_doubt=self.doubts.append
        )
        self.task = asyncio.create_task(self.driver.run())
        self.driver.lead(Fence(3))

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


@pytest.mark.parametrize("error", [OSError("away"), asyncio.CancelledError(), Panic("at line 3")])
def test_a_store_that_ends_a_question_in_whatever_way_is_asked_again(error: BaseException) -> None:
    @played
    async def play() -> None:
        store = Store([error])
        lead = Lead(store)
        await asyncio.sleep(2)
        assert lead.driver.machine.is_settled
        assert store.loads == [NEVER, NEVER]
        await lead.end()

    play()


@played
async def test_whoever_elects_is_told_of_the_fence_that_the_store_has_seen() -> None:
    lead = Lead(Store([DeposedError(Fence(3), Fence(77))]))
    await settle()
    assert lead.doubts == [77]
    await lead.end()


@played
async def test_what_happens_after_its_end_is_nothing_to_it() -> None:
    store = Store()
    lead = Lead(store)
    await settle()
    await lead.end()
    lead.driver.lead(Fence(4))
    lead.driver.look()
    await settle()
    assert lead.driver.machine.fence == 3
    assert store.loads == [NEVER]
