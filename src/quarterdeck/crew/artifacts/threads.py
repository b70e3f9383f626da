"""Blocking work away from the event loop, that is over when the wait for it is over."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from quarterdeck.core.tracebacks import with_empty_frames

T = TypeVar("T")


async def in_thread(
    function: Callable[[], T],
    pool: Executor | None = None,
    on_cancel: Callable[[], None] | None = None,
) -> T:
    """Runs it in a thread, of this pool if there is one. Canceled, it waits for the function to end before it passes
    the cancel on: whoever cleans up then knows that no thread still uses what is cleaned up. A result that comes too
    late is lost, so a function that acquires something keeps it where the one who cleans up finds it. `on_cancel` may
    tell the function to end soon. What it raises holds nothing of what the function had in hand."""
    running = asyncio.get_running_loop().run_in_executor(pool, partial(with_empty_frames, function))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        while not running.done():
            with suppress(asyncio.CancelledError):  # a second cancel changes nothing: the first is passed on below
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # seen: what was canceled may fail, and nobody waits to hear of it
        raise
    finally:
        del running  # it has the error, whose traceback has this frame: only the garbage collector would end that
