"""An HTTP client that takes little time itself, so that what is measured is the server: one loop, kept connections, the
whole body read and not looked at while the clock runs."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop

_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came, and how long it took from the request to the last byte."""

    status: int
    body: bytes
    took_s: float


@dataclass(slots=True)
class Crowd:
    """What many requests at once came to."""

    took_s: float = 0.0
    each_s: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])


class RefusedError(Exception):
    """A server gave another answer than 200."""


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._body = list[bytes]()
        self._done: asyncio.Future[int] | None = None

    async def ask(self, path: str) -> Answer:
        assert self._transport is not None
        self._body.clear()
        self._done = asyncio.get_running_loop().create_future()
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        began_s = time.perf_counter()
        self._transport.write(request)
        async with asyncio.timeout(_PATIENCE_S):
            status = await self._done
        return Answer(status, b"".join(self._body), time.perf_counter() - began_s)

    # asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError(f"the server closed the connection: {exc}"))

    # httptools'

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(self._parser.get_status_code())


@asynccontextmanager
async def _connected(port: int) -> AsyncGenerator[_Connection]:
    transport, connection = await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", port)
    try:
        yield connection
    finally:
        transport.abort()


def ask_once(port: int, path: str) -> Answer:
    """One answer, whatever it is; `OSError` when nobody is there."""

    async def ask() -> Answer:
        async with _connected(port) as connection:
            return await connection.ask(path)

    return uvloop.run(ask())


def ask_in_turn(port: int, path_of: Callable[[int], str], most: int, limit_s: float) -> list[float]:
    """How long each of some requests took, one after the other: `most` of them, or fewer when the time is over, but at
    least one."""

    async def ask() -> list[float]:
        each_s = list[float]()
        async with _connected(port) as connection:
            while len(each_s) < most and sum(each_s) < limit_s:
                answer = await connection.ask(path_of(len(each_s)))
                if answer.status != 200:
                    raise RefusedError(f"{path_of(len(each_s))} was answered {answer.status}: {answer.body[:300]!r}")
                each_s.append(answer.took_s)
        return each_s

    return uvloop.run(ask())


def ask_at_once(port: int, paths: Sequence[str], connections: int) -> Crowd:
    """All paths, from so many connections that each ask the next one when they have their answer."""
    crowd = Crowd()
    left = iter(paths)

    async def ask(connection: _Connection) -> None:
        for path in left:
            try:
                answer = await connection.ask(path)
            except (OSError, TimeoutError) as error:
                crowd.errors[str(error) or type(error).__name__] += 1
                return  # nothing more can be asked here
            crowd.each_s.append(answer.took_s)
            if answer.status != 200:
                crowd.errors[f"{answer.status}: {answer.body[:200].decode(errors='replace')}"] += 1

    async def ask_all() -> None:
        async with AsyncExitStack() as stack:
            own = [await stack.enter_async_context(_connected(port)) for _ in range(connections)]
            began_s = time.perf_counter()
            await asyncio.gather(*(ask(one) for one in own))
            crowd.took_s = time.perf_counter() - began_s

    uvloop.run(ask_all())
    crowd.errors.update({"never asked": unasked} if (unasked := sum(1 for _ in left)) else {})
    return crowd
