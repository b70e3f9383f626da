"""Work in a thread, for which `asyncio.to_thread` will not do.

That returns at once when it is canceled, and the thread goes on with what is being cleaned up meanwhile. `in_thread`
feels a cancel when the function has ended: whoever cleans up then knows that no thread still uses what is cleaned up.
For what is long and cannot be told to stop, there is `in_loose_thread`.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, TypeVar, cast

from quarterdeck.core.tracebacks import with_empty_frames

ResultT = TypeVar("ResultT")

_CANCEL_INTERVAL_S: Final = 0.01
"""How often a running function is told to end again: an interrupt that comes a moment too early is lost."""


async def in_thread(
    function: Callable[[], ResultT],
    pool: concurrent.futures.Executor | None = None,
    on_cancel: Callable[[], None] | None = None,
    undo: Callable[[ResultT], None] | None = None,
    *,
    may_be_skipped: bool = False,
) -> ResultT:
    """Runs it in a thread, of this pool if there is one, and in the context of the caller. Canceled, it waits for the
    function to end before it passes the cancel on.

    `on_cancel` tells the function to end soon; it is called again and again until that has happened. A result that
    comes too late is lost, or given to `undo`. A function that cleans up has to run; one that `may_be_skipped` does not
    if the cancel comes before it has begun. What the function raises holds nothing of what it had in hand.
    """
    begun = threading.Lock()

    def run() -> ResultT:
        if not begun.acquire(blocking=False):
            return cast(ResultT, None)  # canceled before it began: nobody waits
        return with_empty_frames(function)

    running = asyncio.get_running_loop().run_in_executor(pool, copy_context().run, run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not may_be_skipped or not begun.acquire(blocking=False):
            await _end_of(running, on_cancel)
            # A failure has been seen: what was canceled may fail, and nobody waits to hear of it.
            if not running.cancelled() and running.exception() is None and undo is not None:
                undo(running.result())
        raise
    finally:
        del running  # it has the error, whose traceback has this frame: only the garbage collector would end that


async def in_loose_thread(work: Callable[[], ResultT]) -> ResultT:
    """Runs it in a thread that blocks nobody: neither a caller that is canceled meanwhile, nor the end of the loop."""
    future = concurrent.futures.Future[ResultT]()

    def do() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            future.set_exception(error)

    threading.Thread(target=do, name="loose", daemon=True).start()
    return await asyncio.wrap_future(future)


async def wait_for_end(future: "asyncio.Future[Any]") -> None:
    """Waits until it has ended, however; a cancel of the waiting is raised after that."""
    canceled = await _end_of(future)
    if canceled is not None:
        if not future.cancelled():
            future.exception()  # marks it as seen: a canceled caller has no use for it
        raise canceled


async def _end_of(
    future: "asyncio.Future[Any]", nudge: Callable[[], None] | None = None
) -> asyncio.CancelledError | None:
    """Waits whatever comes; the last cancel that came meanwhile."""
    canceled: asyncio.CancelledError | None = None
    while not future.done():
        if nudge is not None:
            nudge()
        try:
            await asyncio.wait((future,), timeout=None if nudge is None else _CANCEL_INTERVAL_S)
        except asyncio.CancelledError as error:
            canceled = error
    return canceled
