"""A peer of the HTTP client that is scripted byte by byte, and what a test of the client asks of both."""

import asyncio
import functools
import inspect
import socket
import ssl as tls
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec

import pytest
import trustme

from quarterdeck.http import client as client_module
from quarterdeck.http.client import Answer, HttpClient, HttpClientError, Origin, UnreachableError
from tests.http.asked import Run, until
from tests.patience import PATIENCE_S

P = ParamSpec("P")
CONNECTION: Any = client_module._Connection  # pyright: ignore[reportPrivateUsage]
KIB = 1024
ONE_READ = 256 * KIB
"""What either loop takes from a socket at once, at most."""


def looped(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[Concatenate[Run, P], None]:
    """Makes a test of a coroutine, on both loops; one that hangs fails, and so does one of which the loop complains."""

    async def watched(coroutine: Coroutine[Any, Any, None]) -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(PATIENCE_S):
            await coroutine
        assert not complaints

    @functools.wraps(test)
    def wrapped(run: Run, *args: P.args, **kwargs: P.kwargs) -> None:
        run(watched(test(*args, **kwargs)))

    signature = inspect.signature(test)
    run = inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = signature.replace(parameters=[run, *signature.parameters.values()])
    setattr(wrapped, "__signature__", shown)  # noqa: B010 - pytest reads it, no type knows it
    return wrapped


class Link:
    """The peer's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.gone = asyncio.Event()
        """Set when the client has closed its end, or this one was closed."""

    async def follow(self, requests: "asyncio.Queue[tuple[Link, str]]") -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                requests.put_nowait((self, (await self._reader.readuntil(b"\r\n\r\n")).decode()))
        self.gone.set()

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    def hang_up(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def keep_saying(self, data: bytes) -> None:
        """Until the client has had enough."""
        with suppress(OSError):
            while not self.gone.is_set():
                self.writer.write(data)
                await self.writer.drain()


class Peer:
    """What connects to it, and what it is asked."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.requests: asyncio.Queue[tuple[Link, str]] = asyncio.Queue()
        self.port = 0

    async def asked(self) -> Link:
        """The connection of the next request."""
        return (await self.requests.get())[0]


@asynccontextmanager
async def listening(ssl: tls.SSLContext | None = None) -> AsyncGenerator[Peer]:
    peer = Peer()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        peer.links.append(link)
        tasks.add(asyncio.create_task(link.follow(peer.requests)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=ssl)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for link in peer.links:
            link.writer.transport.abort()  # whoever does not read what it was told must not hold up the test's end
        if tasks:
            await asyncio.wait(tasks)
        for link in peer.links:
            with suppress(OSError):  # the client was quicker
                await link.writer.wait_closed()
        await server.wait_closed()


class Scene:
    """A client and its peer."""

    def __init__(self, client: HttpClient, peer: Peer, scheme: str) -> None:
        self.client = client
        self.peer = peer
        self.origin = Origin(scheme, "127.0.0.1", peer.port)

    def ask(self) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.client.get(self.origin, "/x"))

    async def asked(self) -> tuple[asyncio.Task[Answer], Link]:
        """A request that has reached the peer, and waits for its answer."""
        asking = self.ask()
        return asking, await self.peer.asked()

    async def answered(self, data: bytes) -> tuple[Answer, Link]:
        asking, link = await self.asked()
        link.say(data)
        return await asking, link

    async def fetched(self, data: bytes) -> tuple[bytes, Link]:
        """The body of the answer, read to its end."""
        answer, link = await self.answered(data)
        return await rest_of(answer), link

    async def failure(self, data: bytes) -> HttpClientError:
        """Why that is no answer, when the connection has been closed."""
        asking, link = await self.asked()
        link.say(data)
        with pytest.raises(HttpClientError) as failed:
            await asking
        await link.gone.wait()
        return failed.value


@asynccontextmanager
async def scene(
    *, stall_timeout_s: float = 20.0, ssl: tls.SSLContext | None = None, peer_ssl: tls.SSLContext | None = None
) -> AsyncGenerator[Scene]:
    """Ends with the client closed: nothing of it is left then, here or at the peer."""
    async with listening(peer_ssl) as peer:
        client = HttpClient(headers={"X-Ours": "1"}, stall_timeout_s=stall_timeout_s, ssl=ssl)
        try:
            yield Scene(client, peer, "https" if ssl else "http")
            assert client.in_use == 0
        finally:
            await client.close()
        for link in peer.links:
            await link.gone.wait()
        assert not timers_of_the_client()


def timers_of_the_client() -> list[Any]:
    """What is still to come; only asyncio's own loop tells."""
    scheduled: list[Any] = getattr(asyncio.get_running_loop(), "_scheduled", [])
    owners = [getattr(each._callback, "__self__", None) for each in scheduled if not each.cancelled()]
    return [owner for owner in owners if type(owner).__module__ == client_module.__name__]


async def rest_of(answer: Answer) -> bytes:
    body = b""
    try:
        while piece := await answer.read():
            body += piece
    finally:
        answer.close()
    return body


def inside(answer: Answer) -> Any:
    """Its connection."""
    return answer._connection  # pyright: ignore[reportPrivateUsage]


def idle_in(client: HttpClient) -> int:
    return sum(map(len, client._idle.values()))  # pyright: ignore[reportPrivateUsage]


def sweep(client: Any) -> None:
    """As its timer does when it is due."""
    client._sweep.cancel()
    client._close_idle()


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


class Clock:
    """Stands in for a connection's loop: time passes when the test says so."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._timers: list[tuple[float, Callable[[], None], asyncio.Event]] = []
        self.connections: list[Any] = []

    def time(self) -> float:
        return self._now_s

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        canceled = asyncio.Event()
        self._timers.append((self._now_s + delay_s, callback, canceled))

        class Handle:
            cancel = staticmethod(canceled.set)

        return Handle

    async def advance(self, seconds: float) -> None:
        """When somebody waits for the connection made last, and is still waiting after what came last."""
        await until(lambda: self.waited_for)
        self.pass_by(seconds)

    @property
    def waited_for(self) -> bool:
        waiter = self.connections[-1]._waiter
        return waiter is not None and not waiter.done()

    def pass_by(self, seconds: float) -> None:
        self._now_s += seconds
        due = [timer for timer in self._timers if timer[0] <= self._now_s]
        self._timers = [timer for timer in self._timers if timer[0] > self._now_s]
        for _, callback, canceled in due:
            if not canceled.is_set():
                callback()


def trusting(authority: trustme.CA) -> tls.SSLContext:
    return tls.create_default_context(cadata=authority.cert_pem.bytes().decode())


async def refusal(origin: Origin, *, stall_timeout_s: float = 20.0, ssl: tls.SSLContext | None = None) -> str:
    """Why there is no connection."""
    client = HttpClient(headers={}, stall_timeout_s=stall_timeout_s, ssl=ssl)
    with pytest.raises(UnreachableError) as failed:
        await client.get(origin, "/")
    assert client.in_use == 0
    await client.close()
    return str(failed.value)
