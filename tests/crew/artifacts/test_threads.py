"""A thread's work is over when the wait for it is over."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from quarterdeck.crew.artifacts.threads import in_thread
from tests.crew.artifacts.harness import looped, until


@looped
async def test_the_result_comes_back_and_so_does_an_error() -> None:
    assert await in_thread(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ValueError, match="x"):
        await in_thread(lambda: int("x"))


@looped
async def test_a_cancel_is_passed_on_only_when_the_thread_has_ended_however_often_it_is_canceled() -> None:
    may_end = threading.Event()
    ended: list[bool] = []

    def work() -> None:
        ended.append(may_end.wait(60))

    task = asyncio.create_task(in_thread(work))
    await asyncio.sleep(0)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.001)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


@looped
async def test_an_error_that_comes_after_the_cancel_is_not_left_for_asyncio_to_complain_about() -> None:
    may_end = threading.Event()

    def work() -> None:
        may_end.wait(60)
        raise KeyError("late")

    task = asyncio.create_task(in_thread(work))
    await asyncio.sleep(0)
    task.cancel()
    may_end.set()
    await until(task.done)
    assert task.cancelled()


@looped
async def test_it_runs_in_the_pool_that_is_given() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:
        assert (await in_thread(lambda: threading.current_thread().name, pool)).startswith("mine")


@looped
async def test_who_is_canceled_tells_the_function_to_end_soon() -> None:
    told = threading.Event()
    ended: list[bool] = []
    task = asyncio.create_task(in_thread(lambda: ended.append(told.wait(60)), None, told.set))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


@looped
async def test_nobody_is_told_to_end_when_nobody_was_canceled() -> None:
    told: list[bool] = []
    await in_thread(lambda: None, None, lambda: told.append(True))
    with pytest.raises(ValueError, match="x"):
        await in_thread(lambda: int("x"), None, lambda: told.append(True))
    assert told == []
