"""One worker, wired: executors, artifacts and cache on one disk budget, HTTP for artifacts and monitors, the control
stream to its coordinators, and an end that drains.

It decides nothing about work: that is the machine's affair, and the driver carries it out.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from quarterdeck import __version__
from quarterdeck.config import WorkerSettings
from quarterdeck.control.discovery import join_address, split_address
from quarterdeck.core.backoff import Backoff
from quarterdeck.core.errors import ERROR_TABLE, ErrorCode
from quarterdeck.core.ids import Incarnation, WorkerId
from quarterdeck.core.workcoord.model import AttemptId, DiskUse, WorkerInfo
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.core.workcoord.worker import effects as ef
from quarterdeck.core.workcoord.worker import events as ev
from quarterdeck.crew.artifacts.format import PATH_PREFIX
from quarterdeck.crew.artifacts.route import ArtifactRoute
from quarterdeck.crew.driver import Observers
from quarterdeck.crew.executors import Executors
from quarterdeck.crew.observers.journal import WorkerJournal, log_trouble
from quarterdeck.crew.observers.metering import WorkerMeter
from quarterdeck.crew.process.clocks import MonotonicClock
from quarterdeck.crew.process.doors import Doors, Peers
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import (
    EXIT_HURRIED,
    ForcedEnd,
    StopSignals,
    end_task,
    settle_memory,
    stop_if_broken,
)
from quarterdeck.crew.process.room import http_limits
from quarterdeck.crew.worker import WorkerDriver
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.telemetry.exposition import form_of, render
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import StoreMetrics, WorkerFigures, WorkerMetrics
from quarterdeck.web import fronts
from quarterdeck.web.front import front_router
from quarterdeck.worker.kinds import Kinds, all_kinds
from quarterdeck.worker.storage import Storage

if TYPE_CHECKING:
    from quarterdeck.recruiter.machine.reservation import ReservationMachine
    from quarterdeck.worker.recruitment import Recruitment

_log = get_logger(__name__)

_DISK_LOOK_S: Final = 1.0
_DISK_CHANGE_BYTES: Final = 1024 * 1024
"""A change of the disk below this is told to nobody."""
_PRESSURE_S: Final = 2.0
"""How long a worker whose disk was full asks to be spared new work."""


class Worker:
    """Make it, and `run` it once."""

    def __init__(
        self,
        settings: WorkerSettings,
        folder: DataFolder,
        guard: Guard,
        make_kinds: Callable[[WorkerSettings, Storage, WorkerMetrics], Kinds] = all_kinds,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._make_kinds = make_kinds
        self._clock = MonotonicClock()
        self._registry = CollectorRegistry()
        self._metrics = WorkerMetrics(self._registry)
        self._store_metrics = StoreMetrics(self._registry)
        self._warm = False
        self._clean = True
        self._doors = Doors(guard, http_limits(settings))
        self._recruitment = self._make_recruitment()

    async def run(self, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Lives until it has drained; the exit code."""
        settings = self._settings
        self._guard.check("the HTTP server", settings.http_host)
        self._guard.check_dialling_urls(settings.recruiters)
        async with AsyncExitStack() as stack:
            self._loop = asyncio.get_running_loop()
            self._storage = await asyncio.to_thread(self._open_storage)
            kinds = self._make_kinds(settings, self._storage, self._metrics)
            stack.callback(kinds.close)
            self._shelf, self._memory = kinds.shelf, kinds.memory
            self._executors = Executors(kinds.executors, settings.slots)
            stack.push_async_callback(self._executors.close, settings.shutdown_max_s / 2)
            self._route = ArtifactRoute(self._storage.spool)
            await self._listen_http(stack)
            self._driver = self._make_driver()
            self._metrics.read_figures_from(self._figures)
            self._store_metrics.read_figures_from(self._storage.objects.figures)
            running = asyncio.create_task(self._driver.run(), name="driver")
            stack.push_async_callback(end_task, running)
            if not await self._warm_up(signals):
                forced_end.arm(settings.shutdown_max_s)
                _log.info("the worker was told to stop before it was up")
                return 0
            alive = [running, *await self._open_recruitment(stack, signals)]
            self._warm = True
            await self._connect(stack, signals)
            settle_memory()
            if kinds.watch is not None:
                stack.enter_context(kinds.watch())
            addresses = {"http": self._listens_at()}
            if self._doors.control is not None and settings.control_listen is not None:
                addresses["control"] = join_address(split_address(settings.control_listen)[0], self._doors.control.port)
            self._folder.announce(**addresses)
            _log.info("worker is up", worker_id=self._driver.machine.config.info.worker_id, **addresses)
            self._watch_recruitment()
            return await self._live(alive, signals, forced_end)

    async def _warm_up(self, signals: StopSignals) -> bool:
        """False when it is to stop meanwhile: what compiles cannot be told so, and is left behind."""
        warming = asyncio.create_task(self._executors.warm_up(), name="warm up")
        first = asyncio.create_task(signals.first.wait(), name="first signal")
        try:
            await asyncio.wait((warming, first), return_when=asyncio.FIRST_COMPLETED)
            if warming.done():
                warming.result()
            return warming.done()
        finally:
            await end_task(first)
            await end_task(warming)

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
            self._watch_recruitment()
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
        routers = [front_router(fronts.WORKER, self._missing)]
        if self._recruitment is not None:
            routers.append(self._recruitment.router)
        await self._doors.open_http(
            stack, address, "Quarterdeck worker", sources, routers=routers, raw={PATH_PREFIX: self._route}
        )

    def _make_recruitment(self) -> "Recruitment | None":
        if not self._settings.recruiters:
            return None
        from quarterdeck.worker.recruitment import Recruitment  # noqa: PLC0415 - a worker loads what it executes

        return Recruitment(self._settings, self._folder, self._guard)

    async def _open_recruitment(self, stack: AsyncExitStack, signals: StopSignals) -> Sequence["asyncio.Task[None]"]:
        if self._recruitment is None:
            return ()

        def set_accepting(accepting: bool) -> None:
            self._driver.apply(ev.AcceptingChanged(accepting))

        def leave(why: str) -> None:
            _log.info("the process ends", reason=why)
            signals.first.set()

        agent = await self._recruitment.open(
            stack, self._url(), self._storage, self._clock, set_accepting=set_accepting, leave=leave
        )
        agent.add_done_callback(lambda done: stop_if_broken(done, signals))
        return (agent,)

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
            self._watch_recruitment()

    def _watch_recruitment(self) -> None:
        """It may be recruited while it has nothing to do for coordinators."""
        if self._recruitment is not None:
            machine = self._driver.machine
            idle = not machine.busy_slots and not machine.queued
            self._recruitment.watch(idle=idle, draining=machine.status.draining)

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
        return missing + self._storage.objects.trouble() if self._warm else missing

    def _scaling(self) -> Mapping[str, float]:
        machine, reservation = self._driver.machine, self._reservation()
        return {
            "queue_depth": machine.queued,
            "slots_busy": machine.busy_slots,
            "slots": machine.config.info.slots,
            "accepting_work": int(machine.status.accepting_work),
            "reserved": int(reservation is not None and reservation.is_reserved),
            "searches_in_flight": 0 if reservation is None else reservation.searches,
        }

    def _reservation(self) -> "ReservationMachine | None":
        return None if self._recruitment is None else self._recruitment.machine

    def _figures(self) -> WorkerFigures:
        machine, counters = self._driver.machine, self._driver.machine.counters
        figures, cache, shelf = self._storage.budget.figures(), self._storage.cache, self._shelf
        reservation = self._reservation()
        return WorkerFigures(
            active_streams=sum(1 for _ in machine.sessions()),
            queue_depth=machine.queued,
            running_tasks=machine.busy_slots,
            slots=machine.config.info.slots,
            accepting_work=machine.status.accepting_work,
            draining=machine.status.draining,
            artifacts=len(self._storage.spool),
            spool_bytes=figures.artifact_bytes + self._storage.spool.memory_bytes,
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
            sample_memory_bytes=0 if shelf is None else shelf.used_bytes,
            sample_hits=0 if shelf is None else shelf.hits,
            sample_misses=0 if shelf is None else shelf.misses,
            query_memory_bytes=0 if self._memory is None else self._memory.used_bytes,
            queries_ended_for_memory=0 if self._memory is None else self._memory.ended,
            reserved=reservation is not None and reservation.is_reserved,
            searches=0 if reservation is None else reservation.searches,
            searches_broken=0 if reservation is None else reservation.counters["searches_broken"],
            recruit_failures=0 if reservation is None else reservation.failed_registrations,
            abandoned=0 if reservation is None else reservation.counters["abandoned"],
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
