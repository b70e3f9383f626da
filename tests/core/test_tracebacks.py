"""An error can be kept without what was in hand where it happened."""

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
