"""A simulated process: code that can be stopped, continued and killed as a whole.

Code belongs to a process by its context: whatever a task, callback or timer of a process creates is of that process
too. Code of no process is the simulator itself. Only the loop changes a process's state.

It must not know the loop. `bury` ends coroutines of processes that will never run again.
"""

import gc
import logging
import sys
import warnings
from collections.abc import Coroutine, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from types import FrameType
from typing import Any, Final


class ProcessState(StrEnum):
    """What a process may do."""

    RUNNING = "running"
    PAUSED = "paused"
    """As after SIGSTOP: nothing of it runs, what comes due waits for the end of the pause."""

    DEAD = "dead"
    """As after SIGKILL: nothing of it ever runs again, not even a `finally`."""


class Process:
    """One life of a simulated process; a restart is a new `Process` with the same name."""

    __slots__ = ("name", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = ProcessState.RUNNING

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state}>"


current_process: Final[ContextVar[Process | None]] = ContextVar("current_process", default=None)

# A coroutine that awaits inside `finally` has to be closed once for each such await.
_CLOSE_ATTEMPTS: Final = 100
# Those that refuse to end even so. Freed, each would complain; kept, each costs only memory.
_undying: Final[list[Coroutine[Any, Any, Any]]] = []


@contextmanager
def silence() -> Generator[None]:
    """What dead code says while it is taken apart is heard by nobody."""
    hook, log_level = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = lambda _: None
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(log_level)
        sys.unraisablehook = hook


def collections() -> int:
    """How often the garbage collector has moved objects to its oldest generation."""
    return sum(generation["collections"] for generation in gc.get_stats()[1:])


def bury(coroutines: Iterable[Coroutine[Any, Any, Any]], born_at: int) -> None:
    """End the coroutines; to be called inside `silence()`.

    Python cannot drop a suspended coroutine without running its `finally` blocks: they run here, after the simulation,
    so the caller first makes harmless whatever they may call.

    What hangs in reference cycles goes too. If `collections()` is what it was when the dead were born, all of it is in
    the young generations, and the many objects of imported modules need not be looked at (else `gc.freeze()` helps).
    """
    for coroutine in coroutines:
        if not _close(coroutine):
            _undying.append(coroutine)
    del coroutines
    gc.collect(1 if collections() == born_at else 2)


def _close(coroutine: Coroutine[Any, Any, Any]) -> bool:
    for _ in range(_CLOSE_ATTEMPTS):
        try:
            coroutine.close()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001, S112 (dead code may raise anything, and may await in `finally`)
            continue
        return True
    return False


def where(awaitable: object) -> str:
    """Where a suspended coroutine is: the innermost line outside asyncio, and the one inside asyncio it waits in."""
    own, inner = "", ""
    while awaitable is not None:
        frame, awaitable = _frame_and_awaited(awaitable)
        if frame is None:
            break
        code = frame.f_code
        line = f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
        if frame.f_globals.get("__name__", "").partition(".")[0] == "asyncio":
            inner = line
        else:
            own, inner = line, ""
    return ", at ".join(part for part in (own, inner) if part) or "not in Python code"


def _frame_and_awaited(awaitable: object) -> tuple[FrameType | None, object]:
    for frame, awaited in (("cr_frame", "cr_await"), ("ag_frame", "ag_await"), ("gi_frame", "gi_yieldfrom")):
        if hasattr(awaitable, frame):
            return getattr(awaitable, frame), getattr(awaitable, awaited)
    return None, None
