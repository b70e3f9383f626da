"""What an error keeps alive: every frame it came through, and everything in these frames.

Whoever keeps an error (a future, a task, a log record, another error's context) keeps the arrays of the computation
that it ended. So an error that a thread raises is emptied before it leaves the thread, and an error that a request
raises is emptied when the request has been answered. It still tells where it happened, and the memory is free at once,
without the garbage collector.
"""

import inspect
import opcode
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

_CAN_STAND_STILL: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_YIELD: Final = opcode.opmap["YIELD_VALUE"]


def empty_frames(error: BaseException) -> None:
    """Lets go of the local variables of all frames that have ended, including those of the errors behind this one.

    An error may be raised again, for somebody else who waits for the same. Then it has frames of theirs, too, and these
    may go on: a coroutine that caught it and awaits something is left alone.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            _empty_frames_of(one)
            left += (one.__cause__, one.__context__)


def _empty_frames_of(error: BaseException) -> None:
    place = error.__traceback__
    while place is not None:
        if not _may_go_on(place.tb_frame):
            with suppress(RuntimeError):  # it runs
                place.tb_frame.clear()
        place = place.tb_next


def _may_go_on(frame: FrameType) -> bool:
    """Whether it stands where it would if it awaited something. Until Python 3.13, clearing such a frame ends it."""
    if not frame.f_code.co_flags & _CAN_STAND_STILL or frame.f_lasti < 0:
        return False
    return frame.f_code.co_code[frame.f_lasti] == _YIELD


def with_empty_frames(function: Callable[[], T]) -> T:
    """What the function gives. What it raises holds nothing of what it had in hand."""
    try:
        return function()
    except BaseException as error:
        empty_frames(error)
        raise
