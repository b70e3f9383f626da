"""An error can be kept without what was in hand where it happened."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from quarterdeck.core.tracebacks import empty_frames, with_empty_frames


class Block:
    """Stands for much memory."""


BLOCKS: list[weakref.ref[Block]] = []


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    BLOCKS.clear()
    gc.disable()
    yield
    gc.enable()


def fail() -> None:
    block = Block()
    BLOCKS.append(weakref.ref(block))
    try:
        raise ValueError(id(block))
    except ValueError as error:
        raise KeyError(id(block)) from error


def kept() -> int:
    return sum(block() is not None for block in BLOCKS)


def test_an_error_with_empty_frames_holds_nothing() -> None:
    with pytest.raises(KeyError) as caught:
        fail()
    assert kept() == 1
    empty_frames(caught.value)
    assert kept() == 0


def test_what_a_function_raises_holds_nothing_and_what_it_gives_is_given() -> None:
    with pytest.raises(KeyError):
        with_empty_frames(fail)
    assert kept() == 0
    assert with_empty_frames(lambda: 7) == 7


def test_errors_that_lead_to_each_other_are_no_trap() -> None:
    one, other = ValueError(), KeyError()
    one.__context__, other.__context__ = other, one
    empty_frames(one)


def test_a_coroutine_that_caught_the_error_and_awaits_something_goes_on() -> None:
    error = ValueError()

    async def catch(go_on: asyncio.Event) -> str:
        try:
            raise error
        except ValueError:
            await go_on.wait()
        return "went on"

    async def scenario() -> str:
        go_on = asyncio.Event()
        other = asyncio.create_task(catch(go_on))
        await asyncio.sleep(0)
        empty_frames(error)
        go_on.set()
        return await other

    assert asyncio.run(scenario()) == "went on"


def test_a_generator_that_caught_the_error_goes_on() -> None:
    error = ValueError()

    def catch() -> Iterator[int]:
        try:
            raise error
        except ValueError:
            yield 1
        yield 2

    numbers = catch()
    assert next(numbers) == 1
    empty_frames(error)
    assert next(numbers) == 2


def test_a_coroutine_that_the_error_ended_holds_nothing() -> None:
    async def deep() -> None:
        await asyncio.sleep(0)
        fail()

    async def outer() -> None:
        block = Block()
        BLOCKS.append(weakref.ref(block))
        await deep()

    with pytest.raises(KeyError) as caught:
        asyncio.run(outer())
    empty_frames(caught.value)
    assert kept() == 0


def test_a_frame_that_runs_is_left_alone() -> None:
    here = "here"
    try:
        raise ValueError
    except ValueError as error:
        empty_frames(error)
    assert here == "here"
