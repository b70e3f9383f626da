"""The worker's driver: coordinators that may be anything, executions that may do anything, and the drain."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from quarterdeck.control.link import Envelope, Message
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    AssignWork,
    CancelWork,
    CoordinatorBeat,
    CreditChanged,
    CreditConfirmed,
    Goodbye,
    Refused,
    Register,
    WorkAccepted,
    WorkCanceled,
    WorkEnded,
    WorkerBeat,
    WorkFailed,
    WorkProgressed,
    WorkReady,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import ENDED, Artifact, AttemptId, Ended, WorkError
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.crew.ports import ExecutionFailedError
from quarterdeck.crew.worker import WorkerDriver
from tests.crew.played import (
    ACCEPTING,
    ARTIFACT,
    LoopClock,
    PlayedExecutor,
    PlayedLink,
    leaf,
    now_s,
    played,
    settle,
    welcome,
    worker_info,
)


@dataclass
class Ship:
    """A worker's driver that runs, and what is around it."""

    slots: int = 1
    places: int = 0
    executor: PlayedExecutor = field(default_factory=PlayedExecutor)

    def __post_init__(self) -> None:
        info = worker_info(slots=self.slots, places=self.places)
        self.machine = WorkerMachine(WorkerConfig(info, artifact_linger_s=2.0, drain_max_s=30.0))
        self.driver = WorkerDriver(self.machine, clock=LoopClock(), executor=self.executor)
        self.run = asyncio.create_task(self.driver.run())

    def serve(self, link: PlayedLink) -> "asyncio.Task[bool]":
        return asyncio.create_task(self.driver.serve(link))

    async def coordinator(self, peer: str = "c0", session: str = "s1") -> "tuple[PlayedLink, asyncio.Task[bool]]":
        """A coordinator that this worker has a session with, and whose credit it has."""
        link = PlayedLink(peer)
        task = self.serve(link)
        await link.hear_a(Register)
        await be_welcome(link, session)
        return link, task

    async def leave(self) -> None:
        self.run.cancel()
        await asyncio.wait((self.run,))


async def be_welcome(link: PlayedLink, session: str) -> None:
    """As a coordinator: answer the registration, and confirm the credit that comes."""
    link.session_id = SessionId(session)
    link.say(welcome(session))
    credit: CreditChanged = await link.hear_a(CreditChanged)
    link.say(CreditConfirmed(credit.credit))
    await settle()


def assign(link: PlayedLink, name: str = "a") -> AttemptId:
    assignment = AssignWork(leaf(name), 1)
    link.say(assignment)
    return assignment.attempt


async def begin(link: PlayedLink, name: str = "a") -> AttemptId:
    """As a coordinator: assign a work, and see it run."""
    attempt = assign(link, name)
    await link.hear_a(WorkAccepted)
    await settle()
    return attempt


async def _for_ever(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
    await asyncio.Event().wait()
    return ARTIFACT


# Sessions


@played
async def test_a_coordinator_that_does_not_answer_the_registration_is_given_up() -> None:
    ship, link = Ship(), PlayedLink()
    assert await ship.serve(link) is False
    assert now_s() == 5.0
    assert link.closed
    assert [type(message) for message in link.said_by_driver()] == [Register]
    assert ship.machine.counters["registrations_failed"] == 1
    await ship.leave()


@pytest.mark.parametrize(
    "answer", [(), (CoordinatorBeat(),), (Refused("go away"),), (CoordinatorBeat(), welcome())], ids=str
)
@played
async def test_anything_but_a_welcome_ends_the_connection_without_a_session(answer: tuple[Message, ...]) -> None:
    ship, link = Ship(), PlayedLink()
    task = ship.serve(link)
    await link.hear_a(Register)
    link.say(*answer)
    assert await task is False
    assert link.closed
    assert list(ship.machine.sessions()) == []
    await ship.leave()


@played
async def test_a_connection_that_breaks_before_the_answer_came_to_no_session() -> None:
    ship, link = Ship(), PlayedLink()
    link.hang_up()
    assert await ship.serve(link) is False
    await ship.leave()


@played
async def test_first_words_that_come_with_the_welcome_are_taken() -> None:
    ship, link = Ship(), PlayedLink()
    task = ship.serve(link)
    await link.hear_a(Register)
    link.session_id = SessionId("s1")
    link.say(welcome(), CoordinatorBeat(), Goodbye("never mind"))
    assert await task is True
    assert link.closed
    await ship.leave()


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(SessionId("bad"), 7, (CoordinatorBeat(),)),
        Envelope(SessionId("s9"), 2, (CoordinatorBeat(),)),
        Envelope(SessionId("bad"), 2, (WorkerBeat(ACCEPTING),)),
        Envelope(SessionId("bad"), 2, (welcome(),)),
    ],
    ids=["wrong number", "another session", "a worker's message", "a second welcome"],
)
@played
async def test_a_coordinator_that_breaks_the_protocol_loses_its_session_and_nobody_else_does(
    envelope: Envelope,
) -> None:
    ship = Ship(slots=2)
    bad, bad_task = await ship.coordinator("c0", "bad")
    good = PlayedLink("c1")
    good_task = ship.serve(good)
    good.say(welcome("good"))
    await settle()
    bad.say_envelope(envelope)
    assert await bad_task is True
    assert bad.closed
    assert [session.session_id for session in ship.machine.sessions()] == ["good"]
    good.hang_up()
    await good_task
    await ship.leave()


@played
async def test_a_session_whose_connection_is_given_up_is_lost_at_once() -> None:
    ship = Ship()
    link, task = await ship.coordinator()
    task.cancel()
    await asyncio.wait((task,))
    assert link.closed
    assert list(ship.machine.sessions()) == []
    await ship.leave()


# One connection at a time with each peer


@played
async def test_a_newer_connection_ends_the_older_and_registers_when_nothing_runs_for_it_any_more() -> None:
    ship = Ship()
    ship.executor.work, ship.executor.stop_s = _for_ever, 3.0
    older, older_task = await ship.coordinator("c0", "s1")
    attempt = await begin(older)
    assert ship.executor.running == {attempt}
    newer = PlayedLink("c0")
    newer_task = ship.serve(newer)
    await asyncio.sleep(2.9)
    assert older.closed
    assert ship.executor.running == {attempt}
    assert newer.sent == []
    await newer.hear_a(Register)
    assert ship.executor.running == set()
    assert await older_task is True
    await be_welcome(newer, "s2")
    newer.hang_up()
    assert await newer_task is True
    await ship.leave()


@played
async def test_of_several_connections_that_wait_only_the_newest_registers() -> None:
    ship = Ship()
    ship.executor.work, ship.executor.stop_s = _for_ever, 3.0
    first, first_task = await ship.coordinator("c0", "s1")
    await begin(first)
    second, third = PlayedLink("c0"), PlayedLink("c0")
    second_task = ship.serve(second)
    await settle()
    third_task = ship.serve(third)
    await third.hear_a(Register)
    assert await first_task is True
    assert await second_task is False
    assert second.sent == []
    assert second.closed
    third.hang_up()
    assert await third_task is False
    await ship.leave()


@played
async def test_a_waiting_connection_that_is_canceled_does_not_let_the_next_one_in_early() -> None:
    ship = Ship()
    ship.executor.work, ship.executor.stop_s = _for_ever, 3.0
    first, first_task = await ship.coordinator("c0", "s1")
    attempt = await begin(first)
    second_task = ship.serve(PlayedLink("c0"))
    await asyncio.sleep(1.0)
    second_task.cancel()
    await asyncio.wait((second_task,))
    third = PlayedLink("c0")
    third_task = ship.serve(third)
    await asyncio.sleep(1.0)
    assert ship.executor.running == {attempt}
    assert third.sent == []
    await third.hear_a(Register)
    assert ship.executor.running == set()
    assert await first_task is True
    third.hang_up()
    await third_task
    await ship.leave()


@played
async def test_a_canceled_connection_is_forgotten_and_its_peer_may_come_again() -> None:
    ship = Ship()
    ship.executor.work, ship.executor.stop_s = _for_ever, 3.0
    first, first_task = await ship.coordinator("c0", "s1")
    await begin(first)
    second_task = ship.serve(PlayedLink("c0"))
    await settle()
    second_task.cancel()
    assert await first_task is True
    third, third_task = await ship.coordinator("c0", "s3")
    third.hang_up()
    assert await third_task is True
    assert not ship.driver._turns  # pyright: ignore[reportPrivateUsage]
    assert not ship.driver._with_peer  # pyright: ignore[reportPrivateUsage]
    await ship.leave()


@played
async def test_connections_with_different_peers_do_not_wait_for_each_other() -> None:
    ship = Ship(slots=2)
    ship.executor.work, ship.executor.stop_s = _for_ever, 3.0
    one, one_task = await ship.coordinator("c0", "s1")
    await begin(one)
    one.hang_up()
    began_s = now_s()
    two, two_task = await ship.coordinator("c1", "s2")
    assert now_s() - began_s < 1.0
    two.hang_up()
    await one_task
    await two_task
    await ship.leave()


# Work


@played
async def test_a_work_is_run_its_result_told_and_dropped_some_time_after_it_was_acknowledged() -> None:
    ship = Ship()
    link, task = await ship.coordinator()
    attempt = assign(link)
    assert await link.hear_a(WorkReady) == WorkReady(attempt, ARTIFACT)
    link.say(ArtifactAck(attempt))
    await settle()
    assert ship.executor.dropped == []
    await asyncio.sleep(2.1)
    assert ship.executor.dropped == [attempt]
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_the_end_of_a_work_that_leaves_nothing_is_told_and_nothing_is_kept() -> None:
    ship = Ship()

    async def do(attempt: AttemptId, progress: Callable[[float], None]) -> Ended:
        return ENDED

    ship.executor.work = do
    link, task = await ship.coordinator()
    assignment = AssignWork(leaf(leaves_nothing=True), 1)
    link.say(assignment)
    assert await link.hear_a(WorkEnded) == WorkEnded(assignment.attempt)
    assert list(ship.machine.attempts()) == []
    assert (ship.executor.released, ship.executor.dropped) == ([], [])
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_progress_is_told() -> None:
    ship = Ship()

    async def half_way(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
        progress(0.5)
        return ARTIFACT

    ship.executor.work = half_way
    link, task = await ship.coordinator()
    attempt = assign(link)
    assert await link.hear_a(WorkProgressed) == WorkProgressed(attempt, 0.5)
    await link.hear_a(WorkReady)
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_an_execution_that_fails_fails_the_work_with_its_error() -> None:
    ship = Ship()
    error = WorkError(ErrorCode.WORK_FAILED, "division by zero", retryable=False)

    async def fail(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
        raise ExecutionFailedError(error)

    ship.executor.work = fail
    link, task = await ship.coordinator()
    attempt = assign(link)
    assert await link.hear_a(WorkFailed) == WorkFailed(attempt, error)
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_an_executor_that_breaks_in_an_unexpected_way_fails_the_work_not_the_worker() -> None:
    ship = Ship()

    async def break_down(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
        raise LookupError("no such column")

    ship.executor.work = break_down
    link, task = await ship.coordinator()
    assign(link)
    failed: WorkFailed = await link.hear_a(WorkFailed)
    assert failed.error == WorkError(ErrorCode.INTERNAL, "the executor broke: LookupError('no such column')")
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_a_canceled_work_is_stopped_and_its_end_told_when_it_has_stopped() -> None:
    ship = Ship()
    ship.executor.work, ship.executor.stop_s = _for_ever, 1.0
    link, task = await ship.coordinator()
    attempt = await begin(link)
    began_s = now_s()
    link.say(CancelWork(attempt))
    assert await link.hear_a(WorkCanceled) == WorkCanceled(attempt)
    assert now_s() - began_s == pytest.approx(1.0, abs=0.001)
    assert ship.executor.running == set()
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_losing_a_coordinator_stops_what_it_owned() -> None:
    ship = Ship()
    ship.executor.work = _for_ever
    link, task = await ship.coordinator()
    await begin(link)
    link.hang_up()
    assert await task is True
    await asyncio.sleep(1.0)
    assert ship.executor.running == set()
    await ship.leave()


# The end


@played
async def test_an_idle_worker_that_is_told_to_drain_says_goodbye_and_leaves() -> None:
    ship = Ship()
    link, task = await ship.coordinator()
    ship.driver.drain()
    await ship.run
    assert link.said_by_driver()[-1] == Goodbye("drained")
    assert link.closed
    assert await task is True


@played
async def test_draining_hands_back_what_waits_finishes_what_runs_and_waits_until_everything_is_dropped() -> None:
    ship = Ship(slots=1, places=1)
    ship.executor.drop_s = 0.5
    link, task = await ship.coordinator()
    running, waiting = assign(link, "a"), assign(link, "b")
    await link.hear_a(WorkAccepted)
    ship.driver.drain()
    assert await link.hear_a(WorkReturned) == WorkReturned(waiting)
    assert await link.hear_a(WorkReady) == WorkReady(running, ARTIFACT)
    assert not ship.run.done()
    link.say(ArtifactAck(running))
    await link.wait_closed()
    assert link.said_by_driver()[-1] == Goodbye("drained")
    assert await task is True
    await ship.run
    assert ship.executor.started == [running]
    assert ship.executor.dropped == [running]
    assert len(asyncio.all_tasks()) == 1


@played
async def test_draining_ends_when_its_time_is_over_whatever_runs() -> None:
    ship = Ship()
    ship.executor.work = _for_ever
    link, task = await ship.coordinator()
    await begin(link)
    began_s = now_s()
    ship.driver.drain()
    while not ship.run.done():
        link.say(CoordinatorBeat())
        await asyncio.sleep(0.5)
    assert 30.0 <= now_s() - began_s < 31.5
    assert ship.executor.running == set()
    await task


@played
async def test_executions_and_drops_do_not_outlive_the_run() -> None:
    ship = Ship(slots=2)
    ship.executor.drop_s = 100.0
    link, task = await ship.coordinator()
    done = assign(link, "a")
    await link.hear_a(WorkReady)
    link.say(CancelWork(done))
    await link.hear_a(WorkCanceled)
    ship.executor.work = _for_ever
    await begin(link, "b")
    await ship.leave()
    await settle()
    assert ship.executor.running == set()
    assert ship.executor.dropped == []
    said = len(link.said_by_driver())
    await settle()
    assert len(link.said_by_driver()) == said
    task.cancel()
    await asyncio.wait((task,))
    assert len(asyncio.all_tasks()) == 1


@played
async def test_a_connection_after_the_drain_is_closed_at_once() -> None:
    ship = Ship()
    ship.driver.drain()
    await settle()
    link = PlayedLink()
    assert await ship.driver.serve(link) is False
    assert link.closed
    assert link.sent == []
    await ship.run


@played
async def test_an_executor_that_cancels_itself_fails_the_work() -> None:
    ship = Ship()

    async def canceled(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
        raise asyncio.CancelledError

    ship.executor.work = canceled
    link, task = await ship.coordinator()
    attempt = assign(link)
    failed: WorkFailed = await link.hear_a(WorkFailed)
    assert (failed.attempt, failed.error.code) == (attempt, ErrorCode.INTERNAL)
    assert ship.machine.busy_slots == 0
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_a_session_id_that_is_anothers_is_not_taken() -> None:
    ship = Ship()
    first, first_task = await ship.coordinator("c0", "s1")
    second = PlayedLink("c1")
    second_task = ship.serve(second)
    await second.hear_a(Register)
    second.say(welcome("s1"))
    assert await second_task is False
    assert [session.session_id for session in ship.machine.sessions()] == ["s1"]
    assert not first.closed
    first.hang_up()
    await first_task
    await ship.leave()


@played
async def test_a_coordinator_that_breaks_the_protocol_is_counted() -> None:
    ship = Ship()
    link, task = await ship.coordinator()
    link.say(WorkerBeat(ACCEPTING))
    await task
    assert ship.machine.counters["protocol_errors"] == 1
    await ship.leave()


@played
async def test_what_is_in_memory_alone_is_dropped_without_waiting() -> None:
    ship = Ship()
    ship.executor.keeps_in_memory = True
    ship.executor.drop_s = 1000.0
    link, task = await ship.coordinator()
    attempt = assign(link)
    await link.hear_a(WorkReady)
    link.say(CancelWork(attempt))
    await link.hear_a(WorkCanceled)
    assert ship.executor.dropped == [attempt]
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_what_cannot_be_forgotten_is_counted_and_dropped_all_the_same() -> None:
    ship = Ship()

    def broken(attempt: AttemptId) -> bool:
        raise LookupError(f"there is no {attempt}")

    ship.executor.forget = broken
    link, task = await ship.coordinator()
    attempt = assign(link)
    await link.hear_a(WorkReady)
    link.say(CancelWork(attempt))
    await link.hear_a(WorkCanceled)
    await settle()
    assert ship.machine.counters["drops_failed"] == 1
    assert ship.executor.dropped == [attempt]
    assert not task.done()
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_results_among_many_travel_together_and_the_last_ones_alone() -> None:
    ship = Ship(slots=1, places=31)

    async def soon(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
        await asyncio.sleep(0.001)
        return ARTIFACT

    ship.executor.work = soon
    link, task = await ship.coordinator()
    link.say(*(AssignWork(leaf(f"{number}"), 1) for number in range(32)))
    ready: list[int] = []
    while sum(ready) < 32:
        results = [message for message in await link.hear() if isinstance(message, WorkReady)]
        link.say(*(ArtifactAck(result.attempt) for result in results))
        if results:
            ready.append(len(results))
    assert ready[0] == 7  # a quarter of those that wait
    assert max(ready) <= 7
    assert ready[-1] == 1
    assert now_s() < 0.1
    link.hang_up()
    await task
    await ship.leave()


@played
async def test_a_drop_that_fails_is_counted() -> None:
    ship = Ship()

    async def stuck(attempt: AttemptId) -> None:
        raise OSError(f"the disk of {attempt} is gone")

    ship.executor.drop = stuck
    link, task = await ship.coordinator()
    attempt = assign(link)
    await link.hear_a(WorkReady)
    link.say(CancelWork(attempt))
    await link.hear_a(WorkCanceled)
    await settle()
    assert ship.machine.counters["drops_failed"] == 1
    link.hang_up()
    await task
    await ship.leave()
