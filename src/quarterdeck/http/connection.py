"""One HTTP connection: uvicorn's protocol over httptools, with the limits on the head of a request that it has not.

httptools takes a head of any size, and uvicorn waits for the rest of one for ever: both let a stranger use up memory or
descriptors. It also keeps the `Date` header current without a task that ticks.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.errors import rendered


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one connection may ask of the server."""

    head_bytes: int = 64 * 1024
    """Of the request line and headers together. Lower refuses long queries in the URL; higher costs memory."""
    head_timeout_s: float = 10.0
    """From the first byte of a head, or from the connection's beginning, to the end of the head."""
    keep_alive_s: int = 75
    """How long a connection may be idle between requests. Longer than our client keeps its own (15 s), so that it
    closes first and none sends a request into a connection that is just being closed."""


class HeadTooLargeError(Exception):
    """Breaks off the parser; never seen outside."""


class HttpConnection(HttpToolsProtocol):
    def __init__(self, config: Config, state: ServerState, limits: HttpLimits, on_closed: Callable[[], None]) -> None:
        super().__init__(config, state, app_state={})
        self._limits = limits
        self._on_closed = on_closed
        self._in_head = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._is_head_too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._arm_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._disarm_head_timer()
        self._unset_keepalive_if_required()  # uvicorn leaves it armed when the connection broke
        self._on_closed()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > self._limits.head_bytes:
            self._is_head_too_large = True
            self.send_400_response("")
        elif self._head_timer is None:
            self._arm_head_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm_head_timer()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self._limits.head_bytes:
            self._is_head_too_large = True
            raise HeadTooLargeError
        self.server_state.default_headers = [(b"date", _http_date(int(time.time())))]
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words, of which there is one for all
        """What uvicorn calls when the parser gives up."""
        if self._is_head_too_large:
            limit = self._limits.head_bytes
            status, why = 431, f"its request line and headers are longer than {limit} bytes"
        else:
            status, why = 400, "it is not HTTP/1.1"
        body = rendered(
            QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "the request was not read", why, "send a proper one")
        )
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode("ascii") + body)
        self.transport.close()

    def _arm_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_timeout_s, self.transport.close)

    def _disarm_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


@lru_cache(maxsize=1)
def _http_date(at_s: int) -> bytes:
    return formatdate(at_s, usegmt=True).encode("ascii")
