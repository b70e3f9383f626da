"""Searches with played workers: whatever happens to them, each record comes once, and each worker goes back once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk, Order
from quarterdeck.search.ports import WorkerBrokeProtocolError, WorkerNotReachedError
from quarterdeck.search.root import running as running_module
from quarterdeck.search.root import service as service_module
from quarterdeck.search.root import splitting
from quarterdeck.search.root.planning import SearchRequest, plan
from quarterdeck.search.root.running import Progress, Rows, Status
from quarterdeck.search.stored_rows import NoRoomError, no_room
from tests.http.asked import until
from tests.patience import PATIENCE_S
from tests.search.root.searched import PlayedWorkers, Root, lost, root

Scenario = Callable[[Root], Awaitable[None]]


@pytest.fixture(autouse=True)
def one_file_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "CHUNK_FILES_MAX", 1)


def play(folder: Path, scenario: Scenario, workers: PlayedWorkers | None = None, **options: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), root(folder, workers, **options) as made:
            await scenario(made)
        assert not made.workers.reserved
        assert all(count == 1 for count in made.workers.releases.values())
        assert all(gathering.is_closed for gathering in made.gatherings)
        assert all(count == 1 for gathering in made.gatherings for count in gathering.added.values())

    asyncio.run(run())


def first_times(count: int) -> Callable[[object], bool]:
    """Whether something is asked for one of the first so many times."""
    asked: Counter[object] = Counter()

    def is_first(about: object) -> bool:
        asked[about] += 1
        return asked[about] <= count

    return is_first


# Whole answers


@pytest.mark.parametrize("order", list(Order))
def test_all_records_come_in_the_order_of_the_files(tmp_path: Path, order: Order) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(9)
        found = await root.search(order=order)
        assert found.numbers == numbers
        assert found.running.status is Status.OK
        assert found.running.matches == len(numbers)
        assert found.running.rows == len(numbers)

    play(tmp_path, scenario, PlayedWorkers(3))


def test_chunks_are_spread_and_a_worker_has_no_more_at_once_than_it_has_slots(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(12)
        found = await root.search(max_workers=3)
        assert root.workers.asked[0] == 3
        assert root.workers.most_at_once == {"w0:1": 2, "w1:1": 2, "w2:1": 2}
        told = found.running.workers()
        assert [worker["addr"] for worker in told] == ["w0:1", "w1:1", "w2:1"]
        assert sum(int(str(worker["chunks"])) for worker in told) == 12
        assert not root.alone.chunks

    play(tmp_path, scenario, PlayedWorkers(5, slots=2))


def test_without_a_worker_the_root_searches_alone(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(4)
        found = await root.search()
        assert found.numbers == numbers
        assert root.alone.chunks == [0, 1, 2, 3]
        assert found.running.workers() == []

    play(tmp_path, scenario)


def test_a_root_without_recruiters_asks_nobody(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        assert (await root.search()).numbers == root.put_numbered(4)

    async def nobody_is_asked(root: Root) -> None:
        root.put_numbered(4)
        await scenario(root)
        assert root.workers.asked == []

    play(tmp_path, nobody_is_asked, PlayedWorkers(3), has_recruiters=False)


def test_a_large_file_is_searched_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "PART_BYTES_MIN", 37)
    monkeypatch.setattr(splitting, "PART_BYTES_MAX", 37)

    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(2, lines=100)
        found = await root.search()
        assert found.numbers == numbers
        assert found.progress[-1].chunks > 50

    play(tmp_path, scenario, PlayedWorkers(4))


def test_progress_rises_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "PROGRESS_S", 0)

    async def scenario(root: Root) -> None:
        root.put_numbered(200)  # enough that it takes a while
        found = await root.search()
        first, *_, last = found.progress
        assert (first.bytes_done, first.chunks_done, first.workers) == (0, 0, 0)
        assert (last.bytes_done, last.chunks_done, last.matches) == (last.bytes, last.chunks, 600)
        done = [progress.bytes_done for progress in found.progress]
        assert len(done) > 3
        assert done == sorted(done)

    play(tmp_path, scenario, PlayedWorkers(2))


def test_progress_is_told_five_times_a_second_and_not_more(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(200)
        found = await root.search()
        assert len(found.progress) <= 3 + found.running.seconds / 0.2

    play(tmp_path, scenario, PlayedWorkers(2))


# Lost workers


def test_a_worker_that_is_lost_in_the_middle_costs_a_retry_and_no_record(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(9)
        found = await root.search(order=Order.INPUT, max_workers=2)
        assert found.numbers == numbers
        assert found.running.status is Status.OK
        machine = found.running.driver.machine
        assert (machine.lost, machine.retried) == (1, 1)
        assert [chunk for _, chunk in root.workers.given].count(2) == 2
        assert root.workers.asked == [2, 1]
        assert root.workers.releases["r0"] == 1  # a lost one, too

    is_first = first_times(1)

    def lose(worker: Recruited, chunk: Chunk) -> Exception | None:
        return lost(worker) if chunk.number == 2 and is_first(2) else None

    play(tmp_path, scenario, PlayedWorkers(4, play=lose))


def test_with_all_workers_lost_the_root_goes_on_alone(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(9)
        found = await root.search()
        assert found.numbers == numbers
        assert found.running.driver.machine.lost == 2
        assert root.alone.chunks

    is_first = first_times(2)

    def lose_later(worker: Recruited, chunk: Chunk) -> Exception | None:
        return None if is_first(worker) else lost(worker)

    play(tmp_path, scenario, PlayedWorkers(2, play=lose_later))


def test_a_chunk_that_kills_is_given_up_and_named_and_all_others_are_searched(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(6)
        found = await root.search()
        assert found.numbers == [0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]
        assert found.running.status is Status.PARTIAL
        (problem,) = found.running.problems.told()
        assert Path(problem.url).name == "f001.ndjson"
        assert "3 workers were lost" in problem.why
        assert 1 not in root.alone.chunks

    def killed_by_one(worker: Recruited, chunk: Chunk) -> Exception | None:
        return lost(worker) if chunk.number == 1 else None

    play(tmp_path, scenario, PlayedWorkers(20, slots=2, play=killed_by_one))


def liar(worker: Recruited) -> Exception:
    return WorkerBrokeProtocolError(f"{worker.addr} broke the protocol: the report does not add up")


def test_a_worker_whose_answer_does_not_add_up_costs_a_retry_and_no_record(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(6)
        found = await root.search()
        assert found.numbers == numbers
        assert found.running.status is Status.OK
        assert found.running.driver.machine.lost == 2

    def lie(worker: Recruited, chunk: Chunk) -> Exception | None:
        return liar(worker) if worker.addr in ("w0:1", "w3:1") else None

    play(tmp_path, scenario, PlayedWorkers(20, play=lie))


@pytest.mark.parametrize("slots", [1, 2])
def test_a_search_fails_when_no_answer_to_a_chunk_adds_up(tmp_path: Path, slots: int) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(6)
        with pytest.raises(QuarterdeckError, match="does not add up") as raised:
            await root.search()
        assert raised.value.code is ErrorCode.PROTOCOL

    def lie(worker: Recruited, chunk: Chunk) -> Exception | None:
        return liar(worker) if chunk.number == 1 else None

    play(tmp_path, scenario, PlayedWorkers(20, slots=slots, play=lie))


def test_workers_that_cannot_be_reached_are_no_fault_of_any_chunk(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(3)
        found = await root.search()
        assert found.numbers == numbers
        assert found.running.status is Status.OK

    def refuse_connections(worker: Recruited, chunk: Chunk) -> Exception:
        return WorkerNotReachedError(f"{worker.addr} refused the connection")

    play(tmp_path, scenario, PlayedWorkers(20, play=refuse_connections))


def test_a_worker_that_is_lost_has_its_other_chunks_hung_up_on(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(4)
        found = await root.search(max_workers=1)
        assert found.numbers == numbers
        assert root.workers.searching["w0:1"] == 0
        assert found.running.driver.machine.retried == 2

    def lose_first(worker: Recruited, chunk: Chunk) -> "asyncio.Future[None] | Exception | None":
        if worker.addr != "w0:1":
            return None
        return lost(worker) if chunk.number == 1 else asyncio.get_running_loop().create_future()

    play(tmp_path, scenario, PlayedWorkers(2, slots=2, play=lose_first))


# Refusals and problems


@pytest.mark.parametrize("workers", [0, 2])
def test_a_refusal_that_is_about_a_chunk_leaves_the_rest(tmp_path: Path, workers: int) -> None:
    too_much = QuarterdeckError(ErrorCode.RESOURCE_EXHAUSTED, "not searched", "a line is too long", "split it")

    async def scenario(root: Root) -> None:
        root.put_numbered(3)
        root.alone.refusal = too_much
        if not workers:
            with pytest.raises(QuarterdeckError, match="a line is too long") as raised:
                await root.search()
            assert raised.value.code is ErrorCode.WORK_FAILED  # of everything
            return
        found = await root.search()
        assert found.numbers == [0, 1, 2, 6, 7, 8]
        assert found.running.status is Status.PARTIAL

    def refuse(worker: Recruited, chunk: Chunk) -> Exception | None:
        return too_much if chunk.number == 1 else None

    play(tmp_path, scenario, PlayedWorkers(workers, play=refuse))


def test_a_refusal_that_is_about_the_search_is_its_error(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        with pytest.raises(QuarterdeckError, match="of another version"):
            await root.search()

    def refuse(worker: Recruited, chunk: Chunk) -> Exception | None:
        error = QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "no search", "of another version", "upgrade")
        return error if chunk.number == 4 else None

    play(tmp_path, scenario, PlayedWorkers(2, play=refuse))


def test_a_root_without_room_for_answers_blames_no_file(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        with pytest.raises(NoRoomError, match="the disk is full"):
            await root.search()

    play(tmp_path, scenario, PlayedWorkers(2, play=lambda worker, chunk: no_room("the disk is full")))


def test_what_nobody_expected_ends_the_search_with_it(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        with pytest.raises(ZeroDivisionError):
            await root.search()
        (record,) = root.service.history.documents()
        assert record["state"] == "error"

    play(tmp_path, scenario, PlayedWorkers(2, play=lambda _worker, _chunk: ZeroDivisionError()))


def test_files_with_problems_are_told_once_and_the_rest_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "PART_BYTES_MIN", 30)
    monkeypatch.setattr(splitting, "PART_BYTES_MAX", 30)

    async def scenario(root: Root) -> None:
        root.put("a.ndjson", *([{"n": 1}, "no record"] * 20))
        root.put("broken.ndjson.gz", "x")
        found = await root.search()
        assert len(found.numbers) == 20
        assert found.running.status is Status.PARTIAL
        problems = {Path(problem.url).name: problem.lines for problem in found.running.problems.told()}
        assert problems == {"a.ndjson": 20, "broken.ndjson.gz": 0}
        assert found.progress[-1].bad_lines == 20

    play(tmp_path, scenario, PlayedWorkers(2))


def test_with_every_file_broken_it_is_an_error_that_names_the_first(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        for number in range(5):
            root.put(f"broken{number}.ndjson.gz", "x")
        with pytest.raises(QuarterdeckError, match=r"broken0.*broken1.*broken2.*and 2 more") as raised:
            await root.search("level=error")
        assert raised.value.code is ErrorCode.WORK_FAILED

    play(tmp_path, scenario, PlayedWorkers(2))


# Fields and times


def test_a_field_that_no_record_has_is_an_error_with_its_place_and_the_likely_one(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        for number in range(3):
            root.put(f"{number}.ndjson", {"level": "error", "host": "a"})
        with pytest.raises(QuarterdeckError) as raised:
            await root.search("error | count() by hots, levle")
        assert raised.value.code is ErrorCode.INVALID_ARGUMENT
        assert "column 20: none of the 3 files has a field `hots`; did you mean `host`?" in str(raised.value)
        assert str(raised.value).splitlines()[1:] == ["  error | count() by hots, levle", " " * 21 + "^^^^"]
        assert root.workers.asked_about[0] == {"hots", "levle"}

    play(tmp_path, scenario, PlayedWorkers(2))


def test_a_field_that_is_rare_is_asked_for_until_it_was_seen(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"n": 1}, {"n": 2, "rare": "x"})
        for number in range(1, 4):
            root.put(f"{number}.ndjson", {"n": 1})
        found = await root.search("rare=x", max_workers=1)
        assert found.records == [{"n": 2, "rare": "x"}]
        assert root.workers.asked_about == {0: {"rare"}, 1: set(), 2: set(), 3: set()}

    play(tmp_path, scenario, PlayedWorkers(1))


def test_a_search_of_empty_files_names_no_field(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson")
        assert (await root.search("level=error")).records == []

    play(tmp_path, scenario, PlayedWorkers(1))


def test_the_time_of_records_is_the_first_known_name_that_a_sample_has(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"time": 1, "@timestamp": 1, "n": 1})
        found = await root.search()
        assert found.running.plan.spec.time_field == "time"
        found = await root.search(time_field="n", start="now-1h", end="2026-10-01T00:00:00+02:00")
        spec = found.running.plan.spec
        assert (spec.time_field, spec.now_us - (spec.start_us or 0)) == ("n", 3_600_000_000)
        assert spec.end_us == 1_790_805_600_000_000

    play(tmp_path, scenario)


@pytest.mark.parametrize("options", [{"query": "[now-1h,] or x"}, {"query": "x", "start": "now-1h"}])
def test_a_time_range_without_a_time_says_how_to_name_one(tmp_path: Path, options: dict[str, str]) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"n": 1})
        with pytest.raises(QuarterdeckError, match="time_field, or --time-field") as raised:
            await root.search(**options)
        assert raised.value.code is ErrorCode.INVALID_ARGUMENT

    play(tmp_path, scenario)


def test_a_time_field_that_somebody_named_must_be_there(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"when": 1, "n": 1})
        with pytest.raises(QuarterdeckError, match="time_field: the file has no field `whem`; did you mean `when`"):
            await root.search(time_field="whem")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "options, why",
    [
        ({"query": "level="}, r"\^"),
        ({"sources": ()}, "no source"),
        ({"max_workers": 0}, "max_workers is 0"),
        ({"max_workers": 101}, "max_workers is 101"),
        ({"start": "yesterday"}, "start is 'yesterday'"),
        ({"start": "now", "end": "now-1h"}, "not after its start"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_recruited(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    async def scenario(root: Root) -> None:
        root.put("0.ndjson", {"ts": 1})
        with pytest.raises(QuarterdeckError, match=why) as raised:
            await root.search(**options)
        assert raised.value.code is ErrorCode.INVALID_ARGUMENT
        assert root.workers.asked == []

    play(tmp_path, scenario, PlayedWorkers(2))


def test_relative_sources_are_below_the_data_path_and_alone_it_is_the_source(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put("a/0.ndjson", {"n": 0})
        root.put("b/1.ndjson", {"n": 1})
        assert (await root.search(data_path=str(tmp_path), sources=("b",))).numbers == [1]
        assert (await root.search(data_path=str(tmp_path), sources=("b", f"{tmp_path}/a/"))).numbers == [1, 0]
        assert (await root.search(data_path=f"{tmp_path}/", sources=())).numbers == [0, 1]

    play(tmp_path, scenario)


# Early ends


def test_what_a_head_does_not_need_is_not_searched(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(50)
        found = await root.search("* | head 4", order=Order.INPUT, max_workers=2)
        assert found.numbers == [0, 1, 2, 3]
        assert found.running.status is Status.OK
        assert found.progress[-1].workers == 0  # they did not have to wait for the reader

    def take_for_ever(worker: Recruited, chunk: Chunk) -> "asyncio.Future[None] | None":
        return asyncio.get_running_loop().create_future() if chunk.number > 4 else None

    play(tmp_path, scenario, PlayedWorkers(2, play=take_for_ever))


def test_whoever_stops_reading_gives_the_workers_back(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        async with root.events(order=Order.NONE, max_workers=2) as (_, events):
            async for event in events:
                if isinstance(event, Rows):
                    break
        await root.service.wait_quiet()
        assert root.workers.releases == {"r0": 1, "r1": 1}
        (record,) = root.service.history.documents()
        assert record["state"] == "canceled"

    play(tmp_path, scenario, PlayedWorkers(2))


def test_a_cancel_in_the_middle_hangs_up_and_gives_the_workers_back(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        searching = asyncio.create_task(root.search())
        await until(lambda: sum(root.workers.searching.values()) == 2)
        searching.cancel()
        with suppress(asyncio.CancelledError):
            await searching
        await root.service.wait_quiet()
        assert not +root.workers.searching
        assert root.workers.releases == {"r0": 1, "r1": 1}

    play(tmp_path, scenario, PlayedWorkers(2, play=lambda _worker, _chunk: asyncio.get_running_loop().create_future()))


def test_workers_that_come_after_a_cancel_are_given_back_too(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        root.workers.hold_recruits = asyncio.Event()
        searching = asyncio.create_task(root.search())
        await until(lambda: bool(root.workers.asked))
        searching.cancel()
        with suppress(asyncio.CancelledError):
            await searching
        assert root.service.is_busy
        asyncio.get_running_loop().call_later(0.05, root.workers.hold_recruits.set)
        await root.service.wait_quiet()
        assert root.workers.releases == {"r0": 1, "r1": 1}

    play(tmp_path, scenario, PlayedWorkers(2))


def test_a_search_has_its_time_and_not_more(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(9)
        with pytest.raises(QuarterdeckError, match=r"it had 0\.05 s") as raised:
            await root.search(timeout_s=0.05)
        assert raised.value.code is ErrorCode.DEADLINE_EXCEEDED
        (record,) = root.service.history.documents()
        assert record["state"] == "error"
        assert "deadline_exceeded" in str(record["error"])

    play(tmp_path, scenario, PlayedWorkers(2, play=lambda _worker, _chunk: asyncio.get_running_loop().create_future()))


def test_a_reader_that_stands_still_holds_everything_back(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(50)
        seen: list[int] = []
        async with root.events(order=Order.INPUT, max_workers=2) as (running, events):
            async for event in events:
                if isinstance(event, Progress):
                    continue
                if not seen:
                    await until(lambda: not +root.workers.searching)
                    given = len(root.workers.given)
                    assert given < 10
                    assert running.driver.machine.held_bytes >= 100
                seen += [int(line.rpartition(b":")[2].strip(b" }")) for line in event.data.splitlines()]
        assert seen == numbers

    play(tmp_path, scenario, PlayedWorkers(2), held_bytes=100)


# The service


def test_a_service_that_is_closed_takes_no_search(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(1)
        root.service.close()
        with pytest.raises(QuarterdeckError, match="shutting down") as raised:
            await root.search()
        assert raised.value.code is ErrorCode.UNAVAILABLE

    play(tmp_path, scenario)


def test_a_search_that_is_planned_while_the_service_closes_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(root: Root) -> None:
        async def planned(*given: Any) -> object:
            root.service.close()
            return await plan(*given)

        numbers = root.put_numbered(4)
        monkeypatch.setattr(service_module, "plan", planned)
        assert (await root.search()).numbers == numbers

    play(tmp_path, scenario)


def test_one_search_more_than_allowed_is_refused(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(1)
        async with root.service.opened(SearchRequest("*", (str(tmp_path),))):
            with pytest.raises(QuarterdeckError, match="searches_at_once") as raised:
                await root.search()
            assert raised.value.code is ErrorCode.RESOURCE_EXHAUSTED

    play(tmp_path, scenario, at_once=1)


def test_the_history_has_what_runs_and_what_ended(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        root.put_numbered(2)
        await root.search("1")
        async with root.service.opened(root.request("2")):
            states = [
                (record["query_id"], record["state"], record["query"]) for record in root.service.history.documents()
            ]
            assert states == [("q2", "running", "2"), ("q1", "ok", "1")]
            found = root.service.history.find("q1")
            assert found is not None
            assert (found["chunks"], found["chunks_done"], found["matches"]) == (2, 2, 1)
            assert root.service.history.find("q2") is not None
            assert root.service.history.find("q3") is None

    play(tmp_path, scenario, PlayedWorkers(1))
