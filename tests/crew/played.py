"""The world around a driver, played by a test: its connections, executor, fetcher and clock, on the simulated loop."""

import asyncio
import functools
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec

from quarterdeck.control.link import Envelope, LinkClosedError, Message
from quarterdeck.core.ids import CoordinatorId, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import CreditChanged, Register, Registered, WorkerBeat
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    Ended,
    LivenessPolicy,
    WorkerInfo,
    WorkerStatus,
    WorkKey,
    WorkSpec,
)
from quarterdeck.simulation.loop import SimulatedLoop

P = ParamSpec("P")

LEAF, SCAN = WorkKind("leaf"), WorkKind("scan")
SEEDS = range(6)
"""Each test runs in several orders of what is ready at the same time."""

ACCEPTING = WorkerStatus(accepting_work=True)
QUERY = QueryId("q")
ARTIFACT = Artifact("sim://w", 1, "sum", 1, 0, 0, 1)


def played(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine: it runs on the simulated loop, once for each seed."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        for seed in SEEDS:
            loop = SimulatedLoop(random.Random(seed), time_limit_s=1000.0)
            try:
                loop.run_until_complete(test(*args, **kwargs))
            finally:
                loop.close()

    return run


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Lets everything happen that needs no time to pass."""
    await asyncio.sleep(0.000_01)


class LoopClock:
    def now(self) -> float:
        return now_s()


class CountedIds:
    def __init__(self) -> None:
        self.made = 0

    def session_id(self) -> SessionId:
        self.made += 1
        return SessionId(f"s{self.made}")


class PlayedLink:
    """A driver's end of a connection. The test is the other end: it says things, hears things, and hangs up."""

    def __init__(self, peer: str = "peer", room: int = 1_000_000) -> None:
        self._peer = peer
        self._room = room
        self._incoming: deque[Envelope] = deque()
        self._unheard: deque[Envelope] = deque()
        self._words: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._said = 0
        self.session_id: SessionId | None = None
        self.sent: list[Envelope] = []
        self.hung_up = False
        self.closed = False

    @property
    def peer(self) -> str:
        return self._peer

    # The driver's side

    async def send(self, envelope: Envelope) -> None:
        await self._until(lambda: self.closed or self.hung_up or len(self._unheard) < self._room)
        if self.closed or self.hung_up:
            raise LinkClosedError("nobody is there")
        self.sent.append(envelope)
        self._unheard.append(envelope)
        self._changed.set()

    async def receive(self) -> Envelope:
        await self._until(lambda: self.closed or self.hung_up or bool(self._incoming))
        if self.closed or not self._incoming:
            raise LinkClosedError("closed by us" if self.closed else "hung up")
        return self._incoming.popleft()

    def close(self) -> None:
        self.closed = True
        self._changed.set()

    # The test's side

    def say(self, *messages: Message) -> None:
        self.say_envelope(Envelope(self.session_id, self._said, messages))

    def say_envelope(self, envelope: Envelope) -> None:
        self._said += 1
        self._incoming.append(envelope)
        self._changed.set()

    async def hear(self) -> tuple[Message, ...]:
        """The next envelope that the driver sent."""
        await self._until(lambda: bool(self._unheard))
        self._changed.set()
        return self._unheard.popleft().messages

    async def hear_a(self, kind: type[Any]) -> Any:
        """The next message of a kind; what comes before it does not matter."""
        while True:
            while self._words:
                word = self._words.popleft()
                if isinstance(word, kind):
                    return word
            self._words.extend(await self.hear())

    async def wait_closed(self) -> None:
        await self._until(lambda: self.closed)

    @property
    def unheard(self) -> int:
        """Envelopes that the driver sent and the test has not looked at."""
        return len(self._unheard)

    def hang_up(self) -> None:
        self.hung_up = True
        self._changed.set()

    def said_by_driver(self) -> list[Message]:
        return [message for envelope in self.sent for message in envelope.messages]

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class PlayedExecutor:
    """Does what the test says with each work; by default it is done after a second."""

    def __init__(self) -> None:
        self.started: list[AttemptId] = []
        self.released: list[AttemptId] = []
        self.dropped: list[AttemptId] = []
        self.running: set[AttemptId] = set()
        self.stop_s = 0.0
        self.drop_s = 0.0
        self.keeps_in_memory = False
        self.work: Callable[[AttemptId, Callable[[float], None]], Awaitable[Artifact | Ended]] = _after_a_second

    async def execute(self, attempt: AttemptId, spec: WorkSpec, progress: Callable[[float], None]) -> Artifact | Ended:
        self.started.append(attempt)
        self.running.add(attempt)
        try:
            return await self.work(attempt, progress)
        except asyncio.CancelledError:
            await asyncio.sleep(self.stop_s)
            raise
        finally:
            self.running.remove(attempt)

    def release(self, attempt: AttemptId) -> None:
        self.released.append(attempt)

    def forget(self, attempt: AttemptId) -> bool:
        if self.keeps_in_memory:
            self.dropped.append(attempt)
        return self.keeps_in_memory

    async def drop(self, attempt: AttemptId) -> None:
        await asyncio.sleep(self.drop_s)
        self.dropped.append(attempt)


async def _after_a_second(attempt: AttemptId, progress: Callable[[float], None]) -> Artifact:
    await asyncio.sleep(1.0)
    return ARTIFACT


class PlayedFetcher:
    """Does what the test says with each fetch; by default the result is there after a tenth of a second."""

    def __init__(self) -> None:
        self.discarded: list[str] = []
        self.work: Callable[[AttemptId], Awaitable[str]] = _after_a_tenth

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> str:
        return await self.work(attempt)

    def discard(self, result: str) -> None:
        self.discarded.append(result)


async def _after_a_tenth(attempt: AttemptId) -> str:
    await asyncio.sleep(0.1)
    return f"result of {attempt.key.work_id}#{attempt.number}"


def worker_info(name: str = "w0", incarnation: int = 1, slots: int = 1, places: int = 0) -> WorkerInfo:
    return WorkerInfo(WorkerId(name), Incarnation(incarnation), frozenset((LEAF, SCAN)), slots, places)


def registration(name: str = "w0", incarnation: int = 1) -> Register:
    return Register(worker_info(name, incarnation), ACCEPTING)


def welcome(session: str = "s1") -> Registered:
    return Registered(SessionId(session), CoordinatorId("c0"), LivenessPolicy())


def leaf(name: str = "a", query_id: QueryId = QUERY, *, leaves_nothing: bool = False) -> WorkSpec:
    key = WorkKey(query_id, LeafId("l"), WorkId(name))
    return WorkSpec(key, LEAF, leaves_nothing=leaves_nothing)


async def register_with(link: PlayedLink, name: str = "w0", credit: int = 1) -> None:
    """The test, as a worker, begins a session and takes work."""
    link.say(registration(name))
    registered: Registered = await link.hear_a(Registered)
    link.session_id = registered.session_id
    link.say(WorkerBeat(ACCEPTING), CreditChanged(credit))
