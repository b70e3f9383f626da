"""One HTTP connection: uvicorn's protocol over httptools, with limits that it lacks.

httptools accepts a head of any size. uvicorn waits for the rest of a request for ever, holds any number of requests
that were sent ahead, and keeps what a client does not read. Each of these lets a stranger use up memory or descriptors.
This module also keeps the `Date` header current without a task that ticks.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import Final

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.body_budget import BodyBudget
from quarterdeck.http.connections import ConnectionTable, address_of
from quarterdeck.http.error_documents import rendered
from quarterdeck.http.turns import Turns

_SENT_AHEAD: Final = 16
"""Requests that may wait on a connection while another one is answered. Programs that send any ahead are rare."""
_FRAMING: Final = 8
"""A body in chunks may be so many times as long as what is in them; a chunk of one byte takes six."""
_GOODBYE_S: Final = 5.0
"""How long a client may take to read the last of an answer on a connection that is to be closed."""
_RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What clients may ask of the server, each connection for itself and all together."""

    head_bytes: int = 64 * 1024
    """Of the request line and headers together. Lower refuses long queries in the URL; higher costs memory."""
    headers: int = 128
    """Of a request. Browsers and proxies send some thirty."""
    header_bytes: int = 16 * 1024
    """Of one header's value. Some are lists that a handler takes apart."""
    head_timeout_s: float = 10.0
    """From the first byte of a head, or from the connection's beginning, to the end of the head."""
    body_stall_s: float = 10.0
    """How long a body that is not complete may make no progress."""
    body_timeout_s: float = 60.0
    """From the end of a head to the end of its body. Lower refuses slow networks; higher lets slow clients hold on."""
    unread_timeout_s: float = 900.0
    """How long a client may read nothing of an answer that waits for it. A person who pages through an answer also
    stops reading. Meanwhile the query, its results and its place in line are held."""
    keep_alive_s: int = 75
    """How long a connection may be idle between requests. Longer than our client keeps its own (15 s), so that it
    closes first and none sends a request into a connection that is just being closed."""
    connections: int = 10_000
    """That are open at once."""
    connections_of_address: int = 256
    """That wait for their client, of one address, or of one network of 64 bits of IPv6. Those that are being answered
    do not count."""
    bodies_bytes: int = 64 * 1024 * 1024
    """The bodies of all requests that are not answered yet, beyond the first few KiB of each."""


@dataclass(slots=True)
class HttpRoom:
    """What the connections of one server share."""

    limits: HttpLimits
    table: ConnectionTable
    bodies: BodyBudget
    turns: Turns
    slow: int = 0
    """Connections that were closed because their client was too slow."""

    @classmethod
    def of(cls, limits: HttpLimits) -> "HttpRoom":
        table = ConnectionTable(limits.connections, limits.connections_of_address, time.monotonic)
        return cls(limits, table, BodyBudget(limits.bodies_bytes), Turns())


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a request is not read any further."""

    status: int
    code: ErrorCode
    why: str
    next_step: str = "send a proper one"


_NOT_HTTP: Final = _Refusal(400, ErrorCode.INVALID_ARGUMENT, "it is not HTTP/1.1")


class RefusedRequestError(Exception):
    """Breaks off the parser; never seen outside."""


class HttpConnection(HttpToolsProtocol):
    def __init__(self, config: Config, state: ServerState, room: HttpRoom, on_closed: Callable[[], None]) -> None:
        super().__init__(config, state, app_state={})
        self.address = ""
        """The client's."""
        self._room = room
        self._limits = room.limits
        self._on_closed = on_closed
        self._refusal = _NOT_HTTP
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; uvicorn only knows the last that has come."""
        self._in_head = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_bytes = 0
        self._sent_bytes = 0
        """Of the request whose body comes: its content, and with what frames it."""
        self._body_timer: asyncio.TimerHandle | None = None
        self._body_deadline_s = 0.0
        self._last_byte_s = 0.0
        self._held_bodies: list[int] = []
        """How much of the budget the bodies take that were not answered yet."""
        self._unread_timer: asyncio.TimerHandle | None = None
        self._goodbye_timer: asyncio.TimerHandle | None = None

    # A connection's life

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.address = address_of(self.client)
        self._room.table.opened(self)
        self._arm_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        self.pipeline.clear()
        self._disarm_head_timer()
        self._disarm_body_timer()
        for timer in (self._unread_timer, self._goodbye_timer):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()  # uvicorn leaves it armed when the connection broke
        self._give_back_bodies()
        self._room.table.closed(self)
        self._on_closed()

    def hang_up(self) -> None:
        """Ends the connection, soon also when its client reads nothing more."""
        if not self.transport.is_closing():
            self.transport.close()
        if self._goodbye_timer is None and self.transport.get_write_buffer_size():
            self._goodbye_timer = self.loop.call_later(_GOODBYE_S, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_last_words()

    # What comes

    def data_received(self, data: bytes) -> None:
        self._last_byte_s = self.loop.time()
        had_begun = self._in_head or self._in_body
        super().data_received(data)
        if not self._in_head and not self._in_body:  # whole requests and no more, as nearly always
            self._keep_waiting(had_begun)
            return
        self._room.table.is_asking(self)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(self._head_too_large())
            elif self._head_timer is None:
                self._arm_head_timer()
        elif self._in_body:
            self._sent_bytes += len(data)
            if self._sent_bytes > self._limits.head_bytes + _FRAMING * self._body_bytes:
                self._refuse(_Refusal(400, ErrorCode.INVALID_ARGUMENT, "its body is more frame than content"))
            elif self._body_timer is None:
                self._look_at_body_later()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers come here too: nobody has judged them, and they are not headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm_head_timer()
        self._check_head()
        if len(self.pipeline) >= _SENT_AHEAD:
            self._break_off(
                _Refusal(400, ErrorCode.INVALID_ARGUMENT, f"more than {_SENT_AHEAD} others were sent ahead")
            )
        self.server_state.default_headers = [(b"date", _http_date(int(time.time())))]
        super().on_headers_complete()
        self._in_body = True
        self._body_bytes = self._sent_bytes = 0
        self._body_deadline_s = self.loop.time() + self._limits.body_timeout_s

    def _check_head(self) -> None:
        limits, total_bytes = self._limits, len(self.url)
        for name, value in self.headers:
            total_bytes += len(name) + len(value)
            if len(value) > limits.header_bytes:
                why = f"one of its headers is longer than {limits.header_bytes} bytes"
                self._break_off(_Refusal(431, ErrorCode.INVALID_ARGUMENT, why))
        if total_bytes > limits.head_bytes:
            self._break_off(self._head_too_large())
        if len(self.headers) > limits.headers:
            why = f"it has more than {limits.headers} headers"
            self._break_off(_Refusal(431, ErrorCode.INVALID_ARGUMENT, why))

    def on_body(self, body: bytes) -> None:
        if not self.cycle.response_complete:
            if not self._room.bodies.take(self._body_bytes, len(body)):
                self._break_off(
                    _Refusal(
                        503,
                        ErrorCode.UNAVAILABLE,
                        f"the bodies of all requests together take {self._limits.bodies_bytes:,} bytes, which is the "
                        "most (http_bodies_max_bytes)",
                        f"send it again in {_RETRY_S} s",
                    )
                )
            if not self._body_bytes:
                self._held_bodies.append(0)
            self._held_bodies[-1] += len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._disarm_body_timer()
        if self.cycle.response_complete:
            self._room.table.waits(self)
        else:
            self._room.table.is_answered(self)
        super().on_message_complete()

    def _keep_waiting(self, had_begun: bool) -> None:
        """uvicorn stops waiting for the next request as soon as anything comes: also the rest of a body that was
        answered before, or line ends, of which any number may precede a request."""
        if self.timeout_keep_alive_task is not None or self._head_timer is not None:
            return  # as it is before the first request
        if not self.cycle.response_complete or self.transport.is_closing():
            return
        if had_begun:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            self._arm_head_timer()

    def _unsupported_upgrade_warning(self) -> None:
        """A client that asks for another protocol gets this one. That is not worth a log record, and no reason to
        install anything."""

    # What goes

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        self._room.turns.begin(lambda: self._answer(cycle, app))

    def _answer(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if not cycle.disconnected:  # while it waited for its turn
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._give_back_bodies()
            if not self._in_body:
                self._room.table.waits(self, is_idle=not self._in_head)
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_last_words()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_timer is None:
            self._look_whether_read_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread_timer is not None and not self.transport.is_closing():
            self._unread_timer.cancel()
            self._unread_timer = None

    def _watch_last_words(self) -> None:
        """A connection that is being closed is gone when its client has read the rest, and not before."""
        if self._unread_timer is None and self.transport.get_write_buffer_size():
            self._look_whether_read_later()

    def _look_whether_read_later(self) -> None:
        left_bytes = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self._limits.unread_timeout_s, self._look_whether_read, left_bytes)

    def _look_whether_read(self, before_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < before_bytes:
            self._look_whether_read_later()
            return
        self._room.slow += 1
        self.transport.abort()

    # Clients that are too slow, or ask too much

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words, of which there is one for all
        """What uvicorn calls when the parser gives up."""
        self._refuse(self._refusal)

    def _break_off(self, refusal: _Refusal) -> None:
        """From within the parser."""
        self._refusal = refusal
        raise RefusedRequestError

    def _refuse(self, refusal: _Refusal) -> None:
        """Tells why, unless another answer has begun or is still to come, and ends the connection."""
        is_begun = self._in_body and self.cycle.response_started
        running = self._running
        is_second = running is not None and not running.response_complete and not self._in_body
        if not is_begun and not is_second and not self.pipeline:
            error = QuarterdeckError(refusal.code, "the request was not read", refusal.why, refusal.next_step)
            body = rendered(error)
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
            if error.retryable:
                head += f"retry-after: {_RETRY_S}\r\n"
            self.transport.write(STATUS_LINE[refusal.status] + head.encode("ascii") + b"\r\n" + body)
        if self._in_body:
            self.cycle.disconnected = True  # tells the reader of the body at once that nothing more comes
            self.cycle.message_event.set()
        self.hang_up()

    def _head_too_large(self) -> _Refusal:
        why = f"its request line and headers are longer than {self._limits.head_bytes} bytes"
        return _Refusal(431, ErrorCode.INVALID_ARGUMENT, why)

    def _look_at_body_later(self) -> None:
        at_s = min(self._last_byte_s + self._limits.body_stall_s, self._body_deadline_s)
        self._body_timer = self.loop.call_at(at_s, self._look_at_body)

    def _look_at_body(self) -> None:
        now_s = self.loop.time()
        if self.flow.read_paused:  # what has come was not read yet, so the client is not the slow one
            self._last_byte_s = now_s
            self._body_deadline_s = now_s + self._limits.body_timeout_s
        if now_s < min(self._last_byte_s + self._limits.body_stall_s, self._body_deadline_s):
            self._look_at_body_later()
            return
        self._body_timer = None
        self._room.slow += 1
        why = f"its body came too slowly: nothing for {self._limits.body_stall_s:g} s, or not all of it within "
        why += f"{self._limits.body_timeout_s:g} s"
        self._refuse(_Refusal(408, ErrorCode.DEADLINE_EXCEEDED, why, "send it at once, or allow more time"))

    def _give_back_bodies(self) -> None:
        for held_bytes in self._held_bodies:
            self._room.bodies.give_back(held_bytes)
        self._held_bodies.clear()

    def _arm_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_timeout_s, self._head_did_not_come)

    def _head_did_not_come(self) -> None:
        self._room.slow += 1
        self.hang_up()

    def _disarm_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _disarm_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None


@lru_cache(maxsize=1)
def _http_date(at_s: int) -> bytes:
    return formatdate(at_s, usegmt=True).encode("ascii")
