"""The simulated processes of recruiting: the real drivers, routes and clients on simulated machines."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.types import Receive, Scope, Send

from quarterdeck.http.errors import ErrorsAsJson
from quarterdeck.http.tenants import tenant_of
from quarterdeck.recruiter.agent import ReservationAgent
from quarterdeck.recruiter.machine import pool_effects as pef
from quarterdeck.recruiter.machine import pool_events as pev
from quarterdeck.recruiter.machine import reservation_effects as ref
from quarterdeck.recruiter.machine import reservation_events as rev
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.model import Holder, Offer
from quarterdeck.recruiter.routes import RecruiterRoute
from quarterdeck.recruiter.service import RecruiterService
from quarterdeck.search.chunk_request import RESERVATION_HEADER, decode_chunk
from quarterdeck.search.worker_routes import ChunkService, FramesResponse
from quarterdeck.search.world.calls import (
    SimulatedRecruiting,
    SimulatedRegistry,
    SimulatedWorkers,
    addr_of,
    url_of,
)
from quarterdeck.search.world.scans import SimulatedExecutor
from quarterdeck.simulation.host import Host
from quarterdeck.simulation.process import Process

if TYPE_CHECKING:
    from quarterdeck.search.world.world import RecruitingWorld

_ANSWER_S: Final = 0.1
"""How long it may take until a worker has been told what was decided."""
IDLE_S: Final = 5.0
PROGRESS_S: Final = 4.0
"""Shorter than trouble may last, so that roots which come back find that their time was up."""
DRAIN_S: Final = 6.0
LEAVE_S: Final = 0.5
"""How long a worker that left because its root did takes to come up again."""


class RecruitingHost(Host["RecruitingWorld"]):
    def exit(self) -> None:
        super().exit()
        self.world.network.host_exited(self.name)


@dataclass(slots=True)
class ReservationNames:
    prefix: str
    made: int = 0

    def reservation_id(self) -> str:
        self.made += 1
        return f"{self.prefix}/{self.made}"


class RecruiterHost(RecruitingHost):
    service: RecruiterService

    def start(self) -> None:
        super().start()
        self._opened: dict[object, int] = {}
        self.service = RecruiterService(self.clock, ReservationNames(self.process.name), observer=self)
        self._route = RecruiterRoute(self.service)
        self.world.network.serve(self.name, self.process, self._app)

    def stepped(self, event: pev.Event, effects: list[pef.Effect]) -> None:
        if isinstance(event, pev.RegistrationOpened):
            self._opened[asyncio.current_task()] = event.registration
        self.world.watcher.pool_stepped(self, self.service.machine, event, effects)
        for effect in effects:
            if isinstance(effect, pef.Reserve | pef.SendBack | pef.Supersede):
                self.world.loop.call_later(_ANSWER_S, self._see_answered, effect)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        process = self.process.name
        await self._route(scope, receive, send)
        number = self._opened.pop(asyncio.current_task(), None)
        if number is not None:
            self.world.watcher.served(self, process, number)

    def _see_answered(self, effect: pef.Reserve | pef.SendBack | pef.Supersede) -> None:
        if effect.registration in self._opened.values():
            raise self.world.watcher.violated(f"{self.name} decided on {effect} and did not tell the worker")

    async def shut_down(self) -> None:
        """In its process: answers all, waits until that is sent, and ends."""
        process = self.process
        self.service.close()
        self.world.network.stop_listening(self.name)
        while self.world.network.serving[process.name]:  # noqa: ASYNC110 - a simulated look, which costs nothing
            await asyncio.sleep(0.01)
        self.world.note(f"{self.name} exits")
        self.world.exited(self, process)


class WorkerHost(RecruitingHost):
    agent: ReservationAgent
    machine: ReservationMachine

    def __init__(self, world: "RecruitingWorld", name: str) -> None:
        super().__init__(world, name)
        self.number = int(name[1:])
        self.load = world.scenario.workers[self.number]
        self.still_until_s = 0.0
        """Until then its scans stand still."""
        self.busy_when_reserved_s: float | None = None
        """For how long a coordinator keeps it busy in the moment in which it is reserved."""
        self.reservation: str | None = None
        self.asked: dict[int, str] = {}
        """The reservation that each search named."""
        self.released: dict[str, float] = {}
        """When each reservation was released that was."""
        self.free_since_s = 0.0
        """When it last began to have nothing to do."""

    @property
    def addr(self) -> str:
        return addr_of(self.name)

    def start(self) -> None:
        super().start()
        scenario = self.world.scenario
        config = ReservationConfig(
            self.addr,
            tuple(url_of(recruiter) for recruiter in scenario.recruiter_hosts),
            idle_s=IDLE_S,
            progress_s=PROGRESS_S,
            drain_max_s=DRAIN_S,
            leave_when_abandoned=self.load.leaves,
        )
        self.reservation, self.asked, self.released = None, {}, {}
        self._accepting = True
        self._is_draining = False
        self._works = 0
        self._freed()
        self.machine = ReservationMachine(config)
        labels = frozenset({self.load.label} if self.load.label else ())
        self.agent = ReservationAgent(
            self.machine,
            Offer(self.addr, self.load.node, labels, self.load.slots),
            SimulatedRegistry(self.world.network, self.name, self._hear_reserved),
            poll_s=scenario.poll_s,
            clock=self.clock,
            chance=self.world.chance.random,
            set_accepting=self._set_accepting,
            leave=self._leave,
            observer=self,
        )
        nothing: Any = None  # neither object stores nor lines of JSON are needed
        executor: Any = SimulatedExecutor(self)
        self._service = ChunkService(self.agent, executor, nothing, nothing)
        self.world.network.serve(self.name, self.process, ErrorsAsJson(self._app, self.world.unexpected))
        self.spawn(self._main(self.process), "main")

    def stepped(self, event: rev.Event, effects: list[ref.Effect]) -> None:
        self.world.watcher.worker_stepped(self, self.machine, event, effects)

    async def _main(self, process: Process) -> None:
        self.agent.idle_changed(True)
        await self.agent.run()
        self.world.note(f"{self.name} exits")
        self.world.exited(self, process)

    def _set_accepting(self, accepting: bool) -> None:
        self._accepting = accepting
        self._freed()

    def _leave(self, why: str) -> None:
        self.world.note(f"{self.name} leaves: {why}")
        self.back_after_s = LEAVE_S
        self._is_draining = True

    def drain(self) -> None:
        """In its process: it was told to stop."""
        self._is_draining = True
        self.agent.drain()

    def _freed(self) -> None:
        self.free_since_s = self.world.loop.time()

    def _hear_reserved(self) -> None:
        if self.busy_when_reserved_s is not None:
            self.spawn(self.work(self.busy_when_reserved_s), "work")
            self.busy_when_reserved_s = None

    async def work(self, for_s: float) -> None:
        """In its process: a coordinator gives it something to do, if it takes it."""
        if not self._accepting or self._is_draining:
            self.world.watcher.met["work refused"] += 1
            return
        self.world.watcher.may_take_work(self)
        self._works += 1
        self.agent.idle_changed(False)
        await asyncio.sleep(for_s)
        self._works -= 1
        if not self._works:
            self._freed()
            self.agent.idle_changed(True)

    # What roots ask

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        reservation = headers.get(RESERVATION_HEADER.lower(), "")
        if scope["path"] == "/worker/release":
            self.released[reservation] = self.world.loop.time()
            self.agent.release(reservation, tenant_of(scope))
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body", "body": b""})
            return
        asked = decode_chunk((await receive())["body"], 0)
        await FramesResponse(self._service, asked, Holder(reservation, tenant_of(scope)))(scope, receive, send)


class RootHost(RecruitingHost):
    recruiting: SimulatedRecruiting
    workers: SimulatedWorkers

    def __init__(self, world: "RecruitingWorld", name: str) -> None:
        super().__init__(world, name)
        self.wedged: Process | None = None
        """The process that takes nothing any more, if it does not."""

    @property
    def is_wedged(self) -> bool:
        return self.wedged is self.process and self.alive

    def start(self) -> None:
        super().start()
        network, recruiters = self.world.network, self.world.scenario.recruiter_hosts
        self.recruiting = SimulatedRecruiting(network, self.name, recruiters, self.world.chance)
        self.workers = SimulatedWorkers(network, self.name)
