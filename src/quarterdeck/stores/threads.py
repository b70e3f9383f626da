"""Work in a thread that somebody on the event loop waits for to its end, canceled or not.

`asyncio.to_thread` returns at once when it is canceled, and the thread goes on with files that are being cleaned up
meanwhile. Here a cancel is felt when the thread has finished; so what is given to it must be short.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def finish_in_thread(work: Callable[[], ResultT], undo: Callable[[ResultT], None] | None = None) -> ResultT:
    """Does it. When canceled meanwhile, undoes what came of it."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        await wait_for_end(future)
    except asyncio.CancelledError:
        if undo is not None and not future.cancelled() and future.exception() is None:
            undo(future.result())
        raise
    return future.result()


async def wait_for_end(future: "asyncio.Future[Any]") -> None:
    """Waits until it has ended, however; a cancel of the waiting is raised after that."""
    canceled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            canceled = error
    if canceled is not None:
        if not future.cancelled():
            future.exception()  # it has been seen: whoever is canceled has no use for it
        raise canceled
