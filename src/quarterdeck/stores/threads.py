"""Work in a thread, for which `asyncio.to_thread` will not do.

That returns at once when it is canceled, and the thread goes on with files that are being cleaned up meanwhile; and the
end of the loop waits for the thread. `finish_in_thread` feels a cancel when the thread has finished; so what is given
to it must be short. For what is long and cannot be told to stop, there is `in_loose_thread`.
"""

import asyncio
import concurrent.futures
import threading
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


async def in_loose_thread(work: Callable[[], ResultT]) -> ResultT:
    """Does it in a thread that holds up nobody: neither whoever is canceled meanwhile, nor the end of the loop."""
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
