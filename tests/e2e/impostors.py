"""Peers that misbehave: workers and coordinators made from the real control stream, which say whatever a test wants."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.link import Envelope, Link, LinkClosedError, Message
from quarterdeck.control.server import ControlServer
from quarterdeck.core.ids import CoordinatorId, Incarnation, SessionId, WorkerId
from quarterdeck.core.workcoord.messages import (
    CoordinatorBeat,
    CreditChanged,
    Register,
    Registered,
    WorkerBeat,
)
from quarterdeck.core.workcoord.model import LivenessPolicy, WorkerInfo, WorkerStatus
from quarterdeck.scan.model import SCAN
from tests.e2e.door import TOKEN
from tests.patience import PATIENCE_S

MessageT = TypeVar("MessageT")

_ACCEPTING = WorkerStatus(accepting_work=True)
_BEAT_S = 0.5


class Impostor:
    """One end of a control stream. It numbers its envelopes as it should, unless the test sends one itself."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.session_id: SessionId | None = None
        self.sent = 0
        self._words: deque[Message] = deque()

    async def say(self, *messages: Message) -> None:
        await self.send(Envelope(self.session_id, self.sent, messages))

    async def send(self, envelope: Envelope) -> None:
        self.sent += 1
        await self.link.send(envelope)

    async def hear_a(self, kind: type[MessageT]) -> MessageT:
        """The next message of a kind; what comes before it does not matter."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while self._words:
                    word = self._words.popleft()
                    if isinstance(word, kind):
                        return word
                self._words.extend((await self.link.receive()).messages)

    async def hear_the_end(self) -> str:
        """Why the other side, or the network, ended it."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while True:
                    await self.link.receive()
            except LinkClosedError as error:
                return str(error)

    async def keep_saying(self, message: Message) -> None:
        with suppress(LinkClosedError):
            while True:
                await self.say(message)
                await asyncio.sleep(_BEAT_S)


def worker_info(name: str, *, incarnation: int = 1, tenant: str = "default", places: int = 0) -> WorkerInfo:
    return WorkerInfo(
        WorkerId(name), Incarnation(incarnation), frozenset({SCAN}), 1, places, tenant=tenant, node="nowhere"
    )


@asynccontextmanager
async def dialled(address: str, name: str) -> AsyncGenerator[Impostor]:
    """A connection on which nothing was said yet."""
    dialer = GrpcDialer(Identity(name, lambda _: f"Bearer {TOKEN}"))
    link = await dialer.dial(address)
    try:
        yield Impostor(link)
    finally:
        link.close()
        await dialer.close()


@asynccontextmanager
async def false_worker(address: str, worker: WorkerInfo, credit: int = 1) -> AsyncGenerator[Impostor]:
    """It has a session, takes work, and beats; the rest is up to the test."""
    async with dialled(address, worker.worker_id) as impostor:
        await impostor.say(Register(worker, _ACCEPTING))
        registered = await impostor.hear_a(Registered)
        impostor.session_id = registered.session_id
        await impostor.say(WorkerBeat(_ACCEPTING), CreditChanged(credit))
        async with _beating(impostor, WorkerBeat(_ACCEPTING)):
            yield impostor


class FalseCoordinator:
    """Listens for workers; each that joins gets a session and beats."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._server = ControlServer(self._serve)
        self._guests: dict[str, Impostor] = {}
        self._over = asyncio.Event()
        self._sessions = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator["FalseCoordinator"]:
        await self._server.start("127.0.0.1", 0)
        try:
            yield self
        finally:
            self._over.set()
            await self._server.stop()

    async def guest(self, name: str) -> Impostor:
        """The session with a worker, once it is there."""
        async with asyncio.timeout(PATIENCE_S):
            while name not in self._guests:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        return self._guests[name]

    async def _serve(self, link: Link) -> bool:
        impostor = Impostor(link)
        register = await impostor.hear_a(Register)
        self._sessions += 1
        session_id = SessionId(f"{self._name}-{self._sessions}")
        impostor.session_id = session_id
        await impostor.say(Registered(session_id, CoordinatorId(self._name), LivenessPolicy()))
        async with _beating(impostor, CoordinatorBeat()):
            self._guests[register.worker.worker_id] = impostor
            await self._over.wait()
        return True


@asynccontextmanager
async def _beating(impostor: Impostor, beat: Message) -> AsyncGenerator[None]:
    beats = asyncio.create_task(impostor.keep_saying(beat))
    try:
        yield
    finally:
        beats.cancel()
        await asyncio.wait((beats,))
