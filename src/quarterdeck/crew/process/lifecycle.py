"""How a process of the crew begins and ends: its event loop, the signals that stop it, and an end that cannot hang.

The first SIGTERM or SIGINT asks it to stop in order, the second to stop at once. Whatever an orderly stop does, it is
over after a set time: then a thread that is not part of the event loop ends the process. That counts to the very end: a
thread that does not end would hold up the interpreter when the event loop is long gone.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from quarterdeck.crew.process.library_code import let_go_of_library_code
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

EXIT_HURRIED: Final = 130
"""A second signal ended it before it had stopped in order, as a shell says of a process that was interrupted."""
_HURRY_S: Final = 5.0
"""How long a process that is to stop at once may take for it."""
EXIT_FORCED: Final = 70
"""As sysexits(3) has it for an error inside: an orderly stop hung."""

_LAST_WORDS_S: Final = 1.0
"""How long it may take to log that the end is by force: what hangs may be whoever should read the log."""

_MOST_FILES: Final = 1 << 20
"""More than one process serves, and what Linux allows by default."""

_GC_THRESHOLDS: Final = (50_000, 20, 100)
"""A full collection with a hundred thousand works alive takes 150 ms, and next to nothing here is a garbage cycle."""


class StopSignals:
    """Use it as a context on a running loop. A lifeline is a pipe that somebody else holds the other end of: when that
    is gone, the process is to stop too."""

    def __init__(self, lifeline: int | None = None) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self._lifeline = lifeline

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._came, number)
        if self._lifeline is not None:
            loop.add_reader(self._lifeline, self._cut_loose)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        if self._lifeline is not None:
            loop.remove_reader(self._lifeline)

    def _cut_loose(self) -> None:
        if self._lifeline is not None and not os.read(self._lifeline, 1):
            asyncio.get_running_loop().remove_reader(self._lifeline)
            _log.info("whoever started this process is gone")
            self.first.set()

    def _came(self, number: signal.Signals) -> None:
        _log.info("signal", signal=number.name, again=self.first.is_set())
        (self.second if self.first.is_set() else self.first).set()


class ForcedEnd:
    """Ends the process when an orderly stop takes too long: `arm` it when that begins. Armed, it holds nothing up."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def arm(self, after_s: float) -> None:
        """From now on so long; the last call counts."""
        self.disarm()
        self._timer = threading.Timer(after_s, _end_now, (after_s,))
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """For a process that does not end after all; again is fine."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None


def _end_now(after_s: float) -> None:
    try:
        saying = threading.Thread(target=_say_last_words, args=(after_s,), daemon=True)
        saying.start()
        saying.join(_LAST_WORDS_S)
    finally:
        os._exit(EXIT_FORCED)


def _say_last_words(after_s: float) -> None:
    _log.error("the process is ended by force: its orderly stop took too long", after_s=after_s)


def run_process(main: Callable[[StopSignals, ForcedEnd], Coroutine[Any, Any, int]], lifeline: int | None = None) -> int:
    """Runs the process to its end and returns its exit code. What follows is nothing but the interpreter's own end: a
    forced end that `main` has armed stays so."""

    async def live() -> int:
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.freeze()  # what was loaded until now is no garbage: to look at it takes longer than at all that follows
        raise_file_limit()
        with StopSignals(lifeline) as signals:
            return await _until_told_twice(main(signals, ForcedEnd()), signals)

    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            return runner.run(live())
    finally:
        gc.unfreeze()  # else whatever counts its objects at the end takes them for leaked


async def _until_told_twice(main: Coroutine[Any, Any, int], signals: StopSignals) -> int:
    """Its exit code. A second signal ends it at once, also while it starts and does not look at signals."""
    running = asyncio.create_task(main, name="process")
    second = asyncio.create_task(signals.second.wait(), name="second signal")
    await asyncio.wait((running, second), return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        await asyncio.wait((running,), timeout=_HURRY_S)
    await end_task(second)
    if running.done():
        return running.result()
    ForcedEnd().arm(_HURRY_S)
    await end_task(running)
    return EXIT_HURRIED


def raise_file_limit() -> None:
    """Lets the process open as many files as its system allows. Many systems begin with 1,024, for programs that cannot
    cope with more; a recruiter of 5,000 workers has as many connections."""
    if sys.platform == "win32":
        return  # which has no such limit
    import resource  # noqa: PLC0415 - not there on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def leave(code: int) -> NoReturn:
    """Ends the process, everything of it being closed. The interpreter's own teardown takes a fifth of a second, and
    libraries that keep objects for ever (FastAPI's caches do) make others complain of leaks there."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


async def end_task(task: "asyncio.Task[Any]") -> None:
    """Cancels it and waits until it has ended."""
    task.cancel()
    await asyncio.wait((task,))


def stop_if_broken(task: "asyncio.Task[Any]", signals: StopSignals) -> None:
    """For a task without which the process is of no use: when it breaks, the process is to stop in order."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("the process stops: a part of it broke", part=task.get_name(), error=repr(error))
        signals.first.set()


def settle_memory() -> None:
    """For a process that is ready. What is alive then stays alive: the garbage collector need not look at it again.
    Code that only the start has touched goes."""
    gc.collect()
    gc.freeze()
    let_go_of_library_code()


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415 - not there on every system

    return uvloop.new_event_loop()
