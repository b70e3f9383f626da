"""A worker that is lost costs a retry, and no record."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk, Order
from quarterdeck.search.ports import WorkerBrokeProtocolError, WorkerHasNoRoomError, WorkerNotReachedError
from quarterdeck.search.root.running import Status
from tests.search.root.searched import PlayedWorkers, Root, first_times, lost, play

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


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


def test_workers_without_room_are_no_fault_of_any_chunk(tmp_path: Path) -> None:
    async def scenario(root: Root) -> None:
        numbers = root.put_numbered(3)
        found = await root.search()
        assert found.numbers == numbers
        assert found.running.status is Status.OK

    def refuse(worker: Recruited, chunk: Chunk) -> Exception:
        return WorkerHasNoRoomError(f"{worker.addr} has a full disk")

    play(tmp_path, scenario, PlayedWorkers(20, play=refuse))


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
