"""However early a search ends, everything is stopped and all workers are given back."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.query_log import QueryState
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk, Order
from quarterdeck.search.root.running import Progress, Rows, Status
from tests.http.asked import until
from tests.search.root.searched import PlayedWorkers, Root, play

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


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
        (record,) = root.service.told()
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
        (query,) = root.service.log
        assert query.state is QueryState.FAILED
        assert "deadline_exceeded" in str(query.document()["error"])

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
