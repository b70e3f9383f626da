"""Chunks in threads: rows as they come, as many at once as there are slots, and stopped when nobody wants them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.search.executor import ChunkExecutor
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, FileProblem, Piece, SearchSpec
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.search.ports import ChunkAnswer
from quarterdeck.search.stored_rows import RowLimits, disk_bytes_of
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.http.asked import until
from tests.patience import PATIENCE_S
from tests.search.played_search import FULL, PlayedSearcher
from tests.stores.budgets import small_budget


class Scene:
    def __init__(self, folder: Path, slots: int) -> None:
        objects = ObjectStores()
        self.searcher = PlayedSearcher()
        self.opener = PieceOpener(objects, ParquetCache(folder / "cache", small_budget(folder / "artifacts"), objects))
        self.executor = ChunkExecutor(self.searcher, self.opener, slots, RowLimits(folder, memory_bytes=0))
        self.progress: list[int] = []
        file = folder / "a"
        file.write_bytes(b"{}\n")
        self.piece = Piece(str(file), FileKind.NDJSON, 3, "", 0, 3)

    def search(self, rows: int, *pieces: Piece) -> "asyncio.Task[ChunkAnswer]":
        chunk = Chunk(0, pieces or (self.piece,))
        spec = SearchSpec(str(rows), 1)
        return asyncio.create_task(self.executor.search(spec, chunk, ask_about={"f"}, on_progress=self.progress.append))


@asynccontextmanager
async def scene(folder: Path, slots: int = 2) -> AsyncGenerator[Scene]:
    one = Scene(folder, slots)
    try:
        yield one
    finally:
        one.searcher.go_on.set()
        one.executor.close()


Looped = Callable[[Callable[[Scene], Coroutine[Any, Any, None]], int], None]


@pytest.fixture
def run(tmp_path: Path) -> Looped:
    def run(test: Callable[[Scene], Coroutine[Any, Any, None]], slots: int = 2) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_S), scene(tmp_path, slots) as s:
                await test(s)

        asyncio.run(bounded())

    return run


def test_a_chunk_is_searched_to_its_end(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.executor.warm_up()
        answer = await s.search(3)
        assert [batch.to_pydict()["line"] for batch in answer.batches] == [["x0"], ["x1"], ["x2"]]
        assert disk_bytes_of(answer.batches) > 0, "rows beyond the limit wait on disk"
        assert answer.report == ChunkReport(3, 3, (), frozenset({"f"}), 1)
        assert s.searcher.asked == [(SearchSpec("3", 1), [s.piece.url], ("f",))]

    run(test, 2)


def test_what_cannot_be_opened_is_told_and_the_rest_is_searched(run: Looped) -> None:
    async def test(s: Scene) -> None:
        gone = Piece("/no/such", FileKind.NDJSON, 3, "", 0, 3)
        s.searcher.problems = (FileProblem(s.piece.url, "bad", 2),)
        answer = await s.search(1, gone, s.piece)
        assert answer.report.problems == (FileProblem("/no/such", "there is no such file"), *s.searcher.problems)
        assert s.searcher.asked[0][1] == [s.piece.url]

    run(test, 2)


def test_a_chunk_of_which_nothing_can_be_opened_is_no_rows_and_its_problems(run: Looped) -> None:
    async def test(s: Scene) -> None:
        answer = await s.search(1, Piece("/no/such", FileKind.NDJSON, 3, "", 0, 3))
        assert list(answer.batches) == []
        assert answer.report == ChunkReport(0, 0, (FileProblem("/no/such", "there is no such file"),))
        assert s.searcher.asked == []

    run(test, 2)


def test_no_more_run_at_once_than_there_are_slots(run: Looped) -> None:
    async def test(s: Scene) -> None:
        s.searcher.go_on.clear()
        searches = [s.search(2) for _ in range(7)]
        await until(lambda: s.searcher.running == 3)
        s.searcher.go_on.set()
        await asyncio.gather(*searches)
        assert s.searcher.most_at_once == 3

    run(test, 3)


def test_what_waits_for_a_slot_can_be_told(run: Looped) -> None:
    async def test(s: Scene) -> None:
        s.searcher.go_on.clear()
        first = s.search(2)
        await until(s.searcher.held.is_set)
        second = s.executor.run(SearchSpec("2", 1), [s.piece], ())
        waiting = asyncio.create_task(anext(second.parts(iter)))
        await until(lambda: second.is_waiting)
        waiting.cancel()
        await asyncio.wait([waiting])
        s.searcher.go_on.set()
        await first

    run(test, 1)


def test_progress_is_told_while_a_chunk_is_searched(run: Looped) -> None:
    async def test(s: Scene) -> None:
        s.searcher.go_on.clear()
        search = s.search(2)
        await until(s.searcher.held.is_set)
        await until(lambda: 10 in s.progress)
        s.searcher.go_on.set()
        await search

    run(test, 2)


def test_a_search_that_is_canceled_has_stopped_when_that_is_over(run: Looped) -> None:
    async def test(s: Scene) -> None:
        s.searcher.go_on.clear()
        search = s.search(2)
        await until(s.searcher.held.is_set)
        search.cancel()
        search.cancel()
        await asyncio.wait([search])
        assert search.cancelled()
        assert (s.searcher.running, s.searcher.ended) == (0, 1)
        assert s.searcher.stopped

    run(test, 2)


def test_a_search_that_is_left_between_two_parts_has_stopped(run: Looped) -> None:
    async def test(s: Scene) -> None:
        one = s.executor.run(SearchSpec("5", 1), [s.piece], ())
        async with aclosing(one.parts(iter)) as parts:
            await anext(parts)
        assert (s.searcher.running, s.searcher.ended) == (0, 1)
        with pytest.raises(AssertionError, match="not searched to its end"):
            _ = one.report

    run(test, 2)


def test_what_goes_wrong_in_the_thread_is_told_and_frees_the_slot(run: Looped) -> None:
    async def test(s: Scene) -> None:
        s.searcher.failure = FULL
        for _ in range(3):
            with pytest.raises(QuarterdeckError, match="out of memory"):
                await s.search(2)
        assert s.searcher.running == 0

    run(test, 1)
