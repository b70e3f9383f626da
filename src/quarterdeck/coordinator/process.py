"""One coordinator, wired: the control stream to its workers, fetches of their results, HTTP for whoever asks, and an
end that lets running queries finish for a while.

It decides nothing about work: that is the machine's affair, and the driver carries it out.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from prometheus_client import CollectorRegistry

from quarterdeck import __version__
from quarterdeck.config import CoordinatorSettings
from quarterdeck.control.discovery import join_address
from quarterdeck.core.backoff import Backoff
from quarterdeck.core.ids import CoordinatorId, WorkerId
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.machine import CoordinatorConfig
from quarterdeck.core.workcoord.coordinator.tables import WorkerState
from quarterdeck.core.workcoord.model import LivenessPolicy
from quarterdeck.crew.artifacts.failures import FetchFailure
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.fetcher import ArtifactFetcher
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.driver import Observers
from quarterdeck.crew.harvest import Window
from quarterdeck.crew.observers.journal import CoordinatorJournal, log_trouble
from quarterdeck.crew.observers.metering import CoordinatorMeter, oldest_wait_s
from quarterdeck.crew.observers.summaries import Summaries
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.crew.process.clocks import MonotonicClock, RandomIds
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
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.crew.process.memory_watch import MemoryWatch
from quarterdeck.crew.process.room import http_limits
from quarterdeck.crew.process.status import queries_router, status_router
from quarterdeck.crew.query_log import QueryLog
from quarterdeck.engines.contained_merge import ContainedMerger
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.http.server import HttpServer
from quarterdeck.metrics.api.parameters import MAX_STEPS
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.freed_memory import give_back_freed_memory, share_arenas, use_one_allocator
from quarterdeck.metrics.lake_routes import LakeSettings, lake_router
from quarterdeck.metrics.orphans import OrphanCollector
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.range_routes import range_router
from quarterdeck.metrics.routes import PREFIX, metrics_router
from quarterdeck.metrics.series_service import SeriesService
from quarterdeck.metrics.service import MetricsService, QueryOptions
from quarterdeck.metrics.status_routes import prometheus_status_router
from quarterdeck.metrics.stream_routes import stream_router
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.metrics.tag_routes import tag_router
from quarterdeck.metrics.text_routes import text_router
from quarterdeck.metrics.warming import warm_all
from quarterdeck.recruiter.metering import RecruiterMeter, measured, scaling
from quarterdeck.recruiter.routes import RecruiterRoute, recruiter_router
from quarterdeck.recruiter.service import OwnRecruiter, RecruiterService
from quarterdeck.scan.merging import MergeLimits, PartMerging
from quarterdeck.scan.routes import scan_router
from quarterdeck.scan.service import ScanService
from quarterdeck.search.root.assembly import SearchRoot
from quarterdeck.search.root.routes import search_router
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.database.threaded import ThreadedDatabase
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.stores.source_roots import SourceRoots
from quarterdeck.stores.threads import in_loose_thread
from quarterdeck.telemetry.exposition import form_of, render
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import (
    CoordinatorFigures,
    CoordinatorMetrics,
    LakeMetrics,
    RecruiterFigures,
    RecruiterMetrics,
    SearchMetrics,
    StoreMetrics,
)
from quarterdeck.web import fronts
from quarterdeck.web.front import front_router

_log = get_logger(__name__)

_POLL_QUERIES_S: Final = 0.05
_SPOOL_SHARE: Final = 8
"""One query may hold this part of the spool for a reader that is slow."""


class Coordinator:
    """Make it, and `run` it once."""

    def __init__(self, settings: CoordinatorSettings, folder: DataFolder, guard: Guard) -> None:
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
        self._lake = LakeSettings(settings.database_url, settings.lake_url, s3, settings.orphan_grace_s)
        self._store_metrics = StoreMetrics(self._registry)
        self._merger = ContainedMerger(
            at_once=settings.scan_merges_at_once,
            memory_limit_bytes=settings.scan_merge_memory_bytes,
            spill_bytes=settings.scan_merge_disk_bytes,
        )
        self._scans = ScanService(
            self._driver,
            self._objects,
            self._ids,
            self._merger,
            PartMerging(
                self._merger,
                folder.folder("merge"),
                MergeLimits(settings.scan_merges_at_once, max(1, settings.spool_limit_bytes // _SPOOL_SHARE)),
            ),
            clock=self._clock,
            window=Window(settings.window_works, max(1, settings.spool_limit_bytes // _SPOOL_SHARE)),
            wait_limit_s=settings.wait_limit_s,
            at_once=settings.scans_at_once,
            timeout_s=settings.scan_timeout_s,
            log=self._log,
        )
        self._recruiter_metrics = RecruiterMetrics(self._registry)
        self._recruiter = RecruiterService(self._clock, self._ids, RecruiterMeter(self._recruiter_metrics.wait))
        self._search = SearchRoot(
            settings,
            folder.folder("search"),
            self._objects,
            self._clock,
            self._ids,
            OwnRecruiter(self._recruiter),
            SearchMetrics(self._registry),
            authorize=guard.authorize,
            ssl=guard.client_context,
            log=self._log,
        )
        self._memory = MemoryBudget(settings.memory_bytes)
        self._database = ThreadedDatabase(open_database(settings.database_url, (METRICS_SCHEMA,)))
        self._orphans = OrphanCollector(
            self._database,
            self._objects,
            settings.lake_url,
            LakeMetrics(self._registry),
            grace_s=settings.orphan_grace_s,
            query_timeout_s=settings.query_timeout_s,
            chance=random.random,
        )
        self._queries = MetricsService(
            self._driver,
            Catalog(self._database, settings.lake_url),
            self._ids,
            self._clock,
            self._timelines,
            _query_options(settings),
            self._memory,
            self._log,
        )

    async def run(self, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Lives until it is told to stop; the exit code."""
        settings = self._settings
        self._guard.check("the HTTP server", settings.http_host)
        self._guard.check("the control port", settings.control_host)
        self._guard.check_dialling_urls(settings.recruiters)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._database.close)
            stack.callback(self._queries.end)
            stack.push_async_callback(self._search.close)
            stack.push_async_callback(asyncio.to_thread, self._merger.close)
            use_one_allocator()
            share_arenas()
            await self._database.upgrade()
            await self._fetcher.start()
            stack.push_async_callback(self._fetcher.close)
            self._metrics.read_figures_from(self._figures)
            self._recruiter_metrics.read_figures_from(self._recruiter_figures)
            self._store_metrics.read_figures_from(self._objects.figures)
            running = asyncio.create_task(self._driver.run(), name="driver")
            stack.push_async_callback(end_task, running)
            control = (settings.control_host, settings.control_port)
            server = await self._doors.open_control(stack, control, self._driver.serve)
            await self._dial(stack, signals)
            http = await self._listen_http(stack)
            await self._warm_up(stack, signals)
            stack.push_async_callback(end_task, asyncio.create_task(self._orphans.run(), name="remove orphans"))
            settle_memory()
            stack.enter_context(MemoryWatch(self._memory, settings.memory_bytes, trim=give_back_freed_memory))
            self._folder.announce(http=http.url, control=join_address(settings.control_host, server.port))
            _log.info("coordinator is up", url=http.url, control_port=server.port)
            return await self._live(http, signals, forced_end)

    async def _live(self, http: HttpServer, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Until the first signal; then running queries may finish for a while, no new ones are taken, and registered
        workers are sent to another recruiter."""
        settings = self._settings
        await signals.first.wait()
        self._stopping = True
        self._recruiter.close()
        self._scans.close()
        self._search.service.close()
        self._queries.close()
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
        """No query is open, and every answer has been sent: a client may still read what its query has brought."""
        while self._is_busy():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_QUERIES_S)

    def _is_busy(self) -> bool:
        is_asked = next(self._machine.ledger.queries(), None) is not None
        answers = self._scans.open_answers + self._queries.open_answers
        return is_asked or bool(answers) or self._search.service.is_busy

    async def _warm_up(self, stack: AsyncExitStack, signals: StopSignals) -> None:
        """In a thread, while scans are served already; queries wait for it."""
        warming = asyncio.create_task(in_loose_thread(warm_all), name="warm up")
        warming.add_done_callback(lambda done: stop_if_broken(done, signals))
        warming.add_done_callback(lambda _: self._queries.warmed.set())
        stack.push_async_callback(end_task, warming)

    # Wiring

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
        series = SeriesService(self._queries, self._driver, self._ids)
        recruiting = RecruiterRoute(self._recruiter)
        roots = SourceRoots(settings.source_roots or (settings.lake_url,))
        routers = [
            front_router(fronts.COORDINATOR, self._missing),
            status_router(self._driver, self._clock, settings.coordinator_id),
            queries_router(self._log),
            scan_router(self._scans, roots),
            search_router(self._search.service, roots=roots),
            lake_router(self._lake, self._objects),
            metrics_router(self._queries, series),
            stream_router(self._queries),
            tag_router(self._queries, series),
            range_router(self._queries),
            text_router(self._queries),
            prometheus_status_router(self._queries.options, self._missing, settings.memory_bytes),
            recruiter_router(self._recruiter, recruiting),
        ]
        address = (settings.http_host, settings.http_port)
        return await self._doors.open_http(
            stack,
            address,
            "Quarterdeck",
            sources,
            routers=routers,
            raw=recruiting.by_path(),
            reading_prefixes=(f"{PREFIX}/",),
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
        return missing if self._queries.warmed.is_set() else [*missing, "compiled code is not loaded yet"]

    def _scaling(self) -> Mapping[str, float]:
        states = self._meter.workers_by_state()
        sessions = list(self._machine.roster.sessions())
        return {
            "queue_depth": self._machine.pending,
            "oldest_age_s": round(oldest_wait_s(self._machine, self._clock.now()), 3),
            "works_in_flight": sum(session.outstanding for session in sessions),
            "workers": len(sessions),
            "workers_accepting": states[WorkerState.ACCEPTING],
            "slots": sum(session.worker.slots for session in sessions),
            "queries_running": self._queries.running,
            "queries_queued": self._queries.queued,
            "oldest_query_age_s": round(self._queries.oldest_s, 3),
            "scans_running": self._scans.admission.running,
            "scans_queued": self._scans.admission.depth,
            "oldest_scan_age_s": round(self._scans.admission.oldest_s, 3),
            **scaling(self._recruiter.figures()),
        }

    def _recruiter_figures(self) -> RecruiterFigures:
        return measured(self._recruiter.figures(), self._doors.rejections(), self._doors.stalls())

    def _figures(self) -> CoordinatorFigures:
        machine, counters, disk = self._machine, self._machine.counters, self._budget.figures()
        return CoordinatorFigures(
            active_streams=len(machine.roster),
            active_queries=sum(1 for _ in machine.ledger.queries()),
            queue_depth=machine.pending,
            oldest_work_age_s=oldest_wait_s(machine, self._clock.now()),
            works=self._meter.works_by_state(),
            workers=self._meter.workers_by_state(),
            spool_bytes=disk.artifact_bytes,
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
            queries_running=self._queries.running,
            queries_queued=self._queries.queued,
            oldest_queued_query_age_s=self._queries.oldest_s,
            query_memory_bytes=self._memory.used_bytes,
            queries_ended_for_memory=self._memory.ended,
        )


def _query_options(settings: CoordinatorSettings) -> QueryOptions:
    return QueryOptions(
        timeout_s=settings.query_timeout_s,
        at_once=settings.queries_at_once,
        wait_limit_s=settings.wait_limit_s,
        lookback_ms=round(settings.query_lookback_s * 1000),
        limits=Limits(memory_bytes=settings.query_memory_bytes, max_points=MAX_STEPS + 1),
        max_samples=settings.query_max_samples,
        max_series=settings.query_max_series,
        work_rows=settings.query_work_rows,
        result_bytes=max(1, settings.spool_limit_bytes // _SPOOL_SHARE),
    )
