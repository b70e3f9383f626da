"""An HTTP server on the running loop: it starts when told, ends when told, and leaves nothing behind.

uvicorn reads and writes the protocol. Listening and stopping are done here, because uvicorn's own server is made to be
the whole process: it takes the signals, exits when a port is busy, and polls while it stops. Any number of these
servers live on one loop.
"""

import asyncio
import logging
import ssl as tls
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from quarterdeck.http.connection import HttpConnection, HttpLimits, HttpRoom
from quarterdeck.http.errors import AnswerCutOffError
from quarterdeck.http.listener import Listener, at_port, open_listener

_LOG: Final = logging.getLogger(__name__)
_CLEANUP_S: Final = 5.0
"""How long requests that were canceled may take to clean up."""
_NOT_HTTP: Final = "Invalid HTTP request received."
"""uvicorn's words."""


def _is_news(record: logging.LogRecord) -> bool:
    """uvicorn logs whatever an application raises. But an answer that had to be cut off was logged already. uvicorn
    also logs each request that is not HTTP: its sender was told, and could fill the disk with such records."""
    if record.msg == _NOT_HTTP:
        return False
    return record.exc_info is None or not isinstance(record.exc_info[1], AnswerCutOffError)


logging.getLogger("uvicorn.error").addFilter(_is_news)


class HttpServer:
    """Serves an ASGI application. There is no lifespan: whoever starts the server has prepared what the application
    needs."""

    def __init__(
        self, app: ASGIApp, host: str, port: int, ssl: tls.SSLContext | None = None, limits: HttpLimits | None = None
    ) -> None:
        self._app = app
        self._host = host
        self._asked_port = port
        self._ssl = ssl
        limits = limits or HttpLimits()
        self.room: Final = HttpRoom.of(limits)
        """What its connections share, and what they were refused."""
        self._listener: Listener | None = None
        self._is_serving = False
        self._bound_port = 0
        self._state = ServerState()
        self._connection_closed = asyncio.Event()
        self._is_cutting = False
        self._config = Config(
            self._run,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            workers=1,
            timeout_keep_alive=limits.keep_alive_s,
        )
        self._config.load()

    @property
    def port(self) -> int:
        """The port it is bound to; known once it has started, and after it has stopped."""
        return self._bound_port

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl else 'http'}://{at_port(self._host, self._bound_port)}"

    @property
    def failed_handshakes(self) -> int:
        """Connections that were not made, mostly for want of a TLS handshake; still known after the stop."""
        return 0 if self._listener is None else self._listener.failed_handshakes

    @property
    def open_requests(self) -> int:
        """Requests that have not been answered yet."""
        return len(self._state.tasks)

    async def start(self) -> None:
        """Bind and serve. When this returns, clients can connect."""
        assert not self._is_serving, "the server has started already"
        self._listener = await open_listener(self._host, self._asked_port, self.room.table)
        self._is_serving = True
        self._bound_port = self._listener.port
        self._listener.accept(self._make_connection, self._ssl)

    async def stop(self, timeout_s: float) -> int:
        """Refuse new connections, let running requests finish for `timeout_s`, then cut them off; say how many were.

        Idle connections are closed at once, and so are those whose request has not arrived whole. Again is fine.
        """
        if self._listener is None or not self._is_serving:
            return 0
        self._is_serving = False
        await self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_idle()
        except TimeoutError:
            return await self._cut()
        return 0

    async def _wait_idle(self) -> None:
        while self._state.connections or self._state.tasks:
            if self._state.tasks:
                await asyncio.wait(self._state.tasks)
            else:
                await self._wait_connection_closed()

    async def _wait_connection_closed(self) -> None:
        self._connection_closed.clear()
        await self._connection_closed.wait()

    async def _cut(self) -> int:
        self._is_cutting = True
        cut = len(self._state.tasks)
        for connection in list(self._state.connections):
            connection.transport.abort()
        try:
            async with asyncio.timeout(_CLEANUP_S):
                while self._state.connections:  # an aborted connection is gone a turn or two of the loop later
                    await self._wait_connection_closed()
                for task in self._state.tasks:
                    task.cancel()
                await self._wait_idle()
        except TimeoutError:
            _LOG.error("requests that do not end although they were canceled: %s", self._state.tasks)
        return cut

    def _make_connection(self) -> HttpConnection:
        return HttpConnection(self._config, self._state, self.room, self._connection_closed.set)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._is_cutting:
                raise
            # We did this, and the client's connection is gone: uvicorn need not log it as an error.
