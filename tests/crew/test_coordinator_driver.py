"""The coordinator's driver: sessions with workers that may be anything, fetches that may do anything, and queries."""

import asyncio
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pytest

from quarterdeck.control import conversation
from quarterdeck.control.link import Envelope, Message
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import CoordinatorId, QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    AssignWork,
    CancelQuery,
    CancelWork,
    CoordinatorBeat,
    DrainRequest,
    Goodbye,
    Refused,
    Register,
    Registered,
    WorkAccepted,
    WorkCanceled,
    WorkEnded,
    WorkerBeat,
    WorkProgressed,
    WorkReady,
)
from quarterdeck.core.workcoord.model import ENDED, AttemptId, WorkError, WorkerStatus
from quarterdeck.crew.coordinator import CoordinatorDriver, QueryHandle
from quarterdeck.crew.ports import FetchFailedError
from tests.crew.played import (
    ACCEPTING,
    ARTIFACT,
    LEAF,
    QUERY,
    SCAN,
    CountedIds,
    LoopClock,
    PlayedFetcher,
    PlayedLink,
    leaf,
    now_s,
    played,
    register_with,
    registration,
    settle,
    worker_info,
)


@dataclass
class Shore:
    """A coordinator's driver that runs, and what is around it."""

    fetcher: PlayedFetcher = field(default_factory=PlayedFetcher)

    def __post_init__(self) -> None:
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        self.driver: CoordinatorDriver[str] = CoordinatorDriver(
            self.machine, clock=LoopClock(), ids=CountedIds(), fetcher=self.fetcher
        )
        self.run = asyncio.create_task(self.driver.run())

    def serve(self, link: PlayedLink) -> "asyncio.Task[bool]":
        return asyncio.create_task(self.driver.serve(link))

    async def worker(self, name: str = "w0", credit: int = 1) -> "tuple[PlayedLink, asyncio.Task[bool]]":
        """A worker that has a session and takes work."""
        link = PlayedLink(name)
        task = self.serve(link)
        await register_with(link, name, credit)
        return link, task

    def ask(self, *names: str, sealed: bool = True) -> QueryHandle[str]:
        handle = self.driver.open_query(QUERY, None)
        for name in names:
            handle.submit(leaf(name))
        if sealed:
            handle.seal()
        return handle

    async def leave(self) -> None:
        self.run.cancel()
        await asyncio.wait((self.run,))


async def take_work(link: PlayedLink) -> AttemptId:
    """As a worker: accept the next assignment, and have its result at once."""
    assignment: AssignWork = await link.hear_a(AssignWork)
    link.say(WorkAccepted(assignment.attempt), WorkReady(assignment.attempt, ARTIFACT))
    return assignment.attempt


# Sessions


@played
async def test_a_connection_that_says_nothing_is_closed_after_a_while() -> None:
    shore, link = Shore(), PlayedLink()
    assert await shore.serve(link) is False
    assert now_s() == 5.0
    assert link.closed
    assert shore.machine.counters["connections_without_registration"] == 1
    await shore.leave()


@pytest.mark.parametrize("first_words", [(), (WorkerBeat(ACCEPTING),), (registration(), WorkerBeat(ACCEPTING))])
@played
async def test_a_connection_that_does_not_begin_with_a_registration_is_closed(
    first_words: tuple[Message, ...],
) -> None:
    shore, link = Shore(), PlayedLink()
    link.say(*first_words)
    assert await shore.serve(link) is False
    assert link.closed
    assert link.sent == []
    assert len(shore.machine.roster) == 0
    await shore.leave()


@played
async def test_a_connection_whose_first_envelope_has_a_wrong_number_is_closed() -> None:
    shore, link = Shore(), PlayedLink()
    link.say_envelope(Envelope(None, 1, (registration(),)))
    assert await shore.serve(link) is False
    await shore.leave()


@played
async def test_a_connection_that_breaks_before_the_registration_came_to_no_session() -> None:
    shore, link = Shore(), PlayedLink()
    link.hang_up()
    assert await shore.serve(link) is False
    await shore.leave()


@played
async def test_a_registration_is_answered_first_and_everything_after_carries_the_session() -> None:
    shore = Shore()
    link, task = await shore.worker()
    await settle()
    assert isinstance(link.said_by_driver()[0], Registered)
    assert {envelope.session_id for envelope in link.sent} == {"s1"}
    link.hang_up()
    assert await task is True
    assert len(shore.machine.roster) == 0
    await shore.leave()


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(SessionId("s1"), 7, (WorkerBeat(ACCEPTING),)),
        Envelope(SessionId("s9"), 2, (WorkerBeat(ACCEPTING),)),
        Envelope(SessionId("s1"), 2, (CoordinatorBeat(),)),
        Envelope(SessionId("s1"), 2, (registration(),)),
    ],
    ids=["wrong number", "another session", "a coordinator's message", "a second registration"],
)
@played
async def test_a_worker_that_breaks_the_protocol_loses_its_session_and_nobody_else_does(envelope: Envelope) -> None:
    shore = Shore()
    bad, bad_task = await shore.worker("bad")
    good, good_task = await shore.worker("good")
    await settle()
    bad.say_envelope(envelope)
    assert await bad_task is True
    assert bad.closed
    assert [session.worker_id for session in shore.machine.roster.sessions()] == ["good"]
    assert not good.closed
    good.hang_up()
    await good_task
    await shore.leave()


@played
async def test_a_refused_worker_hears_why_before_the_connection_closes() -> None:
    shore = Shore()
    newer = PlayedLink()
    newer_task = shore.serve(newer)
    newer.say(registration(incarnation=2))
    await newer.hear_a(Registered)
    older = PlayedLink()
    older_task = shore.serve(older)
    older.say(registration(incarnation=1))
    refused: Refused = await older.hear_a(Refused)
    assert "started later" in refused.reason
    await older_task
    assert older.closed
    assert not newer.closed
    newer.hang_up()
    await newer_task
    await shore.leave()


@played
async def test_a_worker_that_does_not_read_is_cut_off_and_its_work_moves() -> None:
    with patch.object(conversation, "OUTBOX_LIMIT", 800):
        await _overwhelm()


async def _overwhelm() -> None:
    shore = Shore()
    deaf = PlayedLink("deaf", room=1)
    deaf_task = shore.serve(deaf)
    await register_with(deaf, "deaf", credit=5000)
    await settle()
    handle = shore.ask(*(str(number) for number in range(1000)))
    assert await deaf_task is True
    assert deaf.closed
    assert shore.machine.pending == 1000
    handle.cancel("enough")
    await shore.leave()


@played
async def test_a_session_whose_connection_is_given_up_is_lost_at_once() -> None:
    shore = Shore()
    link, task = await shore.worker()
    await settle()
    task.cancel()
    await asyncio.wait((task,))
    assert link.closed
    assert len(shore.machine.roster) == 0
    await shore.leave()


@played
async def test_a_worker_is_told_to_drain() -> None:
    shore = Shore()
    link, task = await shore.worker("w0")
    await settle()
    shore.driver.drain_worker(WorkerId("nobody"))
    shore.driver.drain_worker(WorkerId("w0"))
    assert isinstance(await link.hear_a(DrainRequest), DrainRequest)
    link.hang_up()
    await task
    await shore.leave()


# Queries and fetches


@played
async def test_many_works_for_one_worker_travel_together_after_the_first() -> None:
    shore = Shore()
    link, task = await shore.worker(credit=32)
    began = len(link.sent)
    handle = shore.driver.open_query(QUERY, None)
    for number in range(24):
        handle.submit(leaf(f"{number}"))
        await asyncio.sleep(0.003)  # more than envelopes keep apart by themselves
    handle.seal()
    await asyncio.sleep(1.0)
    sizes = [sum(isinstance(m, AssignWork) for m in envelope.messages) for envelope in link.sent[began:]]
    assert sum(sizes) == 24
    assert [size for size in sizes if size][:4] == [1, 1, 1, 1]  # what keeps a worker busy goes at once
    assert max(sizes) >= 3
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_result_is_fetched_delivered_and_acknowledged() -> None:
    shore = Shore()
    link, task = await shore.worker(credit=2)
    handle = shore.ask("a", "b")
    attempts = {await take_work(link), await take_work(link)}
    link.say(WorkerBeat(ACCEPTING))
    results = [await handle.next_result(), await handle.next_result()]
    assert {won[1] for won in results if won is not None} == {"result of a#1", "result of b#1"}
    assert await handle.next_result() is None
    assert handle.ended == ef.EndQuery(QUERY, ef.Outcome.SUCCEEDED, None)
    await asyncio.sleep(0.03)  # acknowledgements are in no hurry
    assert {m.attempt for m in link.said_by_driver() if isinstance(m, ArtifactAck)} == attempts
    assert shore.driver.left_over() == []
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_the_end_of_a_work_that_leaves_nothing_is_delivered_and_nothing_is_fetched() -> None:
    shore = Shore()
    link, task = await shore.worker(credit=1)
    handle = shore.driver.open_query(QUERY, None)
    handle.submit(leaf(leaves_nothing=True))
    handle.seal()
    assignment: AssignWork = await link.hear_a(AssignWork)
    assert assignment.spec.leaves_nothing
    link.say(WorkAccepted(assignment.attempt), WorkEnded(assignment.attempt))
    assert await handle.next_result() == (assignment.spec.key, ENDED)
    assert await handle.next_result() is None
    assert handle.ended == ef.EndQuery(QUERY, ef.Outcome.SUCCEEDED, None)
    await asyncio.sleep(0.03)
    assert not [message for message in link.said_by_driver() if isinstance(message, ArtifactAck)]
    assert shore.driver.left_over() == []
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_an_end_that_nobody_reads_is_discarded_without_the_fetcher() -> None:
    shore = Shore()
    link, task = await shore.worker(credit=1)
    handle = shore.driver.open_query(QUERY, None)
    handle.submit(leaf(leaves_nothing=True))
    assignment: AssignWork = await link.hear_a(AssignWork)
    link.say(WorkAccepted(assignment.attempt), WorkEnded(assignment.attempt))
    await settle()
    handle.close("nobody reads it")
    assert shore.fetcher.discarded == []
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_progress_is_for_the_observer_and_changes_nothing() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")
    assignment: AssignWork = await link.hear_a(AssignWork)
    link.say(WorkAccepted(assignment.attempt), WorkProgressed(assignment.attempt, 0.5))
    link.say(WorkReady(assignment.attempt, ARTIFACT))
    assert await handle.next_result() is not None
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_fetch_that_fails_costs_an_attempt_not_the_query() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")

    async def fail_once(attempt: AttemptId) -> str:
        if attempt.number == 1:
            raise FetchFailedError(WorkError(ErrorCode.UNAVAILABLE, "gone"))
        return "second"

    shore.fetcher.work = fail_once
    first = await take_work(link)
    assert (await link.hear_a(CancelWork)).attempt == first
    link.hang_up()
    await task
    link, task = await shore.worker("w1")
    second = await take_work(link)
    assert second.number == 2
    assert await handle.next_result() == (first.key, "second")
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_fetch_that_breaks_in_an_unexpected_way_costs_an_attempt_and_says_so_at_the_end() -> None:
    shore = Shore()
    links = [await shore.worker(f"w{number}", credit=4) for number in range(2)]
    handle = shore.ask("a")

    async def break_down(attempt: AttemptId) -> str:
        raise LookupError("no such column")

    shore.fetcher.work = break_down

    async def work_on(link: PlayedLink) -> None:
        while True:
            await take_work(link)

    workers = [asyncio.create_task(work_on(link)) for link, _ in links]
    assert await handle.next_result() is None
    assert handle.ended is not None
    assert handle.ended.error is not None
    assert handle.ended.error.code == ErrorCode.ATTEMPTS_EXHAUSTED
    assert "the fetch broke: LookupError('no such column')" in handle.ended.error.message
    for task in workers:
        task.cancel()
    for link, task in links:
        link.hang_up()
        await task
    await shore.leave()


@played
async def test_a_canceled_query_stops_its_fetch_and_tells_the_worker() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")
    stopped: list[AttemptId] = []

    async def for_ever(attempt: AttemptId) -> str:
        try:
            await asyncio.Event().wait()
            return ""
        finally:
            stopped.append(attempt)

    shore.fetcher.work = for_ever
    attempt = await take_work(link)
    await settle()
    handle.cancel("the client has gone")
    assert (await link.hear_a(CancelQuery)).query_id == QUERY
    assert await handle.next_result() is None
    await settle()
    assert stopped == [attempt]
    assert shore.driver.left_over() == []
    link.hang_up()
    await task
    await shore.leave()


@pytest.mark.parametrize("fails", [False, True])
@played
async def test_a_fetch_that_finishes_although_it_was_canceled_is_discarded(fails: bool) -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")

    async def stubborn(attempt: AttemptId) -> str:
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            if fails:
                raise FetchFailedError(WorkError(ErrorCode.UNAVAILABLE, "late and bad")) from None
        return "late"

    shore.fetcher.work = stubborn
    await take_work(link)
    await settle()
    handle.cancel("the client has gone")
    await settle()
    assert shore.fetcher.discarded == ([] if fails else ["late"])
    assert await handle.next_result() is None
    assert shore.driver.left_over() == []
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_fetch_that_finishes_in_the_moment_of_its_cancellation_is_delivered_or_discarded_never_lost() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")

    async def at_the_same_time(attempt: AttemptId) -> str:
        asyncio.get_running_loop().call_soon(handle.cancel, "now")
        return "result"

    shore.fetcher.work = at_the_same_time
    await take_work(link)
    won = await handle.next_result()
    await settle()
    assert shore.fetcher.discarded == (["result"] if won is None else [])
    assert shore.driver.left_over() == []
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_fetch_that_outlives_its_session_counts() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")
    attempt = await take_work(link)
    await settle()
    link.hang_up()
    await task
    assert await handle.next_result() == (attempt.key, "result of a#1")
    await shore.leave()


@played
async def test_what_is_left_over_is_counted() -> None:
    shore = Shore()
    link, task = await shore.worker()
    shore.ask("a")
    await take_work(link)
    await settle()
    assert shore.driver.left_over() == ["1 fetches"]
    await shore.leave()
    await settle()
    assert shore.driver.left_over() == []
    link.hang_up()
    await task


@played
async def test_a_work_that_is_refused_is_noted_while_somebody_is_there_to_know() -> None:
    shore = Shore()
    handle = shore.ask("a")
    handle.submit(leaf("late"))
    assert [refused.key.work_id for refused in handle.refused] == ["late"]
    handle.cancel("enough")
    handle.submit(leaf("later"))
    handle.cancel("again")
    assert [refused.key.work_id for refused in handle.refused] == ["late", "later"]
    await shore.leave()


@played
async def test_a_query_goes_on_without_a_withdrawn_work() -> None:
    shore = Shore()
    handle = shore.ask("a", "b")
    handle.cancel_work(leaf("a").key)
    link, task = await shore.worker()
    await take_work(link)
    won = await handle.next_result()
    assert won is not None
    assert won[0].work_id == "b"
    assert await handle.next_result() is None
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_query_id_in_use_is_refused_and_the_query_that_has_it_is_not_harmed() -> None:
    shore = Shore()
    handle = shore.ask("a")
    with pytest.raises(ValueError, match="open already"):
        shore.driver.open_query(QUERY, None)
    link, task = await shore.worker()
    await take_work(link)
    assert await handle.next_result() is not None
    assert await handle.next_result() is None
    link.hang_up()
    await task
    await shore.leave()


# The end


@played
async def test_stopping_cancels_queries_says_goodbye_and_ends_the_run() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")
    await link.hear_a(AssignWork)
    shore.driver.stop("maintenance")
    await shore.run
    assert handle.ended is not None
    assert handle.ended.outcome is ef.Outcome.CANCELED
    assert link.said_by_driver()[-1] == Goodbye("maintenance")  # written before `run` ended
    assert link.closed
    assert await task is True
    newcomer = PlayedLink("w1")
    assert await shore.serve(newcomer) is False
    assert newcomer.closed
    late = shore.ask("b")
    assert await late.next_result() is None
    assert late.ended is not None
    assert late.ended.outcome is ef.Outcome.CANCELED


@played
async def test_a_worker_that_registers_during_a_shutdown_is_refused_and_a_query_ends_at_once() -> None:
    shore = Shore()
    link, task = await shore.worker()
    open_query = shore.driver.open_query(QueryId("open"), None)
    shore.driver.stop("maintenance")
    newcomer = PlayedLink("w1")
    refused_task = shore.serve(newcomer)
    newcomer.say(registration("w1"))
    assert "shutting down: maintenance" in (await newcomer.hear_a(Refused)).reason
    handle = shore.ask("a")
    assert await handle.next_result() is None
    await refused_task
    await task
    await shore.run
    assert open_query.ended is not None
    assert open_query.ended.outcome is ef.Outcome.CANCELED
    assert link.closed


@played
async def test_a_fetch_that_cancels_itself_costs_an_attempt_and_not_the_query() -> None:
    shore = Shore()
    link, task = await shore.worker()

    async def canceled(*_: object) -> str:
        raise asyncio.CancelledError

    whole = shore.fetcher.fetch
    with patch.object(shore.fetcher, "fetch", canceled):
        handle = shore.ask("a")
        attempt = await take_work(link)
        canceled_attempt: CancelWork = await link.hear_a(CancelWork)
    assert canceled_attempt.attempt == attempt
    link.say(WorkCanceled(attempt))
    with patch.object(shore.fetcher, "fetch", whole):
        await take_work(link)
        assert await handle.next_result() is not None
    link.hang_up()
    await task
    await shore.leave()


@played
async def test_a_peer_that_breaks_the_protocol_is_counted() -> None:
    shore = Shore()
    link, task = await shore.worker()
    link.say(CoordinatorBeat())
    assert await task is True
    assert shore.machine.counters["protocol_errors"] == 1
    await shore.leave()


@played
async def test_a_connection_that_is_given_up_before_it_registers_is_closed() -> None:
    shore, link = Shore(), PlayedLink()
    task = shore.serve(link)
    await settle()
    task.cancel()
    await asyncio.wait((task,))
    assert link.closed
    await shore.leave()


@played
async def test_fetches_do_not_outlive_the_run() -> None:
    shore = Shore()
    link, task = await shore.worker()
    handle = shore.ask("a")
    await take_work(link)
    await settle()
    await shore.leave()
    await settle()
    assert await handle.next_result() is None  # ended with the run
    link.hang_up()
    await task
    await settle()
    assert len(asyncio.all_tasks()) == 1


# Tenants


@pytest.mark.parametrize(
    "kinds, status, crew",
    [
        ({SCAN}, ACCEPTING, "acme"),
        ({SCAN}, WorkerStatus(accepting_work=False), "acme"),
        ({LEAF}, ACCEPTING, "default"),
        ({SCAN}, WorkerStatus(accepting_work=False, draining=True), "default"),
    ],
)
@played
async def test_a_tenant_whose_workers_do_not_take_a_kind_or_are_leaving_has_those_of_the_crew(
    kinds: set[WorkKind], status: WorkerStatus, crew: str
) -> None:
    shore, link = Shore(), PlayedLink("theirs")
    task = shore.serve(link)
    link.say(Register(replace(worker_info("theirs"), tenant="acme", kinds=frozenset(kinds)), status))
    await link.hear_a(Registered)
    assert shore.driver.crew_of("acme", SCAN) == crew
    assert shore.driver.crew_of("default", SCAN) == "default"
    link.close()
    await task
    await shore.leave()
