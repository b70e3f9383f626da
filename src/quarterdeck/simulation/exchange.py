"""HTTP on the simulated network: ASGI applications are served, and asked by the client that the real clients use.

Rules, as TCP and our server have them:
- One connection for each request. What is sent arrives whole and in order, or the connection breaks.
- An application runs as a task of the server's process. A client that goes away, canceled or killed, is
  `http.disconnect` when the server hears of it; one that was cut off is not heard of. What is sent to nobody is lost.
- A client that does not read makes the server wait.
- A server that goes away is an error for the client when it hears of it; one that is paused or cut off lets it wait.
- An answer can be lost after its effect, and its connection with it; silently, the client waits on.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starlette.types import ASGIApp
from starlette.types import Message as AsgiMessage

from quarterdeck.control.link import LinkClosedError
from quarterdeck.http.client import BrokenConnectionError, Origin, SilentError, UnreachableError
from quarterdeck.http.errors import AnswerCutOffError
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.network import MessageNetwork, Pipe, SimulatedLink
from quarterdeck.simulation.process import Process


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of an answer."""

    path: str
    status: int


@dataclass(frozen=True, slots=True)
class Data:
    """Some of an answer."""

    path: str
    body: bytes
    more: bool
    """Whether the answer goes on after it."""


Message: TypeAlias = Request | Head | Data


class ExchangeNetwork(MessageNetwork[Message]):
    """A network of hosts that serve, and hosts that ask them."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random, window: int = 4) -> None:
        super().__init__(loop, chance, window)
        self.serving: Counter[str] = Counter()
        """Requests that are being answered, by process."""

    def serve(self, host: str, process: Process, app: ASGIApp) -> None:
        """From now on the process answers what is asked of this host."""

        def accept(link: SimulatedLink[Message]) -> None:
            self.loop.spawn(process, self._serve(process, link, app), name=f"{process.name}: serve {link.peer}")

        self.listen(host, accept)

    async def _serve(self, process: Process, link: SimulatedLink[Message], app: ASGIApp) -> None:
        try:
            request = await link.receive()
        except LinkClosedError:
            return
        if not isinstance(request, Request):
            raise TypeError(f"{link.peer} began with {request}")
        answering = _Answering(link, request)
        watching = asyncio.create_task(answering.wait_gone(), name=f"watch {link.peer}")
        self.serving[process.name] += 1
        try:
            await app(answering.scope(), answering.receive, answering.send)
        except AnswerCutOffError:
            pass  # what went wrong was told where it happened
        finally:
            self.serving[process.name] -= 1
            watching.cancel()
            link.close()

    def host_exited(self, host: str) -> None:
        """The process has ended by itself: what it had open is closed, after what was sent."""
        for connection in list(self.connections):
            for pipe in connection.pipes:
                if pipe.target == host:
                    pipe.receiver.close()

    def lose(self, pipe: Pipe[Message], known_to: tuple[str, ...]) -> None:
        """Other requests between the two have connections of their own."""
        for connection in [c for c in self.connections if pipe in c.pipes]:
            self.break_off(connection, known_to)


class _Answering:
    """One request at its server: what ASGI calls scope, receive and send."""

    def __init__(self, link: SimulatedLink[Message], request: Request) -> None:
        self._link = link
        self._request = request
        self._is_read = False
        self._over = asyncio.Event()
        """The client is gone, or has all of the answer."""

    def scope(self) -> dict[str, object]:
        headers = [(name.lower().encode(), value.encode()) for name, value in self._request.headers]
        return {
            "type": "http",
            "method": "POST",
            "path": self._request.path,
            "headers": headers,
            "client": (self._link.peer, 1),
        }

    async def receive(self) -> AsgiMessage:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        try:
            if message["type"] == "http.response.start":
                await self._link.send(Head(self._request.path, message["status"]))
                return
            more: bool = message.get("more_body", False)
            await self._link.send(Data(self._request.path, message.get("body", b""), more))
            if not more:
                self._over.set()
        except LinkClosedError:
            self._over.set()

    async def wait_gone(self) -> None:
        try:
            while True:
                await self._link.receive()
        except LinkClosedError:
            self._over.set()


class SimulatedHttpClient:
    """What clients of ours need of `http.client.HttpClient`, from one host."""

    def __init__(self, network: ExchangeNetwork, source: str, stall_timeout_s: float) -> None:
        self._network = network
        self._source = source
        self._stall_timeout_s = stall_timeout_s

    async def post(
        self,
        origin: Origin,
        target: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        stall_timeout_s: float | None = None,
    ) -> "SimulatedAnswer":
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                link = await self._network.dial(self._source, origin.host)
        except TimeoutError:
            raise UnreachableError(f"it did not answer within {self._stall_timeout_s:g} s") from None
        except LinkClosedError as error:
            raise UnreachableError(str(error)) from None
        answer = SimulatedAnswer(link, stall_timeout_s or self._stall_timeout_s)
        try:
            await answer.ask(Request(target, tuple((headers or {}).items()), body))
        except BaseException:
            answer.close()
            raise
        return answer

    async def close(self) -> None:
        """Nothing is kept open."""


class SimulatedAnswer:
    def __init__(self, link: SimulatedLink[Message], stall_timeout_s: float) -> None:
        self.status = 0
        self._link = link
        self._stall_timeout_s = stall_timeout_s
        self._is_complete = False

    async def ask(self, request: Request) -> None:
        """Waits for the head of the answer."""
        try:
            await self._link.send(request)
        except LinkClosedError as error:
            raise BrokenConnectionError(str(error)) from None
        head = await self._next()
        if not isinstance(head, Head):
            raise BrokenConnectionError(f"it began with {head}")
        self.status = head.status

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        while not self._is_complete:
            data = await self._next()
            if not isinstance(data, Data):
                raise BrokenConnectionError(f"it went on with {data}")
            self._is_complete = not data.more
            if data.body:
                return data.body
        return b""

    def close(self) -> None:
        self._link.close()

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                return await self._link.receive()
        except TimeoutError:
            raise SilentError(f"nothing came for {self._stall_timeout_s:g} s") from None
        except LinkClosedError as error:
            raise BrokenConnectionError(str(error)) from None
