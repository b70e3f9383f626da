"""The simulated network: connections with latency that stall, break, go half-open or lose a reply, and never reorder.

It is a network as processes see it through TCP: what is sent on a connection arrives whole and in order, or not at all
and nothing after it. Between connections there is no order. A partition stalls traffic until it heals or the connection
is cut. All of it runs outside any process: what is on its way survives its sender.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from quarterdeck.control.link import Envelope, LinkClosedError
from quarterdeck.simulation.loop import SimulatedLoop

MessageT = TypeVar("MessageT")

_LATENCY_S = (0.0002, 0.004)
_CONNECT_TIMEOUT_S = 2.0


@dataclass(slots=True, eq=False)
class Pipe(Generic[MessageT]):
    """One direction of a connection."""

    source: str
    target: str
    receiver: "SimulatedLink[MessageT]"
    on_the_way: deque[tuple[float, MessageT | None]] = field(default_factory=deque[tuple[float, MessageT | None]])
    """With the time of arrival; None is the end of the stream."""
    last_arrival: float = 0.0


class SimulatedLink(Generic[MessageT]):
    """One end of a connection."""

    def __init__(self, network: "MessageNetwork[MessageT]", peer: str) -> None:
        self._network = network
        self._peer = peer
        self.unread: deque[MessageT] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self.room: asyncio.Future[None] | None = None
        self.closed: str | None = None
        self._no_more: str | None = None
        self.pipe: Pipe[MessageT]

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, envelope: MessageT) -> None:
        while self.closed is None and self.backlog() >= self._network.window:
            self.room = asyncio.get_running_loop().create_future()
            await self.room
        if self.closed is not None:
            raise LinkClosedError(self.closed)
        self._network.transmit(self.pipe, envelope)

    async def receive(self) -> MessageT:
        while not self.unread:
            if self.closed is not None or self._no_more is not None:
                raise LinkClosedError(self.closed or self._no_more or "")
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        envelope = self.unread.popleft()
        _wake(self.pipe.receiver.room)
        return envelope

    def close(self) -> None:
        if self.closed is None:
            self.shut("closed by us")
            self._network.transmit(self.pipe, None)

    # What the network does to it

    def backlog(self) -> int:
        return len(self.pipe.on_the_way) + len(self.pipe.receiver.unread)

    def arrive(self, envelope: MessageT | None) -> None:
        if self.closed is not None:
            return
        if envelope is None:
            self._no_more = "closed by the peer"
        else:
            self.unread.append(envelope)
        _wake(self._arrived)

    def shut(self, reason: str) -> None:
        """From now on nothing can be sent or received here."""
        if self.closed is None:
            self.closed = reason
            self.unread.clear()
            _wake(self._arrived)
            _wake(self.room)


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


@dataclass(slots=True, eq=False)
class Connection(Generic[MessageT]):
    dialler: str
    listener: str
    pipes: tuple[Pipe[MessageT], Pipe[MessageT]]

    def between(self, one: str, other: str) -> bool:
        return {self.dialler, self.listener} == {one, other}


@dataclass(frozen=True, slots=True)
class Trap(Generic[MessageT]):
    """Waits for a message to lose."""

    source: str
    is_it: Callable[[MessageT], bool]
    silently: bool


class MessageNetwork(Generic[MessageT]):
    """Hosts have names. A host listens or not; what connects two hosts can be slowed, stalled and broken."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random, window: int = 4) -> None:
        self.window = window
        """Envelopes on their way or unread before a sender has to wait. Few, so that senders often do."""
        self.loop = loop
        self._chance = chance
        self._context = loop.context_of(None)
        self._listeners: dict[str, Callable[[SimulatedLink[MessageT]], None]] = {}
        self.connections: list[Connection[MessageT]] = []
        self._blocked: dict[tuple[str, str], int] = {}
        self._slow: dict[str, float] = {}
        self._traps: list[Trap[MessageT]] = []
        self.lost_replies = 0

    # For hosts

    def listen(self, host: str, accept: Callable[[SimulatedLink[MessageT]], None]) -> None:
        self._listeners[host] = accept

    async def dial(self, source: str, target: str) -> SimulatedLink[MessageT]:
        """Makes a connection, or fails as a real one would: refused at once, or timed out."""
        await self.travel(source, target, _CONNECT_TIMEOUT_S)
        await self.travel(target, source, _CONNECT_TIMEOUT_S)
        accept = self._listeners.get(target)
        if accept is None:
            raise LinkClosedError(f"{target} refused the connection")
        near, far = SimulatedLink[MessageT](self, target), SimulatedLink[MessageT](self, source)
        near.pipe, far.pipe = Pipe(source, target, far), Pipe(target, source, near)
        self.connections.append(Connection(source, target, (near.pipe, far.pipe)))
        accept(far)
        return near

    async def travel(self, source: str, target: str, timeout_s: float) -> None:
        """Waits as long as something small takes from one host to another; for what is not a connection."""
        await asyncio.sleep(self.latency_s(source, target))
        waited_s = 0.0
        while self.is_blocked(source, target):
            if waited_s >= timeout_s:
                raise LinkClosedError(f"{target} did not answer in {timeout_s:g} s")
            await asyncio.sleep(0.25)
            waited_s += 0.25

    def transmit(self, pipe: Pipe[MessageT], envelope: MessageT | None) -> None:
        if envelope is not None and self._traps and self._springs(pipe, envelope):
            return
        arrival = max(pipe.last_arrival, self.loop.time() + self.latency_s(pipe.source, pipe.target))
        pipe.last_arrival = arrival
        pipe.on_the_way.append((arrival, envelope))
        self.loop.call_at(arrival, self._pump, pipe, context=self._context)

    # For faults

    def block(self, source: str, target: str) -> None:
        """Nothing gets from one to the other; what is sent waits. Blocks add up."""
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1

    def unblock(self, source: str, target: str) -> None:
        left = self._blocked.get((source, target), 0) - 1
        if left > 0:
            self._blocked[source, target] = left
            return
        self._blocked.pop((source, target), None)
        for connection in list(self.connections):
            for pipe in connection.pipes:
                if (pipe.source, pipe.target) == (source, target):
                    self._pump(pipe)

    def is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocked

    def slow(self, host: str, extra_s: float) -> None:
        self._slow[host] = extra_s

    def cut(self, one: str, other: str, *, known_to: tuple[str, ...]) -> None:
        """Breaks all connections between two hosts. Those not told keep sending into nothing: half-open."""
        for connection in [c for c in self.connections if c.between(one, other)]:
            self.break_off(connection, known_to)

    def break_off(self, connection: Connection[MessageT], known_to: tuple[str, ...]) -> None:
        self.connections.remove(connection)
        for pipe in connection.pipes:
            pipe.on_the_way.clear()
            if pipe.target in known_to:
                pipe.receiver.shut("the connection broke")

    def lose_next(self, source: str, is_it: Callable[[MessageT], bool], *, silently: bool = False) -> None:
        """The next such message from this host is lost, and the connection with it: its effect has happened. Silently,
        its receiver hears nothing of that."""
        self._traps.append(Trap(source, is_it, silently))

    def stop_listening(self, host: str) -> None:
        self._listeners.pop(host, None)

    def host_died(self, host: str) -> None:
        """The operating system closes what the process had open; a peer that cannot be reached does not hear of it."""
        for connection in [c for c in self.connections if host in (c.dialler, c.listener)]:
            self.connections.remove(connection)
            for pipe in connection.pipes:
                pipe.on_the_way.clear()
                if pipe.source == host and not self.is_blocked(host, pipe.target):
                    latency_s = self.latency_s(host, pipe.target)
                    shut = pipe.receiver.shut
                    self.loop.call_later(latency_s, shut, "the peer died", context=self._context)
                elif pipe.target == host:
                    pipe.receiver.shut("dead")

    def heal(self) -> None:
        """No more stalls, no more slowness, no more traps; what is broken stays broken."""
        for source, target in list(self._blocked):
            self._blocked[source, target] = 1
            self.unblock(source, target)
        self._slow.clear()
        self._traps.clear()

    # Inside

    def latency_s(self, source: str, target: str) -> float:
        low, high = _LATENCY_S
        slow = self._slow
        extra_s = slow.get(source, 0.0) + slow.get(target, 0.0) if slow else 0.0
        return low + (high - low) * self._chance.random() + extra_s

    def _pump(self, pipe: Pipe[MessageT]) -> None:
        if self._blocked and (pipe.source, pipe.target) in self._blocked:
            return
        now = self.loop.time()
        while pipe.on_the_way and pipe.on_the_way[0][0] <= now:
            _, envelope = pipe.on_the_way.popleft()
            pipe.receiver.arrive(envelope)
            if envelope is None:
                self._forget(pipe)

    def _forget(self, pipe: Pipe[MessageT]) -> None:
        """One side closed. When the other has too, the connection is no more."""
        for connection in self.connections:
            if pipe in connection.pipes:
                if all(p.receiver.closed is not None for p in connection.pipes):
                    self.connections.remove(connection)
                return

    def _springs(self, pipe: Pipe[MessageT], envelope: MessageT) -> bool:
        for trap in self._traps:
            if trap.source == pipe.source and trap.is_it(envelope):
                self._traps.remove(trap)
                self.lost_replies += 1
                self.lose(pipe, known_to=(pipe.source,) if trap.silently else (pipe.source, pipe.target))
                return True
        return False

    def lose(self, pipe: Pipe[MessageT], known_to: tuple[str, ...]) -> None:
        """What goes along with a message that is lost."""
        self.cut(pipe.source, pipe.target, known_to=known_to)


class SimulatedNetwork(MessageNetwork[Envelope]):
    """The network of a crew: one connection between two hosts, with envelopes."""

    def lose_reply(self, source: str, message: type[object]) -> None:
        """The next envelope from this host with such a message is lost, and the connection with it."""
        self.lose_next(source, lambda envelope: any(isinstance(m, message) for m in envelope.messages))
