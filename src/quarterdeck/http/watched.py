"""An answer that is made while its client is there, and counted while it is open.

A client that disconnects cancels what is done for it. A process that is on its way out waits for the open answers.
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from quarterdeck.http.clientgone import ClientGoneError, run_while_connected


class OpenAnswers:
    """How many are being sent; what was done for them may have ended already."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def one(self) -> Generator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


class WatchedResponse(Response):
    """A base: `respond` makes and sends the answer."""

    def __init__(self, answers: OpenAnswers | None = None, media_type: str | None = None) -> None:
        super().__init__(media_type=media_type)
        self._answers = answers or OpenAnswers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._answers.one(), suppress(ClientGoneError):  # a client that has disconnected need not be told
            await run_while_connected(receive, self.respond(scope, receive, send))

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Canceled when the client disconnects. An error before the first byte is reported by the application."""
        raise NotImplementedError
