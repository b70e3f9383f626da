"""One worker, wired: executors, artifacts and cache on one disk budget, HTTP for artifacts and monitors, the control
stream to its coordinators, and an end that drains.

It decides nothing about work: that is the machine's affair, and the driver carries it out.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from prometheus_client import CollectorRegistry

from quarterdeck import __version__
from quarterdeck.capability import Capability, Offers
from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.config import WorkerSettings
from quarterdeck.control.discovery import join_address, split_address
from quarterdeck.core.backoff import Backoff
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode
from quarterdeck.core.ids import Incarnation, WorkerId
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.model import AttemptId, DiskUse, WorkerInfo
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.core.workcoord.worker import effects as ef
from quarterdeck.core.workcoord.worker import events as ev
from quarterdeck.crew.artifacts.format import PATH_PREFIX
from quarterdeck.crew.artifacts.route import ArtifactRoute
from quarterdeck.crew.clocks import MonotonicClock
from quarterdeck.crew.declared.holder import HolderDriver
from quarterdeck.crew.driver import Observers
from quarterdeck.crew.executors import Executors
from quarterdeck.crew.observers.journal import WorkerJournal, log_trouble
from quarterdeck.crew.observers.metering import WorkerMeter
from quarterdeck.crew.process.doors import Doors, Peers
from quarterdeck.crew.process.freed_memory import give_back_freed_memory
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import (
    EXIT_HURRIED,
    ForcedEnd,
    StopSignals,
    end_task,
    settle_memory,
    stop_if_broken,
)
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.crew.process.memory_watch import MemoryWatch
from quarterdeck.crew.process.room import http_limits
from quarterdeck.crew.process.storage import Storage
from quarterdeck.crew.worker import WorkerDriver
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.telemetry.exposition import form_of, render
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import StoreMetrics, WorkerFigures, WorkerMetrics, exemplar
from quarterdeck.web import fronts
from quarterdeck.web.front import front_router
from quarterdeck.worker.kinds import kinds_taken

_log = get_logger(__name__)

_DISK_LOOK_S: Final = 1.0
_DISK_CHANGE_BYTES: Final = 1024 * 1024
"""A change of the disk below this is told to nobody."""
_PRESSURE_S: Final = 2.0
"""How long a worker whose disk was full asks to be spared new work."""


class Worker:
    """Make it, and `run` it once."""

    def __init__(
        self, settings: WorkerSettings, folder: DataFolder, guard: Guard, capabilities: Sequence[Capability]
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._capabilities = capabilities
        self._clock = MonotonicClock()
        self._registry = CollectorRegistry()
        self._kinds = kinds_taken(settings, capabilities)
        self._metrics = WorkerMetrics(self._registry, self._kinds)
        self._store_metrics = StoreMetrics(self._registry)
        self._memory = MemoryBudget(settings.memory_bytes)
        self._parts: Sequence[WorkerPart] = ()
        self._holder: HolderDriver | None = None
        """Where nothing can be held, there is none."""
        self._warm = False
        self._clean = True
        self._doors = Doors(guard, http_limits(settings))

    async def run(self, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Lives until it has drained; the exit code."""
        settings = self._settings
        self._guard.check("the HTTP server", settings.http_host)
        async with AsyncExitStack() as stack:
            self._loop = asyncio.get_running_loop()
            self._signals = signals
            self._storage = await asyncio.to_thread(self._open_storage)
            self._parts = await self._make_parts(stack)
            executors = {kind: one for part in self._parts for kind, one in part.executors().items()}
            self._executors = Executors(executors, self._storage.spool, settings.slots)
            stack.push_async_callback(self._executors.close, settings.shutdown_max_s / 2)
            self._route = ArtifactRoute(self._storage.spool)
            await self._listen_http(stack)
            self._driver = self._make_driver()
            self._metrics.read_figures_from(self._figures)
            self._store_metrics.read_figures_from(self._storage.objects.figures)
            self._hold(stack)
            running = asyncio.create_task(self._driver.run(), name="driver")
            stack.push_async_callback(end_task, running)
            if not await self._warm_up(signals):
                forced_end.arm(settings.shutdown_max_s)
                _log.info("the worker was told to stop before it was up")
                return 0
            alive = [running, *await self._open_parts(stack)]
            self._warm = True
            await self._connect(stack, signals)
            settle_memory()
            caches = [clear for part in self._parts for clear in part.caches()]
            limit_bytes = settings.memory_bytes
            stack.enter_context(MemoryWatch(self._memory, limit_bytes, trim=give_back_freed_memory, caches=caches))
            addresses = {"http": self._listens_at()}
            if self._doors.control is not None and settings.control_listen is not None:
                addresses["control"] = join_address(split_address(settings.control_listen)[0], self._doors.control.port)
            self._folder.announce(**addresses)
            _log.info("worker is up", worker_id=self._driver.machine.config.info.worker_id, **addresses)
            self._tell_parts()
            return await self._live(alive, signals, forced_end)

    async def _warm_up(self, signals: StopSignals) -> bool:
        """False when it is to stop meanwhile: what compiles cannot be told so, and is left behind."""
        warming = asyncio.create_task(self._warm_all(), name="warm up")
        first = asyncio.create_task(signals.first.wait(), name="first signal")
        try:
            await asyncio.wait((warming, first), return_when=asyncio.FIRST_COMPLETED)
            if warming.done():
                warming.result()
            return warming.done()
        finally:
            await end_task(first)
            await end_task(warming)

    async def _warm_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._executors.warm_up())
            for part in self._parts:
                group.create_task(part.warm_up())

    async def _live(self, alive: Sequence["asyncio.Task[None]"], signals: StopSignals, forced_end: ForcedEnd) -> int:
        """`alive` end by themselves when the worker has drained; any of them may be the first to do so."""
        settings = self._settings
        looking = asyncio.create_task(self._watch_disk(), name="watch the disk")
        looking.add_done_callback(lambda done: stop_if_broken(done, signals))
        first = asyncio.create_task(signals.first.wait(), name="first signal")
        second = asyncio.create_task(signals.second.wait(), name="second signal")
        try:
            await asyncio.wait((*alive, first), return_when=asyncio.FIRST_COMPLETED)
            forced_end.arm(settings.drain_max_s + settings.shutdown_max_s)
            self._driver.drain()
            self._tell_parts()
            while left := [task for task in alive if not task.done()]:
                await asyncio.wait((*left, second), return_when=asyncio.FIRST_COMPLETED)
                if second.done():
                    break
            forced_end.arm(settings.shutdown_max_s)
            if left:
                return EXIT_HURRIED
            for task in alive:
                task.result()
            return 0 if self._clean else ERROR_TABLE[ErrorCode.DEADLINE_EXCEEDED].exit_code
        finally:
            for task in (looking, first, second):
                await end_task(task)

    # Wiring

    def _open_storage(self) -> Storage:
        return Storage.open(
            self._settings,
            self._folder,
            base_url=self._url,
            on_lost=self._result_lost,
            on_download=self._downloaded,
        )

    def _hold(self, stack: AsyncExitStack) -> None:
        offers = {kind: one for part in self._parts for kind, one in part.holders().items()}
        if offers:
            holder = self._holder = HolderDriver(offers, clock=self._clock, send=self._driver.say)
            self._driver.invite(holder)
            holding = asyncio.create_task(holder.run(), name="held things")
            holding.add_done_callback(lambda done: stop_if_broken(done, self._signals))
            stack.push_async_callback(end_task, holding)

    def _make_driver(self) -> WorkerDriver:
        settings = self._settings
        name, incarnation = self._folder.begin_incarnation(settings.worker_id, f"{settings.node}-{_suffix()}")
        info = WorkerInfo(
            WorkerId(name),
            Incarnation(incarnation),
            self._executors.kinds,
            settings.slots,
            settings.queue_places,
            node=settings.node,
            tenant=settings.tenant,
            memory_bytes=settings.memory_bytes,
            address=self._url(),
        )
        machine = WorkerMachine(
            WorkerConfig(info, settings.artifact_ttl_s, settings.artifact_linger_s, settings.drain_max_s)
        )
        meter = WorkerMeter(self._metrics, machine, self._clock)
        observer = Observers[ev.Event, ef.Effect](meter, WorkerJournal(), self)
        return WorkerDriver(
            machine, clock=self._clock, executor=self._executors, observer=observer, on_trouble=log_trouble
        )

    async def _listen_http(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        sources = MonitorSources(
            about={"role": "worker", "version": __version__},
            missing=self._missing,
            metrics=lambda accept: render(self._registry, accept),
            metrics_form=form_of,
            scaling=self._scaling,
        )
        address = (settings.http_host, settings.http_port)
        routers = [front_router(fronts.WORKER, self._missing), *(one for part in self._parts for one in part.routers())]
        await self._doors.open_http(
            stack, address, "Quarterdeck worker", sources, routers=routers, raw={PATH_PREFIX: self._route}
        )

    async def _make_parts(self, stack: AsyncExitStack) -> Sequence[WorkerPart]:
        """Those that have something to do here. A worker loads what it executes."""
        settings = self._settings
        host = WorkerHost(
            settings=settings,
            folder=self._folder,
            guard=self._guard,
            clock=self._clock,
            registry=self._registry,
            families=self._metrics.families,
            storage=self._storage,
            memory=self._memory,
            observe=self._observe,
            url=self._url,
            set_accepting=lambda accepting: self._driver.apply(ev.AcceptingChanged(accepting)),
            leave=self._leave,
            offers=Offers(),
        )
        parts: list[WorkerPart] = []
        for one in self._capabilities:
            if one.on_worker is None or (one.kinds and not set(one.kinds) & set(self._kinds)):
                continue
            part = one.on_worker.load()(host)
            if part is not None:
                stack.push_async_callback(asyncio.to_thread, part.close)
                parts.append(part)
        return parts

    async def _open_parts(self, stack: AsyncExitStack) -> Sequence["asyncio.Task[None]"]:
        tasks = [task for part in self._parts for task in await part.open(stack)]
        for task in tasks:
            task.add_done_callback(lambda done: stop_if_broken(done, self._signals))
        return tasks

    def _leave(self, why: str) -> None:
        _log.info("the process ends", reason=why)
        self._signals.first.set()

    async def _connect(self, stack: AsyncExitStack, signals: StopSignals) -> None:
        """Coordinators are dialled, or dial us; the conversation is the same."""
        settings = self._settings
        if settings.control_listen is not None:
            host, port = split_address(settings.control_listen)
            self._guard.check("the control port", host)
            await self._doors.open_control(stack, (host, port), self._driver.serve)
            return
        backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s)
        peers = Peers("coordinators", settings.join, settings.join_dns, settings.discovery_interval_s, backoff)
        name = self._driver.machine.config.info.worker_id
        await self._doors.dial(stack, name, peers, self._driver.serve, signals, self._turned_away)

    # What happens meanwhile

    def _turned_away(self) -> None:
        self._driver.machine.counters["registrations_failed"] += 1

    def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
        """As an observer: a drain that ran out of time, and a disk that was full."""
        failed = event.error if isinstance(event, ev.ExecutionFailed) else None
        if failed is not None and failed.code == ErrorCode.RESOURCE_EXHAUSTED and failed.retryable:
            self._loop.call_soon(self._driver.apply, ev.PressureRose(_PRESSURE_S))
        for effect in effects:
            if isinstance(effect, ef.FinishDrain):
                self._clean = effect.clean
        if self._warm:
            self._tell_parts()

    def _tell_parts(self) -> None:
        machine = self._driver.machine
        idle = not machine.busy_slots and not machine.queued
        for part in self._parts:
            part.watch(idle=idle, draining=machine.status.draining)
        if self._holder is not None and machine.status.draining:
            self._holder.drain()

    def _observe(self, attempt: AttemptId, seconds: float, outcome: Outcome) -> None:
        of = exemplar(attempt.key.query_id, attempt.key.work_id)
        self._metrics.execution.query[outcome].observe(seconds, of)

    def _result_lost(self, attempt: AttemptId) -> None:
        """The disk budget evicted it, in whichever thread needed the room."""
        self._loop.call_soon_threadsafe(lambda: self._driver.apply(ev.ResultEvicted(attempt)))

    def _downloaded(self, seconds: float, size_bytes: int) -> None:
        self._metrics.execution.download.observe(seconds)
        self._metrics.execution.downloaded_bytes.inc(size_bytes)

    async def _watch_disk(self) -> None:
        told = DiskUse(-_DISK_CHANGE_BYTES, 0, 0)
        while True:
            use = self._storage.use()
            if _differ(use, told):
                told = use
                self._driver.apply(ev.DiskMeasured(use))
            await asyncio.sleep(_DISK_LOOK_S)

    # What monitors ask

    def _url(self) -> str:
        """Where coordinators reach us."""
        return self._settings.advertise_url or self._listens_at()

    def _listens_at(self) -> str:
        assert self._doors.http is not None, "artifacts are made when the server listens"
        return self._doors.http.url

    def _missing(self) -> Sequence[str]:
        missing: list[str] = []
        if not self._warm:
            missing.append("the executors are not warm yet")
        elif self._driver.machine.status.draining:
            missing.append("it is draining")
        elif next(self._driver.machine.sessions(), None) is None:
            missing.append("no session with a coordinator")
            missing += self._doors.dial_trouble.current()
        if self._warm:
            missing += self._storage.objects.trouble()
        return [*missing, *(what for part in self._parts for what in part.missing())]

    def _scaling(self) -> Mapping[str, float]:
        machine = self._driver.machine
        return {
            "queue_depth": machine.queued,
            "slots_busy": machine.busy_slots,
            "slots": machine.config.info.slots,
            "accepting_work": int(machine.status.accepting_work),
            **{name: number for part in self._parts for name, number in part.scaling().items()},
        }

    def _figures(self) -> WorkerFigures:
        machine, counters = self._driver.machine, self._driver.machine.counters
        figures, cache = self._storage.budget.figures(), self._storage.cache
        return WorkerFigures(
            active_streams=sum(1 for _ in machine.sessions()),
            queue_depth=machine.queued,
            running_tasks=machine.busy_slots,
            slots=machine.config.info.slots,
            accepting_work=machine.status.accepting_work,
            draining=machine.status.draining,
            artifacts=len(self._storage.spool),
            spool_bytes=figures.artifact_bytes + figures.temporary_bytes + self._storage.spool.memory_bytes,
            cache_bytes=figures.cache_bytes,
            disk_limit_bytes=figures.limit_bytes,
            disk_free_bytes=figures.free_bytes,
            sessions_opened=counters["sessions_opened"],
            protocol_errors=counters["protocol_errors"],
            registrations_failed=counters["registrations_failed"],
            own_pauses=counters["own_pauses"],
            rejections=self._doors.rejections(),
            stalls={route: one.count for route, one in self._doors.stalls().items()},
            stalled_s={route: one.seconds for route, one in self._doors.stalls().items()},
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            served_bytes=self._route.sent_bytes,
            drops_failed=counters["drops_failed"],
        )


def _differ(use: DiskUse, told: DiskUse) -> bool:
    changes = (
        use.artifact_bytes - told.artifact_bytes,
        use.cache_bytes - told.cache_bytes,
        use.free_bytes - told.free_bytes,
    )
    return any(abs(change) >= _DISK_CHANGE_BYTES for change in changes)


def _suffix() -> str:
    return f"{random.getrandbits(32):08x}"
