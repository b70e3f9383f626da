"""A thread's work is over when the wait for it is over."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from quarterdeck.stores import threads
from quarterdeck.stores.threads import in_loose_thread, in_thread, wait_for_end
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
    begun = threading.Event()

    def work() -> None:
        begun.set()
        ended.append(told.wait(60))

    task = asyncio.create_task(in_thread(work, None, told.set))
    await until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


@looped
async def test_a_function_that_misses_the_first_word_is_told_again() -> None:
    begun, words = threading.Event(), threading.Semaphore(0)
    heard: list[bool] = []

    def work() -> None:
        begun.set()
        heard.extend(words.acquire(timeout=60) for _ in range(3))

    task = asyncio.create_task(in_thread(work, None, words.release))
    await until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == [True] * 3


@looped
async def test_what_has_not_begun_when_it_is_canceled_runs_unless_it_may_be_skipped() -> None:
    may_end, ran = threading.Event(), list[str]()
    with ThreadPoolExecutor(1) as pool:
        busy = asyncio.create_task(in_thread(lambda: may_end.wait(60), pool))
        skipped = asyncio.create_task(in_thread(lambda: ran.append("skipped"), pool, may_be_skipped=True))
        cleaning = asyncio.create_task(in_thread(lambda: ran.append("cleaned up"), pool, lambda: None))
        await asyncio.sleep(0)
        skipped.cancel()
        cleaning.cancel()
        await until(skipped.done)
        assert not cleaning.done()
        may_end.set()
        await asyncio.wait((busy, cleaning))
    assert skipped.cancelled()
    assert cleaning.cancelled()
    assert ran == ["cleaned up"]


@looped
async def test_what_came_too_late_is_undone_and_what_failed_is_not() -> None:
    undone: list[int] = []

    def fail() -> int:
        raise KeyError("late")

    for work in (lambda: 7, fail):
        may_end, begun = threading.Event(), threading.Event()

        def late(
            work: Callable[[], int] = work, may_end: threading.Event = may_end, begun: threading.Event = begun
        ) -> int:
            begun.set()
            may_end.wait(60)
            return work()

        task = asyncio.create_task(in_thread(late, undo=undone.append))
        await until(begun.is_set)
        task.cancel()
        may_end.set()
        await until(task.done)
        assert task.cancelled()
    assert undone == [7]
    assert await in_thread(lambda: 8, undo=undone.append) == 8
    assert undone == [7]


@looped
async def test_the_function_sees_the_context_of_the_caller() -> None:
    variable = ContextVar("variable", default="outside")
    variable.set("inside")
    assert await in_thread(variable.get) == "inside"


@looped
async def test_nobody_is_told_to_end_when_nobody_was_canceled() -> None:
    told: list[bool] = []
    await in_thread(lambda: None, None, lambda: told.append(True))
    with pytest.raises(ValueError, match="x"):
        await in_thread(lambda: int("x"), None, lambda: told.append(True))
    assert told == []


class Large:
    """Stands for much memory."""


class LateError(Exception):
    """One that can be seen to go."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_an_error_holds_nothing_of_what_the_function_had_in_hand_and_is_held_by_nobody(no_collector: None) -> None:
    held: list[weakref.ref[Large]] = []
    errors: list[weakref.ref[LateError]] = []

    def fail() -> None:
        large = Large()
        held.append(weakref.ref(large))
        raise LateError(id(large))

    async def meet() -> None:
        try:
            await in_thread(fail)
        except LateError as error:
            assert held[0]() is None
            errors.append(weakref.ref(error))

    @looped
    async def test() -> None:
        await meet()
        await until(lambda: errors[0]() is None)  # the thread lets go of it in its own time

    test()


@looped
async def test_who_waits_for_an_end_is_canceled_only_when_it_has_come() -> None:
    for ends in (succeed, fail, cancel):
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(wait_for_end(future))
        await asyncio.sleep(0)
        for _ in range(3):
            waiting.cancel()
            await asyncio.sleep(0.001)
            assert not waiting.done()
        ends(future)
        with pytest.raises(asyncio.CancelledError):
            await waiting


def succeed(future: "asyncio.Future[None]") -> None:
    future.set_result(None)


def fail(future: "asyncio.Future[None]") -> None:
    future.set_exception(KeyError())


def cancel(future: "asyncio.Future[None]") -> None:
    future.cancel()


@looped
async def test_an_end_is_waited_for_whatever_it_is_and_nobody_complains_of_what_a_canceled_one_did_not_see() -> None:
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    failed: asyncio.Future[None] = loop.create_future()
    waiting = asyncio.create_task(wait_for_end(failed))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    failed.set_exception(KeyError("late"))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    del failed, waiting
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
    failed = loop.create_future()
    failed.set_exception(KeyError("early"))
    await wait_for_end(failed)
    assert isinstance(failed.exception(), KeyError), "it is for whoever has the future"


# A thread that blocks nobody


@looped
async def test_a_loose_thread_gives_what_it_has_and_raises_what_it_met() -> None:
    assert await in_loose_thread(lambda: threading.current_thread().daemon) is True

    def leave() -> None:
        raise GeneratorExit

    for work, error in ((lambda: int("x"), ValueError), (leave, GeneratorExit)):
        with pytest.raises(error):
            await in_loose_thread(work)


@looped
async def test_who_is_canceled_does_not_wait_for_a_loose_thread() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(60)
        ended.set()

    task = asyncio.create_task(in_loose_thread(work))
    await until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ended.is_set()
    may_end.set()
    await until(ended.is_set)


@looped
async def test_what_is_canceled_before_its_loose_thread_began_does_not_run() -> None:
    waiting: list[Callable[[], None]] = []
    ran: list[bool] = []

    class Slow:
        def __init__(self, target: Callable[[], None], **_: object) -> None:
            self.start = lambda: waiting.append(target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads.threading, "Thread", Slow)
        task = asyncio.create_task(in_loose_thread(lambda: ran.append(True)))
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (begin,) = waiting
    begin()
    assert ran == []
