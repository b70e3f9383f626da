"""Control streams over real sockets on loopback, for tests: a server, dialers, and peers of every kind."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.grpc_link import METHOD
from quarterdeck.control.link import Envelope, Link, LinkClosedError
from quarterdeck.control.options import METADATA_IDENTITY, METADATA_PROTOCOL, PROTOCOL, Keepalive
from quarterdeck.control.server import ControlServer
from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import CreditChanged, Goodbye
from quarterdeck.security.tls import TlsFiles
from tests.patience import PATIENCE_S

LOOPBACK = "127.0.0.1"
"""How long a test waits for what must happen before it fails. Only a broken thing takes that long."""


def number(count: int, size: int = 0) -> Envelope:
    """An envelope to tell from others; with a size, a large one."""
    return Envelope(SessionId("x" * size) if size else None, count, (CreditChanged(count),))


def goodbye(count: int, reason: str = "done") -> Envelope:
    return Envelope(None, count, (Goodbye(reason),))


class Guests:
    """Takes the connections of a server and keeps them open: the test is the one who serves them."""

    def __init__(self) -> None:
        self._here: dict[Link, asyncio.Event] = {}

    async def serve(self, link: Link) -> None:
        left = self._here[link] = asyncio.Event()
        await left.wait()

    def here(self) -> list[Link]:
        return list(self._here)

    async def arrival(self, peer: str = "caller") -> Link:
        """The connection with somebody, once it is there."""
        await until(lambda: any(link.peer == peer for link in self._here))
        return next(link for link in self._here if link.peer == peer)

    def leave(self, link: Link) -> None:
        """As a conversation does at its end: closes the connection, and serves it no more. Of either end."""
        link.close()
        left = self._here.pop(link, None)
        if left is not None:
            left.set()

    def leave_all(self) -> None:
        for link in list(self._here):
            self.leave(link)


@asynccontextmanager
async def listening(
    serve: Callable[[Link], Coroutine[Any, Any, object]],
    *,
    tls: TlsFiles | None = None,
    admits: Callable[[str | None], bool] | None = None,
    keepalive: Keepalive | None = None,
) -> AsyncGenerator[ControlServer]:
    server = ControlServer(serve, tls=tls, admits=admits, keepalive=keepalive)
    await server.start(LOOPBACK, 0)
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def hosting(keepalive: Keepalive | None = None) -> AsyncGenerator[tuple[ControlServer, Guests]]:
    guests = Guests()
    async with listening(guests.serve, keepalive=keepalive) as server:
        try:
            yield server, guests
        finally:
            guests.leave_all()


@asynccontextmanager
async def dialling(
    name: str = "caller",
    *,
    authorization: str | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    keepalive: Keepalive | None = None,
) -> AsyncGenerator[GrpcDialer]:
    dialer = GrpcDialer(Identity(name, lambda _: authorization), credentials=credentials, keepalive=keepalive)
    try:
        yield dialer
    finally:
        await dialer.close()


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[Link, Link, Guests]]:
    """Both ends of one connection: of the side that dialled, and of the one that was dialled."""
    async with hosting() as (server, guests), dialling() as dialer:
        near = await dialer.dial(address_of(server))
        try:
            yield near, await guests.arrival(), guests
        finally:
            near.close()
            guests.leave_all()


def address_of(server: ControlServer) -> str:
    return f"{LOOPBACK}:{server.port}"


@asynccontextmanager
async def raw_call(
    server: ControlServer, *metadata: tuple[str, str], send_limit_bytes: int = -1
) -> "AsyncGenerator[grpc.aio.StreamStreamCall[bytes, bytes]]":
    """A call that says what the test says: any bytes, any metadata."""
    options = [("grpc.max_send_message_length", send_limit_bytes), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address_of(server), options=options) as channel:
        converse: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
        said = metadata or ((METADATA_PROTOCOL, PROTOCOL), (METADATA_IDENTITY, "raw"))
        call = converse(metadata=grpc.aio.Metadata(*said))
        try:
            yield call
        finally:
            call.cancel()


async def closing_words(link: Link) -> str:
    """Reads to the end, and says why it ended."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            while True:
                await link.receive()
        except LinkClosedError as error:
            return str(error)


async def hear_to_the_end(link: Link) -> list[Envelope]:
    heard: list[Envelope] = []
    async with asyncio.timeout(PATIENCE_S):
        try:
            while True:
                heard.append(await link.receive())
        except LinkClosedError:
            return heard


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that nobody announces."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.002)


async def echo(link: Link) -> None:
    """Serves by saying everything again."""
    try:
        while True:
            await link.send(await link.receive())
    except LinkClosedError:
        pass


async def serves_others(server: ControlServer, credentials: grpc.ChannelCredentials | None = None) -> bool:
    """Whether a server of `echo` still does its work for somebody who behaves."""
    async with dialling("somebody else", credentials=credentials) as dialer, asyncio.timeout(PATIENCE_S):
        link = await dialer.dial(address_of(server))
        await link.send(number(7))
        answer = await link.receive()
        link.close()
        return answer == number(7)


class Stopwatch:
    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s
