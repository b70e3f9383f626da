"""Calls to file systems, which may hang: each call has a deadline, and each file system has a limited number of threads
of its own.

Rules: a caller gets an answer in time, if only an error that names the path. A thread cannot be stopped: one that hangs
stays until the file system answers. It is reported (`hanging`), and does not keep the process from ending. If all
threads of a file system hang, calls to it are refused at once, and calls to others go on.

If the caller leaves, its call goes on alone. So a call must hold nothing that somebody else cleans up.
"""

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.stores.mounts import Mounts
from quarterdeck.stores.object_errors import all_hang, hangs, too_busy
from quarterdeck.stores.threads import wait_for_end

ResultT = TypeVar("ResultT")

THREADS: Final = 16
"""Of one file system. More fill a disk that likes many requests; fewer are left behind when it hangs."""
_IDLE_S: Final = 0.1
"""How long a thread waits for the next call; to start one takes a tenth of a millisecond."""
SLOWEST_BYTES_PER_S: Final = 1024 * 1024
"""A call that moves many bytes has a second more for each of these."""
_NAMED_MAX: Final = 3
_WAITING_MAX: Final = 10_000
"""Calls that wait for a thread of one file system; a disk that is well does as many within a second."""


class _Call:
    """One call. The thread that does it and the loop that waits for it share nothing but this."""

    def __init__(self, path: str, work: Callable[[], Any], allowed_s: float) -> None:
        self.path: Final = path
        self.allowed_s: Final = allowed_s
        self.loop: Final = asyncio.get_running_loop()
        self.future: Final[asyncio.Future[Any]] = self.loop.create_future()
        self.began_s: float | None = None
        self.is_left = False
        self._work: Final = work

    def do(self) -> None:
        result, error = None, None
        try:
            result = self._work()
        except BaseException as caught:  # noqa: BLE001 - it is raised where somebody waits
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self.loop.call_soon_threadsafe(self._tell, result, error)

    def _tell(self, result: object, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class _Lane:
    """The threads of one file system. One lock guards all of it: who takes a call is not idle in the same moment, so
    that each call that waits has a thread that is idle or begins, or all there may be are busy."""

    def __init__(self, name: str, threads_max: int, clock: Callable[[], float]) -> None:
        self.name: Final = name
        self._threads_max: Final = threads_max
        self._clock: Final = clock
        self._changed: Final = threading.Condition()
        self._waiting: Final[deque[_Call]] = deque()
        self._running: Final[set[_Call]] = set()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, call: _Call) -> None:
        with self._changed:
            if len(self._running) >= self._threads_max and len(self._overdue()) >= self._threads_max:
                raise all_hang(call.path, self.name, len(self._running))
            if len(self._waiting) >= _WAITING_MAX:
                raise too_busy(call.path, self.name, _WAITING_MAX)
            if self._idle <= len(self._waiting) and self._threads < self._threads_max:
                threading.Thread(target=self._serve, name=f"store {self.name}", daemon=True).start()
                self._threads += 1
            self._waiting.append(call)
            self._changed.notify()

    def hanging(self) -> list[_Call]:
        with self._changed:
            return self._overdue()

    def close(self) -> None:
        """Threads end when they have nothing to do."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _overdue(self) -> list[_Call]:
        now_s = self._clock()
        return [call for call in self._running if call.began_s is not None and now_s - call.began_s >= call.allowed_s]

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            try:
                call.do()
            finally:
                with self._changed:
                    self._running.discard(call)
            del call  # what it brought is not this thread's to keep

    def _next(self) -> _Call | None:
        """None: this thread is not needed any more."""
        with self._changed:
            while (call := self._first()) is None and not self._closed:
                self._idle += 1
                in_time = self._changed.wait(_IDLE_S)
                self._idle -= 1
                if not in_time and not self._waiting:
                    break
            if call is None:
                self._threads -= 1
            return call

    def _first(self) -> _Call | None:
        """It runs from now on. Those that nobody waits for any more are passed over."""
        while self._waiting:
            call = self._waiting.popleft()
            if not call.is_left:
                call.began_s = self._clock()
                self._running.add(call)
                return call
        return None


class StoreCalls:
    """See the module. Any loop may use it, one at a time."""

    def __init__(
        self,
        timeout_s: float,
        *,
        threads: int = THREADS,
        mounts: Mounts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeout_s = timeout_s
        """Of calls that begin from now on."""
        self.timed_out = 0
        """Calls whose caller was told that they took too long."""
        self._threads: Final = threads
        self._clock: Final = clock
        self._mounts: Final = mounts or Mounts()
        self._lanes: Final[dict[str, _Lane]] = {}
        weakref.finalize(self, _close_all, self._lanes).atexit = False

    async def run(
        self, path: str, work: Callable[[], ResultT], *, moved_bytes: int = 0, finish: bool = False
    ) -> ResultT:
        """Does it in a thread of the path's file system. Raises what it raises, or that it takes too long. With
        `finish`, a cancel is felt when it has ended."""
        allowed_s = self.timeout_s + moved_bytes // SLOWEST_BYTES_PER_S
        call = _Call(path, work, allowed_s)
        lane = self._lane(path)
        lane.submit(call)
        timer = call.loop.call_later(allowed_s, self._expire, call, lane)
        try:
            if finish:
                await wait_for_end(call.future)
            return await call.future
        finally:
            timer.cancel()
            call.is_left = True

    def by_mount(self, paths: Iterable[str]) -> list[list[str]]:
        """The paths, those together that are on one file system, each once."""
        groups: dict[str, dict[str, None]] = {}
        for path in paths:
            groups.setdefault(self._mounts.of(path), {})[path] = None
        return [list(group) for group in groups.values()]

    def mount_points(self) -> frozenset[str]:
        """Where file systems are mounted, each of which has threads of its own."""
        return self._mounts.points()

    def hanging(self) -> list[tuple[str, float]]:
        """Paths of calls that have not come back in time, and for how many seconds they have been under way, the
        longest first."""
        now_s = self._clock()
        calls = [call for lane in list(self._lanes.values()) for call in lane.hanging()]
        return sorted(
            ((call.path, now_s - (call.began_s or now_s)) for call in calls), key=lambda each: each[1], reverse=True
        )

    def trouble(self) -> list[str]:
        """What is wrong, for the readiness of the process: nothing, or one sentence."""
        hanging = self.hanging()
        if not hanging:
            return []
        shown = ", ".join(f"{path} for {seconds:.0f} s" for path, seconds in hanging[:_NAMED_MAX])
        more = f" and {len(hanging) - _NAMED_MAX} more" if len(hanging) > _NAMED_MAX else ""
        count = (
            "1 call to the object store hangs"
            if len(hanging) == 1
            else f"{len(hanging)} calls to the object store hang"
        )
        return [f"{count}: {shown}{more}"]

    def _lane(self, path: str) -> _Lane:
        name = self._mounts.of(path)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(name, self._threads, self._clock)
        return lane

    def _expire(self, call: _Call, lane: _Lane) -> None:
        if not call.future.done():
            self.timed_out += 1
            call.future.set_exception(self._late(call, lane))

    def _late(self, call: _Call, lane: _Lane) -> QuarterdeckError:
        return hangs(call.path, call.allowed_s, None if call.began_s is not None else lane.name)


def _close_all(lanes: dict[str, _Lane]) -> None:
    for lane in lanes.values():
        lane.close()
