"""GET and POST over HTTP/1.1 on connections that are kept. It is small, because a coordinator uses it for every work.

The answer is read in pieces as the reader takes them. A slow reader holds the sender back, and costs memory for a few
hundred kilobytes. Redirects are not followed, nothing is decoded, and no cookie is kept. A head that is too long is
refused, and so is an address that is not a plain one.
"""

import asyncio
import re
import ssl as tls
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import httptools

_HIGH_BYTES: Final = 512 * 1024
"""How many bytes may wait for the reader before the network is no longer read."""
_PIECE_BYTES: Final = 64
"""What a piece costs beside its content: a body may come in chunks of a byte."""
_HEAD_BYTES: Final = 64 * 1024
"""For a head, and for what follows the last chunk."""
_KEEP_S: Final = 15.0
"""Well below the time after which our server closes an idle connection, so that no connection is used at the moment it
closes."""
_TELL_THE_END: Final = frozenset({b"content-length", b"transfer-encoding"})
"""With neither of these headers, an answer ends with its connection."""
_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+]|[0-9A-Za-z._-]+)(:(?P<port>[0-9]{1,5}))?(?P<target>/[!\"$-~]*)?"
)
"""Every character of the target is a visible one: what follows it in a request cannot be written into it."""


class HttpClientError(Exception):
    """Why there is no answer, or no more of it."""


class UnreachableError(HttpClientError):
    """No connection was made."""


class SilentError(HttpClientError):
    """Nothing came for too long."""


class BrokenConnectionError(HttpClientError):
    """The connection ended before the answer did."""


class NotHttpError(HttpClientError):
    """What came is no HTTP, or more of a head than anybody needs."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go to; what is equal can share them."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"


def split_address(text: str) -> tuple[Origin, str]:
    """The origin and what to ask it for. Raises `ValueError` unless it is a plain http or https address."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("it is not a plain http or https address")
    scheme, host, _, port, target = match.groups()
    return _origin(scheme, host, port), target or "/"


@lru_cache(maxsize=4096)
def _origin(scheme: str, host: str, port: str | None) -> Origin:
    number = int(port) if port else 443 if scheme == "https" else 80
    if not 0 < number <= 65535:
        raise ValueError(f"there is no port {number}")
    return Origin(scheme, host.lower(), number)


class HttpClient:
    """Use it from one event loop. How many answers are asked for at once is the caller's affair."""

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        stall_timeout_s: float,
        ssl: tls.SSLContext | None = None,
        authorize: "Callable[[Origin], str | None] | None" = None,
    ) -> None:
        """`headers` go with every request. `stall_timeout_s` limits making a connection, and waiting for the next byte.
        `authorize` gives the value of the `Authorization` header for the peer once the connection is made. It may raise
        `UnreachableError` for a peer that may not be called."""
        self._authorize = authorize
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._stall_timeout_s = stall_timeout_s
        self._ssl = ssl
        self.in_use = 0
        """Connections that are being made, or asked."""
        self._idle: dict[Origin, list[_Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def get(self, origin: Origin, target: str, headers: Mapping[str, str] | None = None) -> "Answer":
        """The answer, when its head has come. Close it, however that ends."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items()) if headers else ""
        first = f"GET {target} HTTP/1.1\r\nHost: {origin.authority}\r\n".encode("ascii")
        rest = f"{self._headers}{more}\r\n".encode("ascii")
        return await self._ask(origin, first, rest, self._stall_timeout_s)

    async def post(
        self,
        origin: Origin,
        target: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        stall_timeout_s: float | None = None,
    ) -> "Answer":
        """As `get`. `stall_timeout_s` is for this answer alone, such as one that is known to take its time; connecting
        is not meant by it. It is sent once: whether it was heard when the connection breaks, nobody knows."""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items()) if headers else ""
        first = f"POST {target} HTTP/1.1\r\nHost: {origin.authority}\r\nContent-Length: {len(body)}\r\n".encode("ascii")
        rest = f"{self._headers}{more}\r\n".encode("ascii") + body
        return await self._ask(origin, first, rest, stall_timeout_s or self._stall_timeout_s)

    async def _ask(self, origin: Origin, first: bytes, rest: bytes, stall_timeout_s: float) -> "Answer":
        self.in_use += 1
        connection: _Connection | None = None
        try:
            connection = self._take(origin) or await self._connect(origin)
            await connection.ask(first + connection.authorization + rest, stall_timeout_s)
        except BaseException:
            self.in_use -= 1
            if connection is not None:
                connection.abort()
            raise
        return Answer(self, origin, connection)

    async def close(self) -> None:
        """Closes what is idle; answers must have been closed before."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        kept = [connection for connections in self._idle.values() for connection in connections]
        self._idle.clear()
        for connection in kept:
            connection.abort()
        for connection in kept:
            await connection.ended.wait()

    def _take(self, origin: Origin) -> "_Connection | None":
        """One that is idle, the latest used first: it is the least likely to be closing."""
        connections = self._idle.get(origin, ())
        while connections:
            connection = connections.pop()
            if not connections:
                del self._idle[origin]
            if connection.usable:
                return connection
        return None

    async def _connect(self, origin: Origin) -> "_Connection":
        loop = asyncio.get_running_loop()
        ssl = None
        # Asked once for each connection, not for each request: the peer of a connection does not change.
        authorization = None if self._authorize is None else self._authorize(origin)
        if origin.scheme == "https":
            ssl = self._ssl = self._ssl or tls.create_default_context()
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop, self._stall_timeout_s), origin.host.strip("[]"), origin.port, ssl=ssl
                )
        except TimeoutError:
            raise UnreachableError(f"it did not answer within {self._stall_timeout_s:g} s") from None
        except (OSError, UnicodeError) as error:  # a name with a label that is empty or too long is no OSError
            raise UnreachableError(str(error) or "it hung up before there was a connection") from error
        if authorization is not None:
            connection.authorization = f"Authorization: {authorization}\r\n".encode("ascii")
        return connection

    def give_back(self, origin: Origin, connection: "_Connection") -> None:
        """For an answer: its connection can be used again, or not."""
        self.in_use -= 1
        if self._closed or not connection.usable:
            connection.abort()
            return
        connection.drop_pieces()
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.setdefault(origin, []).append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_KEEP_S, self._close_idle)

    def _close_idle(self) -> None:
        """What was not used for so long is closed, and what ended by itself forgotten."""
        self._sweep = None
        loop = asyncio.get_running_loop()
        for origin, connections in list(self._idle.items()):
            kept = [each for each in connections if each.usable and loop.time() - each.idle_since < _KEEP_S]
            for each in connections:
                if each not in kept:
                    each.abort()
            if kept:
                self._idle[origin] = kept
            else:
                del self._idle[origin]
        if self._idle:
            self._sweep = loop.call_later(_KEEP_S, self._close_idle)


class Answer:
    """One answer: its head is there, its body comes as it is read."""

    __slots__ = ("_client", "_connection", "_origin", "headers", "status")

    def __init__(self, client: HttpClient, origin: Origin, connection: "_Connection") -> None:
        self._client = client
        self._origin = origin
        self._connection: _Connection | None = connection
        self.status = connection.status
        self.headers = connection.headers
        """By name in lower case; of one that comes twice the last."""

    @property
    def length(self) -> int | None:
        """Of the body, as far as it was told."""
        text = self.headers.get(b"content-length", b"")
        return int(text) if text.isdigit() else None

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        if self._connection is None:
            raise RuntimeError("the answer was closed before it was read")
        return await self._connection.read()

    def close(self) -> None:
        """Its connection is kept if the answer was read to its end; again is fine."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client.give_back(self._origin, connection)


class _Connection(asyncio.Protocol):
    """One connection, with one question at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stall_timeout_s: float) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.authorization = b""
        """The header that goes with every request on it."""
        self.idle_since = 0.0
        self.ended = asyncio.Event()
        self._loop = loop
        self._stall_timeout_s = stall_timeout_s
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._asking = False
        self._head_came = False
        self._head_bytes = 0
        self._complete = False
        self._kept_alive = False
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._paused = False
        self._error: HttpClientError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._stall_timer: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """For another question."""
        return self._error is None and self._complete and self._kept_alive

    async def ask(self, request: bytes, stall_timeout_s: float) -> None:
        """Waits for the head of the answer."""
        if stall_timeout_s != self._stall_timeout_s:
            self._stall_timeout_s = stall_timeout_s
            self._stop_looking()  # at what was meant for the question before
        self._asking = True
        self._complete = self._kept_alive = self._head_came = False
        self._head_bytes = 0
        self.headers = {}
        if self._transport is not None:
            self._transport.write(request)
        while not self._head_came:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def read(self) -> bytes:
        while not self._pieces:
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self.drop_pieces()
        return data

    def drop_pieces(self) -> None:
        """Nothing waits any more, and the network is read from: it is noticed when the peer closes."""
        self._pieces.clear()
        self._waiting_bytes = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        self._fail(BrokenConnectionError("closed by us"))

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._asking:
            self._fail(NotHttpError("something came that nobody had asked for"))
            return
        waiting_bytes = self._waiting_bytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(NotHttpError(str(error.__context__ or error)))
            return
        if self._waiting_bytes > waiting_bytes:
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self._fail(NotHttpError(f"the head of the answer is longer than {_HEAD_BYTES:,} bytes"))
        if self._waiting_bytes > _HIGH_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if exc is None and self._error is None and self._head_came and not self.headers.keys() & _TELL_THE_END:
            self._complete = True
        self._fail(BrokenConnectionError(str(exc) if exc else "closed by the peer"))
        self.ended.set()

    # What the parser tells

    def on_message_begin(self) -> None:
        if self._complete:
            raise NotHttpError("two answers came to one question")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_came:  # trailers after the last chunk come here too, and are not headers
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status == 101:
            raise NotHttpError("it goes on in a protocol that nobody asked for")
        self._head_came = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._waiting_bytes += len(body) + _PIECE_BYTES

    def on_message_complete(self) -> None:
        if not self._head_came:  # 100 and the like precede the answer
            self.headers = {}
            return
        self._complete = True
        self._asking = False
        self._kept_alive = self._parser.should_keep_alive()

    # Waiting

    async def _wait(self) -> None:
        """Until something has happened, or for too long."""
        self._waiter = self._loop.create_future()
        self._waiting_since = self._loop.time()
        if self._stall_timer is None:
            self._stall_timer = self._loop.call_later(self._stall_timeout_s, self._look)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _look(self) -> None:
        """Whether somebody has waited too long. One timer does for many waits: it moves on to the latest."""
        self._stall_timer = None
        if self._waiter is None or self._waiter.done() or self._error is not None:
            return
        left_s = self._waiting_since + self._stall_timeout_s - self._loop.time()
        if left_s > 0:
            self._stall_timer = self._loop.call_later(left_s, self._look)
        else:
            self._fail(SilentError(f"nothing came for {self._stall_timeout_s:g} s"))

    def _stop_looking(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: HttpClientError) -> None:
        """The first reason counts. What had come before can still be read."""
        if self._error is None:
            self._error = error
            self._stop_looking()
        if self._transport is not None:
            self._transport.abort()
        self._wake()
