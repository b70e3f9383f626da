"""What an error keeps alive: every frame it came through, and everything in these frames.

Whoever keeps an error (a future, a task, a log record, another error's context) keeps the arrays of the computation
that it ended. So an error that a thread raises is emptied before it leaves the thread, and an error that a request
raises is emptied when the request has been answered. It still tells where it happened, and the memory is free at once,
without the garbage collector.
"""

import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def empty_frames(error: BaseException) -> None:
    """Lets go of the local variables of all frames that have ended, those of the errors behind this one too."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            left += (one.__cause__, one.__context__)


def with_empty_frames(function: Callable[[], T]) -> T:
    """What the function gives. What it raises holds nothing of what it had in hand."""
    try:
        return function()
    except BaseException as error:
        empty_frames(error)
        raise
