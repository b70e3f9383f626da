"""What every simulated world has: a loop, a network, hosts, and the faults that befall any host or connection."""

import asyncio
import random
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeAlias, TypeVar, assert_never

from quarterdeck.simulation import faults as f
from quarterdeck.simulation.host import Host
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.network import MessageNetwork, SimulatedNetwork
from quarterdeck.simulation.process import Process, ProcessState
from quarterdeck.simulation.trace import Trace

NetworkT = TypeVar("NetworkT", bound=MessageNetwork[Any])
CommonFault: TypeAlias = f.Crash | f.Pause | f.Partition | f.Cut | f.SlowPeer | f.ClockJump


class Stage(ABC, Generic[NetworkT]):
    def __init__(self, loop: SimulatedLoop, network: NetworkT, trace: Trace) -> None:
        self.loop = loop
        self.network = network
        self.trace = trace

    @abstractmethod
    def host(self, name: str) -> Host[Any]: ...

    @abstractmethod
    def process_died(self, process: Process) -> None:
        """Nothing of it runs any more."""

    @abstractmethod
    def last_look(self, host: Host[Any]) -> None:
        """A host's process is about to end: what is to be known of it is asked now."""

    def note(self, text: str) -> None:
        self.trace.add(self.loop.time(), "----", text)

    # Ends and new starts

    def exited(self, host: Host[Any], process: Process) -> None:
        """A process ended by itself; it is gone with its last callback, and starts again after a while."""
        self.loop.call_soon(self._take_away, host, process, context=self.loop.context_of(None))

    def _take_away(self, host: Host[Any], process: Process) -> None:
        if host.process is process and host.alive:
            self.last_look(host)
            host.exit()
            self.restart_later(host, host.back_after_s)

    def restart_later(self, host: Host[Any], after_s: float) -> None:
        self.loop.call_later(after_s, self.restart, host, context=self.loop.context_of(None))

    def restart(self, host: Host[Any]) -> None:
        if not host.alive:
            host.start()

    # Trouble

    async def befall(self, fault: CommonFault) -> None:
        match fault:
            case f.Crash(_, name, down_s):
                host = self.host(name)
                if host.alive:
                    self.last_look(host)
                    host.kill()
                    self.restart_later(host, down_s)
            case f.Pause(_, name, for_s):
                process = self.host(name).process
                self.loop.pause(process)
                await asyncio.sleep(for_s)
                self.loop.resume(process)
            case f.Partition(_, source, target, for_s, one_way):
                await self._partition(source, target, for_s, one_way=one_way)
            case f.Cut(_, host, other, half_open):
                self.network.cut(host, other, known_to=(host,) if half_open else (host, other))
            case f.SlowPeer(_, host, for_s, extra_s):
                self.network.slow(host, extra_s)
                await asyncio.sleep(for_s)
                self.network.slow(host, 0.0)
            case f.ClockJump(_, name, by_s):
                self.host(name).clock.ahead_s += by_s
            case _:
                assert_never(fault)

    async def _partition(self, source: str, target: str, for_s: float, *, one_way: bool) -> None:
        ways = [(source, target)] if one_way else [(source, target), (target, source)]
        for way in ways:
            self.network.block(*way)
        await asyncio.sleep(for_s)
        for way in ways:
            self.network.unblock(*way)

    def heal(self, hosts: list[Host[Any]]) -> None:
        self.note("everything heals")
        self.network.heal()
        for host in hosts:
            if host.process.state is ProcessState.PAUSED:
                self.loop.resume(host.process)
            self.restart(host)


class CrewStage(Stage[SimulatedNetwork]):
    """One where coordinators and workers meet."""

    chance: random.Random
    """For whatever the world itself decides."""
