"""The files of a work: all of them, pinned while it reads, some at the same time; or the first error."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.inputs import opened_files
from quarterdeck.stores.objects import ObjectRef
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.crew.played import played, settle


class Shelf:
    """A cache that a test scripts."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.slow = False
        self.go = asyncio.Event()
        self.open_now: set[str] = set()
        self.asked: list[str] = []
        self.on_their_way = 0
        self.most_on_their_way = 0

    @asynccontextmanager
    async def open(self, ref: ObjectRef) -> AsyncGenerator[Path]:
        self.asked.append(ref.url)
        self.on_their_way += 1
        self.most_on_their_way = max(self.most_on_their_way, self.on_their_way)
        try:
            await (self.go.wait() if self.slow else asyncio.sleep(0))
        finally:
            self.on_their_way -= 1
        if ref.url in self.errors:
            raise self.errors[ref.url]
        self.open_now.add(ref.url)
        try:
            yield Path(f"/cache/{ref.url}")
        finally:
            self.open_now.remove(ref.url)

    @property
    def cache(self) -> ParquetCache:
        return cast("ParquetCache", cast("Any", self))


def refs(count: int) -> list[ObjectRef]:
    return [ObjectRef(str(number), 1, "v") for number in range(count)]


def torn(url: str, *, retryable: bool = False) -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.WORK_FAILED, f"{url} cannot be read", "it is torn", "mend it", retryable)


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_all_are_there_in_order_and_open_as_long_as_the_block_lasts(count: int) -> None:
    @played
    async def test() -> None:
        shelf = Shelf()
        opened: list[int] = []
        async with opened_files(shelf.cache, refs(count), on_opened=opened.append) as paths:
            assert paths == [Path(f"/cache/{number}") for number in range(count)]
            assert len(shelf.open_now) == count
        assert not shelf.open_now
        assert opened == list(range(1, count + 1))
        assert sorted(shelf.asked, key=int) == [str(number) for number in range(count)]
        assert shelf.most_on_their_way <= 8

    test()


@pytest.mark.parametrize("count", [1, 20])
def test_the_error_of_one_is_the_error_and_the_others_are_let_go(count: int) -> None:
    @played
    async def test() -> None:
        shelf = Shelf()
        shelf.errors["0"] = torn("0")
        with pytest.raises(QuarterdeckError, match="0 cannot be read"):
            async with opened_files(shelf.cache, refs(count)):
                pytest.fail("it is not entered")
        assert not shelf.open_now
        assert shelf.on_their_way == 0

    test()


@played
async def test_what_cannot_be_read_is_left_out_where_that_is_allowed() -> None:
    shelf = Shelf()
    shelf.errors |= {"1": torn("1"), "3": torn("3")}
    left_out: list[tuple[int, str]] = []
    opened: list[int] = []
    async with opened_files(
        shelf.cache, refs(5), on_opened=opened.append, on_unreadable=lambda at, error: left_out.append((at, error.what))
    ) as paths:
        assert [path is None for path in paths] == [False, True, False, True, False]
    assert sorted(left_out) == [(1, "1 cannot be read"), (3, "3 cannot be read")]
    assert opened == [1, 2, 3, 4, 5]


@played
async def test_what_retrying_may_bring_and_what_is_no_error_of_ours_is_never_left_out() -> None:
    for error in (torn("1", retryable=True), OSError("it is a bug")):
        shelf = Shelf()
        shelf.errors["1"] = error
        with pytest.raises(type(error)):
            async with opened_files(shelf.cache, refs(3), on_unreadable=lambda _, __: None):
                pytest.fail("it is not entered")
        assert not shelf.open_now


@pytest.mark.parametrize("count", [1, 20])
def test_a_cancel_stops_all_and_lets_go_of_what_is_open(count: int) -> None:
    @played
    async def test() -> None:
        shelf = Shelf()
        shelf.slow = True

        async def read() -> None:
            async with opened_files(shelf.cache, refs(count)):
                pytest.fail("it is not entered")

        task = asyncio.create_task(read())
        await settle()
        assert shelf.on_their_way == min(count, 8)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (shelf.on_their_way, shelf.open_now) == (0, set())

    test()
