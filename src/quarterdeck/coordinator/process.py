"""One coordinator, wired: the control stream to its workers, fetches of their results, HTTP for whoever asks, and an
end that lets running queries finish for a while.

It decides nothing about work: that is the machine's affair, and the driver carries it out.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from prometheus_client import CollectorRegistry

from quarterdeck import __version__
from quarterdeck.capability import Capability, Offers
from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.config import CoordinatorSettings
from quarterdeck.control.discovery import join_address
from quarterdeck.core.backoff import Backoff
from quarterdeck.core.ids import CoordinatorId, WorkerId
from quarterdeck.core.leadership.model import LeaseConfig
from quarterdeck.core.reconcile.leader import LeaderMachine
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.machine import CoordinatorConfig
from quarterdeck.core.workcoord.coordinator.tables import WorkerState
from quarterdeck.core.workcoord.model import LivenessPolicy
from quarterdeck.crew.artifacts.failures import FetchFailure
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.fetcher import ArtifactFetcher
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.declared.database_store import DatabaseStore
from quarterdeck.crew.declared.declarations import Declarations
from quarterdeck.crew.declared.leader import LeaderDriver
from quarterdeck.crew.declared.tables import DECLARED_SCHEMA
from quarterdeck.crew.driver import Observers
from quarterdeck.crew.leadership import Leadership
from quarterdeck.crew.observers.journal import CoordinatorJournal, log_trouble
from quarterdeck.crew.observers.leading import LeadershipJournal
from quarterdeck.crew.observers.metering import CoordinatorMeter, oldest_wait_s
from quarterdeck.crew.observers.summaries import Summaries
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.crew.process.doors import Doors, Peers
from quarterdeck.crew.process.freed_memory import give_back_freed_memory, share_arenas, use_one_allocator
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
from quarterdeck.crew.process.status import queries_router, status_router
from quarterdeck.crew.query_log import QueryLog
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.http.server import HttpServer
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.leadership.tables import LEADERSHIP_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.stores.source_roots import SourceRoots
from quarterdeck.telemetry.exposition import form_of, render
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import CoordinatorFigures, CoordinatorMetrics, LeadershipMetrics, StoreMetrics
from quarterdeck.web import fronts
from quarterdeck.web.front import front_router

_log = get_logger(__name__)

_POLL_QUERIES_S: Final = 0.05


class Coordinator:
    """Make it, and `run` it once."""

    def __init__(
        self, settings: CoordinatorSettings, folder: DataFolder, guard: Guard, capabilities: Sequence[Capability]
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._clock = MonotonicClock()
        self._ids = RandomIds()
        self._registry = CollectorRegistry()
        self._metrics = CoordinatorMetrics(self._registry)
        self._summaries = Summaries(self._clock)
        self._timelines = Timelines(self._clock)
        self._log = QueryLog(self._clock, self._summaries.find)
        self._stopping = False
        self._doors = Doors(guard, http_limits(settings))
        self._budget = DiskBudget(folder.folder("spool"), DiskLimits(settings.spool_limit_bytes))
        self._machine = CoordinatorMachine(
            CoordinatorConfig(
                CoordinatorId(settings.coordinator_id),
                LivenessPolicy(settings.heartbeat_interval_s, settings.warn_after_missed, settings.lost_after_missed),
                settings.spill_after_s,
            )
        )
        self._meter = CoordinatorMeter(self._metrics, self._machine, self._clock)
        self._fetcher = ArtifactFetcher(
            folder.folder("spool"),
            self._budget,
            timeout_s=settings.fetch_timeout_s,
            stall_timeout_s=settings.fetch_stall_timeout_s,
            memory_limit_bytes=settings.fetch_memory_bytes,
            at_once=settings.fetches_at_once,
            authorize=guard.authorize,
            ssl=guard.client_context,
            on_begin=self._meter.fetch_began,
            address_of=self._address_of,
        )
        self._driver: CoordinatorDriver[FetchedArtifact] = CoordinatorDriver(
            self._machine,
            clock=self._clock,
            ids=self._ids,
            fetcher=self._fetcher,
            observer=Observers[ev.Event, ef.Effect](
                self._meter, CoordinatorJournal(), self._summaries, self._timelines
            ),
            on_trouble=log_trouble,
        )
        s3 = S3Options(**settings.s3.options())
        self._objects = ObjectStores(s3, timeout_s=settings.store_timeout_s)
        StoreMetrics(self._registry).read_figures_from(self._objects.figures)
        self._memory = MemoryBudget(settings.memory_bytes)
        declares = any(one.held_kinds for one in capabilities)
        elects = declares or any(one.declares_state for one in capabilities)
        schemas = [one.schema.load() for one in capabilities if one.schema is not None]
        schemas += [FENCES_SCHEMA, LEADERSHIP_SCHEMA] if elects else []
        schemas += [DECLARED_SCHEMA] if declares else []
        self._database = ThreadedDatabase(open_database(settings.database_url, schemas))
        self._leadership = self._candidacy() if elects else None
        self._leader = self._declare(self._leadership) if declares and self._leadership is not None else None
        host = CoordinatorHost(
            settings=settings,
            folder=folder,
            guard=guard,
            clock=self._clock,
            ids=self._ids,
            doors=self._doors,
            registry=self._registry,
            families=self._metrics.families,
            driver=self._driver,
            s3=s3,
            objects=self._objects,
            roots=SourceRoots(
                settings.source_roots or [root for one in settings.sections() for root in one.default_roots()]
            ),
            database=self._database,
            leadership=self._leadership,
            declarations=None if self._leader is None else Declarations(self._leader.store, self._leader.look),
            disk=self._budget,
            memory=self._memory,
            log=self._log,
            timelines=self._timelines,
            missing=self._missing,
            offers=Offers(),
        )
        made = [one.on_coordinator.load()(host) for one in capabilities if one.on_coordinator is not None]
        self._parts: Sequence[CoordinatorPart] = [part for part in made if part is not None]

    async def run(self, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Lives until it is told to stop; the exit code."""
        settings = self._settings
        self._guard.check("the HTTP server", settings.http_host)
        self._guard.check("the control port", settings.control_host)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._database.close)
            for part in self._parts:
                await part.open(stack)
            use_one_allocator()
            share_arenas()
            await self._database.upgrade()
            await self._fetcher.start()
            stack.push_async_callback(self._fetcher.close)
            self._metrics.read_figures_from(self._figures)
            running = asyncio.create_task(self._driver.run(), name="driver")
            stack.push_async_callback(end_task, running)
            control = (settings.control_host, settings.control_port)
            server = await self._doors.open_control(stack, control, self._driver.serve)
            await self._dial(stack, signals)
            http = await self._listen_http(stack)
            for part in self._parts:
                await part.begin(stack, signals)
            if self._leadership is not None:
                await self._stand(stack, self._leadership, signals)
            settle_memory()
            stack.enter_context(MemoryWatch(self._memory, settings.memory_bytes, trim=give_back_freed_memory))
            self._folder.announce(http=http.url, control=join_address(settings.control_host, server.port))
            _log.info("coordinator is up", url=http.url, control_port=server.port)
            return await self._live(http, signals, forced_end)

    async def _live(self, http: HttpServer, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Until the first signal; then running queries may finish for a while, and no new ones are taken."""
        settings = self._settings
        await signals.first.wait()
        self._stopping = True
        for part in self._parts:
            part.close()
        forced_end.arm(settings.shutdown_grace_s + settings.shutdown_max_s)
        second = asyncio.create_task(signals.second.wait(), name="second signal")
        quiet = asyncio.create_task(self._wait_quiet(), name="wait for queries")
        try:
            await asyncio.wait((second, quiet), timeout=settings.shutdown_grace_s, return_when=asyncio.FIRST_COMPLETED)
            hurried = second.done()
        finally:
            await end_task(second)
            await end_task(quiet)
        forced_end.arm(settings.shutdown_max_s)
        self._driver.stop("the coordinator was told to stop")
        await http.stop(1.0)
        return EXIT_HURRIED if hurried else 0

    async def _wait_quiet(self) -> None:
        """Another may lead, no query is open, and every answer has been sent: a client may still read what its query
        has brought."""
        if self._leadership is not None:
            await self._leadership.release()
        while self._is_busy():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_QUERIES_S)

    def _is_busy(self) -> bool:
        is_asked = next(self._machine.ledger.queries(), None) is not None
        return is_asked or any(part.is_busy for part in self._parts)

    # Wiring

    def _candidacy(self) -> Leadership:
        settings = self._settings
        lease = LeaseConfig(self._ids.candidate_id(), settings.coordinator_id, settings.leadership_lease_s)
        leadership = Leadership(self._database, lease, self._clock, LeadershipJournal())
        LeadershipMetrics(self._registry).read_figures_from(leadership.figures)
        return leadership

    def _declare(self, leadership: Leadership) -> LeaderDriver:
        leader = LeaderDriver(
            LeaderMachine(),
            DatabaseStore(self._database),
            clock=self._clock,
            send=self._driver.say,
            on_doubt=leadership.doubt,
        )
        self._driver.invite(leader)
        leadership.follow(leader.lead)
        return leader

    async def _stand(self, stack: AsyncExitStack, leadership: Leadership, signals: StopSignals) -> None:
        """When all parts are there: one that leads is asked at once."""
        if self._leader is not None:
            leading = asyncio.create_task(self._leader.run(), name="declared things")
            leading.add_done_callback(lambda task: stop_if_broken(task, signals))
            stack.push_async_callback(end_task, leading)
        standing = asyncio.create_task(leadership.run(), name="leadership")
        standing.add_done_callback(lambda task: stop_if_broken(task, signals))
        stack.push_async_callback(end_task, standing)
        stack.push_async_callback(leadership.release)  # where queries were given no time to end, it was not waited for

    async def _dial(self, stack: AsyncExitStack, signals: StopSignals) -> None:
        """Dials workers, where they are not the ones who join."""
        settings = self._settings
        backoff = Backoff(settings.reconnect_first_s, settings.reconnect_max_s)
        peers = Peers("workers", settings.workers, settings.workers_dns, settings.discovery_interval_s, backoff)
        await self._doors.dial(stack, settings.coordinator_id, peers, self._driver.serve, signals, self._turned_away)

    def _turned_away(self) -> None:
        self._machine.counters["connections_without_registration"] += 1

    async def _listen_http(self, stack: AsyncExitStack) -> HttpServer:
        settings = self._settings
        sources = MonitorSources(
            about={"role": "coordinator", "version": __version__},
            missing=self._missing,
            metrics=lambda accept: render(self._registry, accept),
            metrics_form=form_of,
            scaling=self._scaling,
        )
        asks = [ask for part in self._parts for ask in part.asks()]
        routers = [
            front_router(fronts.coordinator(asks), self._missing),
            status_router(self._driver, self._clock, settings.coordinator_id, self._leadership),
            queries_router(self._log),
            *(router for part in self._parts for router in part.routers()),
        ]
        address = (settings.http_host, settings.http_port)
        return await self._doors.open_http(
            stack,
            address,
            "Quarterdeck",
            sources,
            routers=routers,
            raw={path: app for part in self._parts for path, app in part.raw_routes().items()},
            reading_prefixes=tuple(prefix for part in self._parts for prefix in part.reading_prefixes),
        )

    def _address_of(self, worker_id: WorkerId) -> str | None:
        """Where a worker said that its results are, when it registered."""
        session = self._machine.roster.of_worker(worker_id)
        return None if session is None else session.worker.address

    # What monitors ask

    def _missing(self) -> Sequence[str]:
        if self._stopping:
            return ["it is shutting down"]
        states = self._meter.workers_by_state()
        missing = [] if states[WorkerState.ACCEPTING] else ["no worker accepts work"]
        missing += self._objects.trouble()
        return [*missing, *(what for part in self._parts for what in part.missing())]

    def _scaling(self) -> Mapping[str, float]:
        states = self._meter.workers_by_state()
        sessions = list(self._machine.roster.sessions())
        return {
            "queue_depth": self._machine.pending,
            "oldest_age_s": round(oldest_wait_s(self._machine.ledger.queries(), self._clock.now()), 3),
            "works_in_flight": sum(session.outstanding for session in sessions),
            "workers": len(sessions),
            "workers_accepting": states[WorkerState.ACCEPTING],
            "slots": sum(session.worker.slots for session in sessions),
            **{name: number for part in self._parts for name, number in part.scaling().items()},
        }

    def _figures(self) -> CoordinatorFigures:
        machine, counters, disk = self._machine, self._machine.counters, self._budget.figures()
        return CoordinatorFigures(
            active_streams=len(machine.roster),
            active_queries=sum(1 for _ in machine.ledger.queries()),
            queue_depth=machine.pending,
            oldest_work_age_s=oldest_wait_s(machine.ledger.queries(), self._clock.now()),
            works=self._meter.works_by_state(),
            workers=self._meter.workers_by_state(),
            spool_bytes=disk.artifact_bytes + disk.temporary_bytes,
            disk_free_bytes=disk.free_bytes,
            sessions_opened=counters["sessions_opened"],
            protocol_errors=counters["protocol_errors"],
            connections_without_registration=counters["connections_without_registration"],
            registrations_refused=counters["registrations_refused"],
            own_pauses=counters["own_pauses"],
            rejections=self._doors.rejections(),
            stalls={route: one.count for route, one in self._doors.stalls().items()},
            stalled_s={route: one.seconds for route, one in self._doors.stalls().items()},
            affinity_hits=counters["assigned_at_home"],
            affinity_misses=counters["assigned_spilled"],
            fetched_bytes=self._fetcher.counters["bytes"],
            checksum_mismatches=self._fetcher.counters[FetchFailure.CHECKSUM_MISMATCH],
            results_dropped=counters["results_dropped"],
        )
