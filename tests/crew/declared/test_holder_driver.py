"""The holder's driver: acquisitions and releases that may do anything, and what it reports."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from quarterdeck.control.link import Message
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import CoordinatorId, Fence, SessionId
from quarterdeck.core.reconcile.messages import DropThing, HoldingsReported, HoldThing
from quarterdeck.core.reconcile.model import HeldError, HeldId, HeldKind, Revision, ThingId
from quarterdeck.core.reconcile.tables import HoldingState
from quarterdeck.core.workcoord.messages import DrainRequest, Registered
from quarterdeck.core.workcoord.model import LivenessPolicy
from quarterdeck.crew.declared.holder import HolderDriver
from quarterdeck.crew.declared.holding import Held, HeldKindOffer, HeldMemory
from tests.core.reconcile.world import EPOCH, FRAGMENT, spec
from tests.crew.played import LoopClock, played, settle

SESSION = SessionId("s")
A = HeldId(ThingId("a"), Revision(1))
PASSING = QuarterdeckError(ErrorCode.UNAVAILABLE, "a", "the source is away", "wait", retryable=True)
FINAL = QuarterdeckError(ErrorCode.WORK_FAILED, "a", "it is damaged", "mend it", retryable=False)


@dataclass
class Shelf:
    """A holder that does what the test says, and remembers."""

    story: list[str] = field(default_factory=list[str])
    errors: list[BaseException] = field(default_factory=list[BaseException])
    release_errors: list[BaseException] = field(default_factory=list[BaseException])
    blocked: bool = False
    release_blocked: bool = False
    held: Held | None = None

    async def acquire(self, held: Held) -> None:
        self.held = held
        self.story.append(f"acquire {held.held_id}")
        if self.blocked:
            try:
                await asyncio.Event().wait()
            finally:
                self.story.append("canceled")
        if self.errors:
            raise self.errors.pop(0)
        held.reserve(60)

    async def release(self, held: Held) -> None:
        self.story.append(f"release {held.held_id}")
        if self.release_errors:
            raise self.release_errors.pop(0)
        if self.release_blocked:
            await asyncio.Event().wait()


class Hold:
    """A driver that runs, with one session."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.said: list[HoldingsReported] = []
        offers = {EPOCH: HeldKindOffer(shelf, memory_bytes=100)}
        self.driver = HolderDriver(offers, clock=LoopClock(), send=self._send)
        self.task = asyncio.create_task(self.driver.run())
        self.driver.opened(SESSION, Registered(SESSION, CoordinatorId("c"), LivenessPolicy()))

    def _send(self, session_id: SessionId, message: Message) -> None:
        assert session_id == SESSION
        assert isinstance(message, HoldingsReported)
        self.said.append(message)

    async def hold(self, held_id: HeldId = A, kind: HeldKind = EPOCH) -> None:
        assert self.driver.take(SESSION, HoldThing(Fence(1), held_id, spec(held_id.thing_id, kind=kind)))
        await settle()

    async def drop(self, held_id: HeldId = A) -> None:
        assert self.driver.take(SESSION, DropThing(Fence(1), held_id))
        await settle()

    @property
    def states(self) -> list[HoldingState]:
        return [holding.state for holding in self.driver.machine.holdings()]

    @property
    def error(self) -> HeldError | None:
        (holding,) = self.driver.machine.holdings()
        return holding.error

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


@played
async def test_a_thing_is_acquired_held_and_released() -> None:
    hold = Hold(Shelf())
    await hold.hold()
    assert hold.states == [HoldingState.HELD]
    assert hold.driver.used_bytes(EPOCH) == 60
    await hold.drop()
    assert hold.states == []
    assert hold.driver.used_bytes(EPOCH) == 0
    assert hold.shelf.story == ["acquire a@1", "release a@1"]
    assert hold.said[0].report.kinds == {EPOCH}
    assert hold.said[-1].report.gone == (A,)
    await hold.end()


def to_nobody(session_id: SessionId, message: Message) -> None:
    """Where nobody listens."""
    del session_id, message


class Panic(BaseException):
    """What compiled code may raise."""


@pytest.mark.parametrize("error", [PASSING, FINAL, RuntimeError("a bug"), Panic("at line 3"), asyncio.CancelledError()])
def test_what_cannot_be_acquired_leaves_nothing_and_says_why(error: BaseException) -> None:
    @played
    async def play() -> None:
        hold = Hold(Shelf(errors=[error]))
        await hold.hold()
        assert hold.states == [HoldingState.FAILED]
        assert hold.error is not None
        assert hold.error.retryable is (error is not FINAL)
        assert hold.shelf.story == ["acquire a@1", "release a@1"]
        await hold.hold()
        assert hold.states == [HoldingState.HELD]
        await hold.end()

    play()


@played
async def test_dropped_while_it_is_acquired_it_is_canceled_and_then_released() -> None:
    hold = Hold(Shelf(blocked=True))
    await hold.hold()
    assert hold.states == [HoldingState.ACQUIRING]
    await hold.drop()
    assert hold.states == []
    assert hold.shelf.story == ["acquire a@1", "canceled", "release a@1"]
    await hold.end()


@pytest.mark.parametrize("error", [OSError("busy"), Panic("at line 3"), asyncio.CancelledError()])
def test_what_cannot_be_released_is_released_when_it_is_dropped_again(error: BaseException) -> None:
    @played
    async def play() -> None:
        hold = Hold(Shelf(release_errors=[error]))
        await hold.hold()
        await hold.drop()
        assert hold.states == [HoldingState.FAILED]
        assert hold.driver.used_bytes(EPOCH) == 60
        await hold.drop()
        assert hold.states == []
        assert hold.driver.used_bytes(EPOCH) == 0
        await hold.end()

    play()


@played
async def test_what_breaks_is_reported_once_and_let_go_before_it_is_acquired_again() -> None:
    hold = Hold(Shelf())
    await hold.hold()
    first = hold.shelf.held
    assert first is not None
    first.broke(HeldError("unavailable", "the engine died"))
    first.broke(HeldError("unavailable", "again"))
    assert hold.states == [HoldingState.FAILED]
    assert hold.error == HeldError("unavailable", "the engine died")
    await hold.hold()
    assert hold.states == [HoldingState.HELD]
    assert hold.shelf.story == ["acquire a@1", "release a@1", "acquire a@1"]
    first.broke(HeldError("unavailable", "it is an old one"))
    assert hold.states == [HoldingState.HELD]
    await hold.end()


@played
async def test_what_does_not_fit_is_refused_and_may_be_held_elsewhere() -> None:
    hold = Hold(Shelf())
    await hold.hold()
    await hold.hold(HeldId(ThingId("b"), Revision(2)))
    assert hold.states == [HoldingState.HELD, HoldingState.FAILED]
    error = list(hold.driver.machine.holdings())[1].error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.RESOURCE_EXHAUSTED, True)
    assert hold.driver.used_bytes(EPOCH) == 60
    await hold.end()


@played
async def test_a_kind_that_nobody_offers_fails_and_can_be_dropped() -> None:
    hold = Hold(Shelf())
    await hold.hold(kind=FRAGMENT)
    assert hold.states == [HoldingState.FAILED]
    await hold.hold(kind=FRAGMENT)
    assert hold.states == [HoldingState.FAILED]
    await hold.drop()
    assert hold.states == []
    assert hold.shelf.story == []
    await hold.end()


@played
async def test_the_end_of_the_process_releases_everything() -> None:
    shelf = Shelf()
    hold = Hold(shelf)
    await hold.hold()
    shelf.blocked = True
    await hold.hold(HeldId(ThingId("b"), Revision(2)))
    await hold.end()
    assert shelf.story == ["acquire a@1", "acquire b@2", "canceled", "release a@1", "release b@2"]
    hold.driver.drain()
    assert hold.driver.machine.takes_more, "there is nobody to tell"


@played
async def test_what_is_being_released_when_the_process_ends_is_released() -> None:
    shelf = Shelf(release_blocked=True)
    hold = Hold(shelf)
    await hold.hold()
    await hold.drop()
    assert hold.states == [HoldingState.RELEASING]
    shelf.release_blocked = False
    await hold.end()
    assert shelf.story == ["acquire a@1", "release a@1", "release a@1"]
    assert hold.driver.used_bytes(EPOCH) == 0


@pytest.mark.parametrize("error", [OSError("busy"), Panic("at line 3"), asyncio.CancelledError()])
def test_one_that_cannot_be_released_as_the_process_ends_keeps_no_other(error: BaseException) -> None:
    @played
    async def play() -> None:
        shelf = Shelf()
        hold = Hold(shelf)
        await hold.hold()
        shelf.errors = [PASSING]  # it reserves nothing
        await hold.hold(HeldId(ThingId("b"), Revision(2)))
        shelf.release_errors = [error]
        shelf.story.clear()
        await hold.end()
        assert shelf.story == ["release a@1", "release b@2"]

    play()


@played
async def test_it_outlives_its_sessions_and_takes_no_words_of_others() -> None:
    hold = Hold(Shelf())
    await hold.hold()
    hold.driver.closed(SESSION)
    await settle()
    assert hold.states == [HoldingState.HELD]
    assert not hold.driver.take(SESSION, DrainRequest())
    hold.driver.opened(SESSION, Registered(SESSION, CoordinatorId("c"), LivenessPolicy()))
    assert [holding.held_id for holding in hold.said[-1].report.holdings] == [A]
    hold.driver.drain()
    assert not hold.said[-1].report.takes_more
    await hold.end()


def test_memory_is_shared_and_given_back() -> None:
    memory = HeldMemory(100)
    b = HeldId(ThingId("b"), Revision(2))
    memory.reserve(A, 60)
    memory.reserve(A, 90)
    with pytest.raises(QuarterdeckError, match="cannot be held here") as refused:
        memory.reserve(b, 11)
    assert refused.value.retryable
    memory.reserve(b, 10)
    memory.free(A)
    memory.reserve(b, 100)
    assert memory.used_bytes == 100


def test_a_thread_that_holds_is_told_to_stop_and_waited_for() -> None:
    ended = asyncio.Event()

    class Slow:
        async def acquire(self, held: Held) -> None:
            def load() -> None:
                while not held.token.is_canceled:
                    pause.wait(0.001)

            pause = threading.Event()
            try:
                await held.run_in_thread(load)
            finally:
                ended.set()

        async def release(self, held: Held) -> None:
            assert ended.is_set(), "it is released when nothing of it runs any more"

    async def play() -> None:
        gone = asyncio.Event()

        def send(_: SessionId, message: Message) -> None:
            if isinstance(message, HoldingsReported) and message.report.gone:
                gone.set()

        driver = HolderDriver({EPOCH: HeldKindOffer(Slow())}, clock=LoopClock(), send=send)
        task = asyncio.create_task(driver.run())
        driver.opened(SESSION, Registered(SESSION, CoordinatorId("c"), LivenessPolicy()))
        driver.take(SESSION, HoldThing(Fence(1), A, spec("a")))
        await asyncio.sleep(0)
        driver.take(SESSION, DropThing(Fence(1), A))
        await asyncio.wait_for(gone.wait(), 30)
        task.cancel()
        await asyncio.wait((task,))

    asyncio.run(play())


@pytest.mark.parametrize("dropped", [False, True], ids=["while it is acquired", "while it is dropped"])
def test_a_thread_ends_and_what_it_had_is_released_before_the_driver_ends(*, dropped: bool) -> None:
    story: list[str] = []

    class Slow:
        """Its thread goes on for a while after it was told to stop."""

        async def acquire(self, held: Held) -> None:
            def load() -> None:
                begun.set()
                while not held.token.is_canceled:
                    pause.wait(0.001)
                may_end.wait(30)
                story.append("the thread has ended")

            await held.run_in_thread(load)

        async def release(self, held: Held) -> None:
            story.append(f"release {held.held_id}")

    begun, may_end, pause = threading.Event(), threading.Event(), threading.Event()

    async def play() -> None:
        driver = HolderDriver({EPOCH: HeldKindOffer(Slow())}, clock=LoopClock(), send=to_nobody)
        task = asyncio.create_task(driver.run())
        driver.opened(SESSION, Registered(SESSION, CoordinatorId("c"), LivenessPolicy()))
        driver.take(SESSION, HoldThing(Fence(1), A, spec("a")))
        await asyncio.to_thread(begun.wait, 30)
        if dropped:
            driver.take(SESSION, DropThing(Fence(1), A))
            await asyncio.to_thread(lambda: None)
        task.cancel()
        await asyncio.to_thread(lambda: None)
        may_end.set()
        await asyncio.wait((task,))
        assert story == ["the thread has ended", "release a@1"]

    try:
        asyncio.run(play())
    finally:
        may_end.set()


def test_a_thread_is_waited_for_however_often_its_task_is_canceled() -> None:
    may_end, begun = threading.Event(), threading.Event()

    async def play() -> None:
        pool = ThreadPoolExecutor(1)
        held = Held(A, spec("a"), HeldMemory(1), pool, lambda _: None)

        def load() -> None:
            begun.set()
            may_end.wait(30)

        task = asyncio.create_task(held.run_in_thread(load))
        await asyncio.to_thread(begun.wait, 30)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        await asyncio.wait((task,))
        assert task.cancelled()
        pool.shutdown()

    try:
        asyncio.run(play())
    finally:
        may_end.set()
