"""What cannot be searched is named, and the rest is searched."""

import errno
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk
from quarterdeck.search.root import splitting
from quarterdeck.search.root.running import Status
from quarterdeck.search.stored_rows import NoRoomError, no_room
from quarterdeck.stores.disk_full import DiskFullError
from quarterdeck.stores.disk_full import no_room as no_room_on_disk
from tests.search.root.searched import PlayedWorkers, Root, play

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


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
        (record,) = root.service.told()
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


def test_a_root_that_searches_alone_with_a_full_disk_blames_no_file(tmp_path: Path) -> None:
    full = no_room_on_disk("a cached file could not be written", tmp_path, OSError(errno.ENOSPC, "No space left"))

    async def scenario(root: Root) -> None:
        root.put_numbered(3)
        root.alone.refusal = full
        with pytest.raises(DiskFullError, match="the disk is full"):
            await root.search()

    play(tmp_path, scenario)
