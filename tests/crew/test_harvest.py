"""Results in the order of the works, and no more of them held than the reader's window."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest

from quarterdeck.control.conversation import MAX_PAYLOAD_BYTES
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import CoordinatorId
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator.machine import CoordinatorConfig
from quarterdeck.core.workcoord.messages import (
    AssignWork,
    CancelQuery,
    WorkAccepted,
    WorkCanceled,
    WorkEnded,
    WorkFailed,
    WorkReady,
)
from quarterdeck.core.workcoord.model import ENDED, AttemptId, WorkError, WorkSpec
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.harvest import _NEXT_STEP, Harvest, Window  # pyright: ignore[reportPrivateUsage]
from tests.crew.played import (
    ARTIFACT,
    QUERY,
    CountedIds,
    LoopClock,
    PlayedFetcher,
    PlayedLink,
    leaf,
    played,
    register_with,
    settle,
)


class Port:
    """A coordinator with one worker that the test plays."""

    def __init__(self) -> None:
        self.fetcher = PlayedFetcher()
        self.result_bytes = 1
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        self.driver: CoordinatorDriver[str] = CoordinatorDriver(
            self.machine, clock=LoopClock(), ids=CountedIds(), fetcher=self.fetcher
        )
        self.run = asyncio.create_task(self.driver.run())
        self.link = PlayedLink("w0")
        self.serving = asyncio.create_task(self.driver.serve(self.link))

    async def join(self, credit: int) -> None:
        await register_with(self.link, credit=credit)

    async def assigned(self, number: int) -> list[AttemptId]:
        attempts: list[AttemptId] = []
        for _ in range(number):
            assignment: AssignWork = await self.link.hear_a(AssignWork)
            self.link.say(WorkAccepted(assignment.attempt))
            attempts.append(assignment.attempt)
        return attempts

    def harvest(self, specs: Iterable[WorkSpec], window: int, wait_limit_s: float | None = None) -> Harvest[str]:
        bounds = Window(max_works=window, max_bytes=10_000)
        return Harvest(self.driver, QUERY, specs, window=bounds, size_of=self.size_of, wait_limit_s=wait_limit_s)

    def size_of(self, result: str) -> int:
        return self.result_bytes

    async def leave(self) -> None:
        self.run.cancel()
        await asyncio.wait((self.run, self.serving))
        assert self.driver.left_over() == []


async def read_all(harvest: Harvest[str], into: list[str]) -> None:
    async with harvest:
        async for _, result in harvest.results():
            into.append(result)


@played
async def test_results_come_in_the_order_of_the_works_whichever_is_ready_first() -> None:
    port, read = Port(), list[str]()
    await port.join(credit=3)
    reading = asyncio.create_task(read_all(port.harvest([leaf(name) for name in "abc"], window=3), read))
    attempts = await port.assigned(3)
    for attempt in reversed(attempts):
        assert read == []
        port.link.say(WorkReady(attempt, ARTIFACT))
        await asyncio.sleep(1)
    await reading
    assert read == [f"result of {attempt}" for attempt in attempts]
    await port.leave()


@played
async def test_ends_of_works_that_leave_nothing_come_in_their_order_among_results() -> None:
    port = Port()
    await port.join(credit=3)
    specs = [leaf("a", leaves_nothing=True), leaf("b"), leaf("c", leaves_nothing=True)]

    async def read() -> list[object]:
        async with port.harvest(specs, window=3) as harvest:
            return [end async for _, end in harvest.ends()]

    reading = asyncio.create_task(read())
    first, second, third = await port.assigned(3)
    port.link.say(WorkEnded(third), WorkReady(second, ARTIFACT))
    await asyncio.sleep(1)
    port.link.say(WorkEnded(first))
    assert await reading == [ENDED, f"result of {second}", ENDED]
    await port.leave()


@played
async def test_whoever_reads_results_is_told_that_a_work_has_none() -> None:
    port = Port()
    await port.join(credit=1)
    reading = asyncio.create_task(read_all(port.harvest([leaf(leaves_nothing=True)], window=1), []))
    (attempt,) = await port.assigned(1)
    port.link.say(WorkEnded(attempt))
    with pytest.raises(TypeError, match="leaves nothing"):
        await reading
    await port.leave()


@played
async def test_no_more_works_are_made_and_submitted_than_the_reader_has_room_for() -> None:
    port, made = Port(), list[str]()

    def works() -> Iterator[WorkSpec]:
        for number in range(100):
            made.append(f"{number:03}")
            yield leaf(made[-1])

    await port.join(credit=50)
    async with port.harvest(works(), window=4) as harvest:
        results = harvest.results()
        first = asyncio.create_task(results.__anext__())
        for attempt in await port.assigned(4):
            port.link.say(WorkReady(attempt, ARTIFACT))
        await first
        await asyncio.sleep(1)
        assert len(made) == 5
        assert port.machine.pending == 0
    await settle()
    assert len(port.fetcher.discarded) == 3
    await port.leave()


@played
async def test_a_reader_that_goes_away_cancels_the_query_on_the_worker_and_leaves_nothing() -> None:
    port, read = Port(), list[str]()
    await port.join(credit=2)
    reading = asyncio.create_task(read_all(port.harvest([leaf("a"), leaf("b")], window=2), read))
    attempts = await port.assigned(2)
    port.link.say(WorkReady(attempts[1], ARTIFACT))
    await asyncio.sleep(1)
    reading.cancel()
    assert await port.link.hear_a(CancelQuery) == CancelQuery(QUERY)
    port.link.say(WorkCanceled(attempts[0]))
    await settle()
    assert port.fetcher.discarded == [f"result of {attempts[1]}"]
    assert reading.cancelled()
    await port.leave()


@played
async def test_a_query_that_fails_raises_its_error_with_its_code() -> None:
    port, read = Port(), list[str]()
    await port.join(credit=1)
    reading = asyncio.create_task(read_all(port.harvest([leaf("a")], window=2), read))
    (attempt,) = await port.assigned(1)
    error = WorkError(ErrorCode.NOT_FOUND, "segment-7.parquet is not there", retryable=False)
    port.link.say(WorkFailed(attempt, error))
    with pytest.raises(QuarterdeckError, match=r"segment-7\.parquet is not there") as caught:
        await reading
    assert caught.value.code is ErrorCode.NOT_FOUND
    assert not caught.value.retryable
    await port.leave()


@played
async def test_a_query_that_ended_while_its_reader_was_busy_says_why_it_ended() -> None:
    port = Port()
    await port.join(credit=1)
    async with port.harvest([leaf("a"), leaf("b"), leaf("c")], window=1) as harvest:
        results = harvest.results()
        first = asyncio.create_task(results.__anext__())
        (attempt,) = await port.assigned(1)
        port.link.say(WorkReady(attempt, ARTIFACT))
        await first
        port.driver.stop("maintenance")
        with pytest.raises(QuarterdeckError, match="maintenance") as caught:
            await results.__anext__()
    assert caught.value.code is ErrorCode.UNAVAILABLE
    await port.leave()


@played
async def test_a_result_whose_turn_comes_after_its_query_has_failed_is_discarded() -> None:
    port = Port()
    await port.join(credit=2)
    async with port.harvest([leaf("a"), leaf("b"), leaf("c")], window=2) as harvest:
        results = harvest.results()
        reading = asyncio.create_task(results.__anext__())
        first, second = await port.assigned(2)
        port.link.say(WorkReady(second, ARTIFACT))
        await asyncio.sleep(1)
        port.link.say(WorkReady(first, ARTIFACT))
        await reading  # the second result waits for its turn
        (third,) = await port.assigned(1)
        port.link.say(WorkFailed(third, WorkError(ErrorCode.WORK_FAILED, "no", retryable=False)))
        await settle()
        harvest._window = Window(max_works=5, max_bytes=10_000)  # pyright: ignore[reportPrivateUsage] - room for more than is left
        harvest._specs = iter([leaf("d")])  # pyright: ignore[reportPrivateUsage]
        harvest._sealed = False  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(QuarterdeckError, match="no"):
            await results.__anext__()
    assert port.fetcher.discarded == [f"result of {second}"]
    await port.leave()


@played
async def test_a_code_that_nobody_knows_is_a_failed_work() -> None:
    port = Port()
    await port.join(credit=1)
    reading = asyncio.create_task(read_all(port.harvest([leaf("a")], window=2), []))
    (attempt,) = await port.assigned(1)
    port.link.say(WorkFailed(attempt, WorkError("made up", "no idea", retryable=False)))
    with pytest.raises(QuarterdeckError, match="no idea") as caught:
        await reading
    assert caught.value.code is ErrorCode.WORK_FAILED
    await port.leave()


@played
async def test_with_no_worker_the_error_comes_when_the_wait_is_over() -> None:
    port = Port()
    with pytest.raises(QuarterdeckError, match="no worker is connected") as caught:
        await read_all(port.harvest([leaf("a")], window=1, wait_limit_s=3.0), [])
    assert caught.value.code is ErrorCode.NO_WORKER
    port.link.hang_up()
    await port.leave()


@played
async def test_a_query_without_works_ends_at_once() -> None:
    port, read = Port(), list[str]()
    await read_all(port.harvest([], window=1), read)
    assert read == []
    port.link.hang_up()
    await port.leave()


@played
async def test_a_work_that_was_given_twice_is_an_error_and_not_an_endless_wait() -> None:
    port = Port()
    await port.join(credit=2)
    with pytest.raises(QuarterdeckError, match="submitted before"):
        await read_all(port.harvest([leaf("a"), leaf("a"), leaf("b")], window=3), [])
    await port.leave()


@played
async def test_a_work_with_too_large_a_payload_is_refused_by_its_size() -> None:
    port = Port()
    base = leaf("a")
    large = WorkSpec(base.key, base.kind, bytes(MAX_PAYLOAD_BYTES + 1))
    with pytest.raises(QuarterdeckError, match="4,194,305 bytes"):
        await read_all(port.harvest([large], window=1), [])
    port.link.hang_up()
    await port.leave()


@played
async def test_large_results_make_the_window_small() -> None:
    port, read = Port(), list[str]()
    port.result_bytes = 4_000
    await port.join(credit=50)
    reading = asyncio.create_task(read_all(port.harvest([leaf(f"{n:02}") for n in range(40)], window=30), read))
    first = await port.assigned(16)
    assert port.machine.pending == 0
    for attempt in first[:15]:
        port.link.say(WorkReady(attempt, ARTIFACT))
    await asyncio.sleep(1)
    assert len(read) == 15
    port.link.say(WorkReady(first[15], ARTIFACT))
    await port.assigned(2)
    await settle()
    assert len(port.machine.ledger.query(QUERY).works) == 2  # pyright: ignore[reportOptionalMemberAccess]
    reading.cancel()
    await port.leave()


def test_a_window_grows_from_a_few_works_to_what_fits() -> None:
    window = Window(max_works=100, max_bytes=1_000)
    assert window.works(0, 0) == 16
    assert window.works(1, 0) == 100
    assert window.works(2, 40) == 50
    assert window.works(1, 5_000) == 1
    assert Window(max_works=3, max_bytes=1).works(0, 0) == 3


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing would ever"):
        Window(max_works=0, max_bytes=1)


def test_every_code_has_a_next_step() -> None:
    assert set(_NEXT_STEP) == set(ErrorCode)
