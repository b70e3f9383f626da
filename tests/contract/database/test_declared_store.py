"""The store of declared things, in both databases: commits are whole, in order, and refused to who leads no longer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from sqlalchemy import Connection, select

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import Fence, WorkerId
from quarterdeck.core.reconcile.changes import Change
from quarterdeck.core.reconcile.model import NEVER, GroupId, HeldError, HeldKind, Revision, Thing, ThingId, ThingSpec
from quarterdeck.core.reconcile.tables import ThingState, ThingTrigger
from quarterdeck.crew.declared.database_store import MAX_PAYLOAD_BYTES, DatabaseStore
from quarterdeck.crew.declared.port import ConflictError
from quarterdeck.crew.declared.tables import DECLARED_SCHEMA, things
from quarterdeck.stores.database.fences.checked import DeposedError
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from tests.contract.database.places import Place
from tests.core.reconcile.world import spec

T = TypeVar("T")
ONE, TWO = Fence(1), Fence(2)
ERROR = HeldError("work_failed", "it is damaged", retryable=False)


def on(place: Place, play: Callable[[DatabaseStore], Awaitable[T]]) -> T:
    async def run() -> T:
        database = InlineDatabase(open_database(place.url, [DECLARED_SCHEMA, FENCES_SCHEMA]))
        try:
            await database.upgrade()
            return await play(DatabaseStore(database))
        finally:
            await database.close()

    return asyncio.run(run())


def move(thing: Thing, trigger: ThingTrigger, worker: str = "", error: HeldError | None = None) -> Change:
    return Change(thing.spec.thing_id, thing.revision, trigger, WorkerId(worker) if worker else None, error)


async def only(store: DatabaseStore) -> Thing:
    (thing,) = await store.things()
    return thing


def test_what_is_declared_is_read_as_it_was_declared(place: Place) -> None:
    specs = [spec("b", "g", pinned_to="w1", payload=b"\x00plan"), spec("a", "g", tenant="other")]

    async def play(store: DatabaseStore) -> None:
        await store.declare(specs)
        loaded = await store.load(ONE, NEVER)
        assert loaded.revision == 1
        assert sorted((thing.spec for thing in loaded.things), key=lambda one: one.thing_id) == specs[::-1]
        assert {thing.state for thing in loaded.things} == {ThingState.DECLARED}
        assert (await store.load(ONE, Revision(1))).things == ()

    on(place, play)
    assert len(on(place, lambda store: store.things(GroupId("g")))) == 2, "it outlives the process"
    assert not on(place, lambda store: store.things(GroupId("other")))


def test_a_thing_goes_its_whole_way(place: Place) -> None:
    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a")])
        (placed,) = (await store.commit(ONE, [move(await only(store), ThingTrigger.PLACE, "w1")])).things
        assert (placed.worker_id, placed.generation, placed.revision) == ("w1", 2, 2)
        assert placed == await only(store)
        await store.commit(ONE, [move(placed, ThingTrigger.CONFIRM)])
        assert await store.withdraw(GroupId("a"))
        assert await store.withdraw(GroupId("a"))
        withdrawn = await only(store)
        assert (withdrawn.state, withdrawn.generation, withdrawn.revision) == (ThingState.WITHDRAWN, 2, 4)
        with pytest.raises(QuarterdeckError, match="being stopped"):
            await store.declare([spec("a")])
        committed = await store.commit(ONE, [move(withdrawn, ThingTrigger.CLEAR)])
        assert (committed.things, committed.gone) == ((), ("a",))
        assert not await store.things()
        assert not await store.withdraw(GroupId("a"))
        await store.declare([spec("a")])
        assert (await only(store)).revision == 6, "no revision is used twice"

    on(place, play)


def test_why_something_failed_is_kept(place: Place) -> None:
    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a")])
        await store.commit(ONE, [move(await only(store), ThingTrigger.FAIL, error=ERROR)])
        assert (await only(store)).error == ERROR

    on(place, play)


def test_declaring_again_is_fine_in_the_same_words_only(place: Place) -> None:
    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a")])
        await store.declare([spec("a"), spec("b")])
        with pytest.raises(QuarterdeckError, match="another one has that name"):
            await store.declare([spec("c"), spec("a", payload=b"other")])
        assert [thing.spec.thing_id for thing in await store.things()] == ["a", "b"]

    on(place, play)


@pytest.mark.parametrize(
    "bad",
    [spec("a" * 251), spec("a", "g" * 251), spec("a", payload=b"." * (MAX_PAYLOAD_BYTES + 1)), spec("a", tenant="")],
    ids=["name", "group", "payload", "tenant"],
)
def test_what_is_too_large_is_refused(place: Place, bad: object) -> None:
    async def play(store: DatabaseStore) -> None:
        with pytest.raises(QuarterdeckError, match="cannot be declared"):
            await store.declare([bad])  # pyright: ignore[reportArgumentType]
        assert not await store.things()

    on(place, play)


def test_a_proposal_is_committed_as_a_whole_or_not_at_all(place: Place) -> None:
    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a"), spec("b")])
        a, b = await store.things()
        await store.withdraw(GroupId("b"))
        with pytest.raises(ConflictError):
            await store.commit(ONE, [move(a, ThingTrigger.PLACE, "w1"), move(b, ThingTrigger.PLACE, "w1")])
        with pytest.raises(ConflictError):
            await store.commit(ONE, [Change(ThingId("never there"), Revision(1), ThingTrigger.PLACE)])
        assert [thing.state for thing in await store.things()] == [ThingState.DECLARED, ThingState.WITHDRAWN]
        assert (await store.load(ONE, NEVER)).revision == 2

    on(place, play)


def test_whoever_leads_no_longer_commits_nothing(place: Place) -> None:
    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a")])
        thing = await only(store)
        await store.load(TWO, NEVER)
        with pytest.raises(DeposedError):
            await store.commit(ONE, [move(thing, ThingTrigger.PLACE, "w1")])
        with pytest.raises(DeposedError):
            await store.load(ONE, NEVER)
        assert await only(store) == thing
        await store.commit(TWO, [move(thing, ThingTrigger.PLACE, "w1")])

    on(place, play)


def test_the_fence_of_the_leader_that_changed_it_last_is_kept_with_a_thing(place: Place) -> None:
    def fence(connection: Connection) -> int:
        return connection.execute(select(things.c.fence)).scalar_one()

    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a")])
        await store.commit(TWO, [move(await only(store), ThingTrigger.PLACE, "w1")])
        await store.withdraw(GroupId("a"))

    on(place, play)
    with place.opened(schemas=[DECLARED_SCHEMA]) as database:
        assert database.read(fence) == 2


def test_however_a_worker_words_an_error_it_can_be_committed(place: Place) -> None:
    error = HeldError("broken\0" + "x" * 5_000_000, "line 3: \0\ud800" + "y" * 5_000_000, retryable=False)

    async def play(store: DatabaseStore) -> None:
        await store.declare([spec("a", payload=b"plan")])
        (failing,) = (await store.commit(ONE, [move(await only(store), ThingTrigger.FAIL, error=error)])).things
        assert failing == await only(store)
        assert failing.error is not None
        assert failing.error.code.startswith("broken\ufffdxxx")
        assert failing.error.message.startswith("line 3: \ufffd\\ud800yyy")
        assert len(failing.error.code) + len(failing.error.message) < 2_000
        assert failing.spec.payload == b"plan"

    on(place, play)


@pytest.mark.parametrize(
    "wrong",
    [
        spec("a\0"),
        spec("a", "g\ud800"),
        spec("a", tenant="\0"),
        spec("a", pinned_to="w\0"),
        spec("a", pinned_to="w" * 251),
        spec("a", kind=HeldKind("No Kind")),
    ],
    ids=["thing", "group", "tenant", "worker", "long worker", "kind"],
)
def test_what_no_message_can_carry_cannot_be_declared(place: Place, wrong: ThingSpec) -> None:
    async def play(store: DatabaseStore) -> None:
        with pytest.raises(QuarterdeckError, match="cannot be declared") as refused:
            await store.declare([spec("b"), wrong])
        assert refused.value.code == "invalid_argument"
        assert await store.things() == ()

    on(place, play)


def test_many_things_can_be_declared_and_withdrawn_at_once(place: Place) -> None:
    async def play(store: DatabaseStore) -> None:
        specs = [spec(f"a{n}", "g") for n in range(70_000)]
        await store.declare(specs)
        await store.declare(specs)
        assert len((await store.load(ONE, NEVER)).things) == 70_000

    on(place, play)
