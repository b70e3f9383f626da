"""What the simulated loop holds: callbacks and tasks, as asyncio's own but cheaper and with no address in their order.

All that is private to asyncio's tasks is here. It must not know the loop.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar, cast

_T = TypeVar("_T")

# A private attribute of asyncio's tasks, there in 3.11 to 3.14: it failed, and nobody has asked for its exception.
_UNSEEN: Final = "_log_traceback"


class SimulatedHandle(asyncio.TimerHandle):
    """A callback, ready or for later. The base class's constructor costs more than most callbacks: it is left out."""

    __slots__ = ("args", "callback", "context", "due_s")

    def __init__(
        self, due_s: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.due_s = due_s
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = copy_context() if context is None else context

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due_s

    def get_context(self) -> Context:
        return self.context

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.due_s:g} s {self.callback!r}>"


class SimulatedTask(asyncio.Task[_T]):
    """A task whose place in a set does not depend on its address."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


def is_unseen(task: asyncio.Task[Any]) -> bool:
    """Whether it failed and nobody has asked for its exception."""
    return cast("bool", getattr(task, _UNSEEN))


def is_of_interest(task: asyncio.Task[Any] | None) -> bool:
    """Whether it waits, or failed unseen."""
    return task is not None and (not task.done() or is_unseen(task))
