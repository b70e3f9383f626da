"""Stops work whose client has disconnected.

A server does not tell a plain handler that its client closed the connection: the handler would run to its end for
nobody. The one sign is `http.disconnect` from `receive()`, so somebody has to keep listening there.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.stalls import for_the_same_request

ResultT = TypeVar("ResultT")


class ClientGoneError(QuarterdeckError):
    """The client closed its connection; what was done for it has stopped."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.CANCELED,
            "the request was given up",
            "the client closed its connection",
            "ask again and keep the connection open until the answer is there",
        )
        self.args = ()  # from which copy and pickle make it anew


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of `work`; when the client goes first, `work` is canceled and `ClientGoneError` raised.

    The body of the request has to be read before: what comes of it here is lost. Either way `work` has ended when this
    returns, however long it takes to clean up.
    """
    working = asyncio.create_task(for_the_same_request(work), name="work for a client")
    watching = asyncio.create_task(_wait_gone(receive), name="watch for a client that goes")
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        watching.result()  # a server whose receive() breaks is not a client that has gone
        raise ClientGoneError
    finally:
        await _end(working, watching)


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen; the caller has something more important to raise, or raises this very one
