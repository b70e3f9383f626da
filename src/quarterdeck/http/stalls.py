"""A watchdog over an event loop: it notices when the loop was blocked, for how long, and by what.

While one callback runs, nothing else does: no request is answered, and no heartbeat goes to a worker. A thread asks the
loop for a sign again and again. If none comes, it looks at what the loop's thread executes. When one comes, it reports
how long that took: in time, and in processor time of the loop's thread, to which a busy machine adds nothing. Much time
with little processor time means a machine without time to spare, a call that blocks, or another thread that holds the
interpreter's lock.

A stall is measured from the request for a sign, so up to a tick of it is missed; stalls that are shorter by that much
count too.
"""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

_LOG: Final = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

LIMIT_S: Final = 0.1
"""What counts as a stall: a tenth of a heartbeat, and what a person begins to notice."""
_TICK_S: Final = 0.025
_LOG_EVERY_S: Final = 1.0
"""Stalls that come faster are counted, and told with the next one that is logged."""

OTHER: Final = "other"
CONTROL: Final = "control stream"
COLLECTOR: Final = "garbage collector"
_CONTROL_MODULES: Final = (
    "quarterdeck.control.",
    "quarterdeck.core.workcoord.",
    "quarterdeck.crew.coordinator",
    "quarterdeck.crew.driver",
    "quarterdeck.crew.worker",
)

_REQUEST: Final[ContextVar[Scope | None]] = ContextVar("request", default=None)
"""The request for which something is done, also in tasks that were begun for it."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the loop did not turn."""

    route: str
    """For whom: the path of a route with its parameters by name, or one of the words above."""
    duration_s: float
    cpu_s: float
    """Of the loop's thread."""
    gc_s: float
    """In which the garbage collector ran on it."""
    place: str
    """Which code of ours ran, or an empty text."""
    task: str
    """The name of the task, or an empty text."""


@dataclass(frozen=True, slots=True)
class StallFigures:
    """Of one route."""

    count: int = 0
    seconds: float = 0.0


class Watched:
    """Middleware, the outermost: what is done within it is done for this request."""

    def __init__(self, app: ASGIApp, prefixes: Iterable[str] = ()) -> None:
        """`prefixes` of paths are routes of which no framework knows."""
        self._app = app
        self._prefixes = tuple(prefixes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["quarterdeck.prefixes"] = self._prefixes
        token = _REQUEST.set(scope)
        try:
            await self._app(scope, receive, send)
        finally:
            _REQUEST.reset(token)


def for_the_same_request(work: Coroutine[Any, Any, ResultT]) -> Coroutine[Any, Any, ResultT]:
    """For who makes a task of it: the watchdog finds the request in what the task executes."""
    scope = _REQUEST.get()
    return work if scope is None else _for_request(scope, work)


async def _for_request(scope: Scope, work: Coroutine[Any, Any, ResultT]) -> ResultT:  # noqa: ARG001 - read by `_look`
    return await work


_MARKS: Final = frozenset({Watched.__call__.__code__, _for_request.__code__})
"""Code whose `scope` is the request."""


def log_stall(stall: Stall, unlogged: int) -> None:
    _LOG.warning(
        "the event loop stood still for %.3f s (%.3f s of its own processor time, %.3f s of it the garbage collector): "
        "%s%s%s%s",
        stall.duration_s,
        stall.cpu_s,
        stall.gc_s,
        stall.route,
        f" at {stall.place}" if stall.place else "",
        f" in task {stall.task!r}" if stall.task else "",
        f"; {unlogged} more before it" if unlogged else "",
    )


class StallWatch:
    """Use it as a context on the loop that is to be watched."""

    def __init__(
        self,
        on_stall: Callable[[Stall, int], None] = log_stall,
        *,
        limit_s: float = LIMIT_S,
        tick_s: float = _TICK_S,
        log_every_s: float = _LOG_EVERY_S,
    ) -> None:
        """`on_stall` gets a stall and the number of those before it that it was not told of; it is called in a thread,
        and at most once in `log_every_s`."""
        self._on_stall = on_stall
        self._limit_s = limit_s
        self._tick_s = tick_s
        self._log_every_s = log_every_s
        self._figures: dict[str, StallFigures] = {}
        self._stopping = threading.Event()
        self._turned = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch the event loop", daemon=True)
        self._gc_began_s = 0.0
        self._gc_s = 0.0
        self._sign = self._last_sign = _Sign(0.0, 0.0, 0.0)
        self._logged_s = -log_every_s
        self._unlogged = 0

    @property
    def figures(self) -> Mapping[str, StallFigures]:
        """By route."""
        return dict(self._figures)

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._give_sign()
        gc.callbacks.append(self._collecting)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._collecting)
        self._stopping.set()
        self._turned.set()
        self._thread.join()

    # On the loop's thread

    def _give_sign(self) -> None:
        self._last_sign, self._sign = self._sign, _Sign(time.monotonic(), time.thread_time(), self._gc_s)
        self._turned.set()

    def _collecting(self, phase: str, info: dict[str, int]) -> None:  # noqa: ARG002 - as the collector calls it
        if threading.get_ident() != self._loop_thread:
            return
        if phase == "start":
            self._gc_began_s = time.monotonic()
        else:
            self._gc_s += time.monotonic() - self._gc_began_s

    # On the watching one

    def _watch(self) -> None:
        while not self._stopping.wait(self._tick_s):
            self._turned.clear()
            asked_s = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._give_sign)
            except RuntimeError:
                return  # the loop is closed
            if self._turned.wait(self._limit_s - self._tick_s):
                continue
            route, place, task = self._look()
            # Looked at again and again: a loop that ends the watch waits for this thread, and turns no more.
            while not self._turned.wait(self._tick_s):
                if self._stopping.is_set():
                    return
            if self._stopping.is_set():
                return
            before, now = self._last_sign, self._sign
            gc_s, duration_s = now.gc_s - before.gc_s, now.at_s - asked_s
            route = COLLECTOR if gc_s > duration_s / 2 else route
            self._tell(Stall(route, duration_s, now.cpu_s - before.cpu_s, gc_s, place, task))

    def _look(self) -> tuple[str, str, str]:
        """The route, the place and the task that the loop's thread is busy with."""
        frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - there is no other way
        frame: FrameType | None = frames.get(self._loop_thread)
        route, place, is_control = "", "", False
        while frame is not None:
            module = str(frame.f_globals.get("__name__", ""))
            if not place and module.startswith("quarterdeck."):
                place = f"{module}.{frame.f_code.co_name}:{frame.f_lineno}"
            is_control = is_control or module.startswith(_CONTROL_MODULES)
            if frame.f_code in _MARKS:
                route = route_of(frame.f_locals["scope"])
            frame = frame.f_back
        try:
            task = asyncio.current_task(self._loop)
        except RuntimeError:
            task = None
        return route or (CONTROL if is_control else OTHER), place, "" if task is None else task.get_name()

    def _tell(self, stall: Stall) -> None:
        before = self._figures.get(stall.route, StallFigures())
        self._figures[stall.route] = StallFigures(before.count + 1, before.seconds + stall.duration_s)
        if time.monotonic() - self._logged_s < self._log_every_s:
            self._unlogged += 1
            return
        self._logged_s = time.monotonic()
        unlogged, self._unlogged = self._unlogged, 0
        self._on_stall(stall, unlogged)


@dataclass(frozen=True, slots=True)
class _Sign:
    """When the loop turned, and what its thread had done until then."""

    at_s: float
    cpu_s: float
    gc_s: float


def route_of(scope: Mapping[str, Any]) -> str:
    """The path of the route with its parameters by name: there are only so many of them, whatever clients ask for.

    >>> route_of({"path": "/nothing/here"})
    'other'
    """
    template = getattr(scope.get("route"), "path", None)
    if isinstance(template, str):
        return template
    path, prefixes = str(scope["path"]), scope.get("quarterdeck.prefixes", ())
    return next((prefix for prefix in prefixes if path.startswith(prefix)), OTHER)
