"""A search gives every record once, in the order that was asked for, however its chunks are spread."""

from pathlib import Path

import pytest

from quarterdeck.search.model import Order
from quarterdeck.search.root import running as running_module
from quarterdeck.search.root import splitting
from quarterdeck.search.root.running import Status
from tests.search.root.searched import PlayedWorkers, Root, play

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


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
