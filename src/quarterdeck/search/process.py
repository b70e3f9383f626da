"""One recruiter by itself, wired: HTTP for workers that register and for roots that recruit them, log searches whose
root it is, and an end that sends its workers to the next recruiter.

It decides nothing: the machine does, and the service carries it out. It stores nothing either.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from quarterdeck import __version__
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.process.doors import Doors
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import EXIT_HURRIED, ForcedEnd, StopSignals, end_task, settle_memory
from quarterdeck.crew.process.room import http_limits
from quarterdeck.crew.process.status import queries_router
from quarterdeck.crew.query_log import QueryLog
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.http.server import HttpServer
from quarterdeck.recruiter.metering import RecruiterFigures, RecruiterMeter, RecruiterMetrics, measured, scaling
from quarterdeck.recruiter.routes import RecruiterRoute, recruiter_router
from quarterdeck.recruiter.service import OwnRecruiter, RecruiterService
from quarterdeck.search.asks import ASKS
from quarterdeck.search.metering import SearchMetrics
from quarterdeck.search.root.assembly import SearchRoot
from quarterdeck.search.root.routes import search_router
from quarterdeck.search.settings import RecruiterSettings, SearchSettings
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.stores.source_roots import SourceRoots
from quarterdeck.telemetry.exposition import form_of, new_registry, render
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import StoreMetrics, register_process
from quarterdeck.web.front import Ask, Front, Panel, curl, front_router

_log = get_logger(__name__)

_POLL_REQUESTS_S: Final = 0.05
FRONT: Final = Front(
    "recruiter",
    "It keeps a pool of idle workers, gives them to whoever has a long search, and searches logs with them.",
    (*ASKS, Ask("Its free workers", curl("/recruiter/listfree"))),
    (Panel("figures", "recruiter/stats", "Pool"), Panel("queries", "v1/queries?limit=25", "Searches")),
)


class Recruiter:
    """Make it, and `run` it once."""

    def __init__(self, settings: RecruiterSettings, folder: DataFolder, guard: Guard) -> None:
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._doors = Doors(guard, http_limits(settings))
        self._registry = new_registry()
        register_process(self._registry, "recruiter")
        self._metrics = RecruiterMetrics(self._registry)
        self._objects = ObjectStores(S3Options(**settings.s3.options()), timeout_s=settings.store_timeout_s)
        self._store_metrics = StoreMetrics(self._registry)
        clock, ids = MonotonicClock(), RandomIds()
        self._log = QueryLog(clock)
        self._recruiter = RecruiterService(clock, ids, RecruiterMeter(self._metrics.wait))
        self._search = SearchRoot(
            settings.section(SearchSettings),
            folder.folder("search"),
            self._objects,
            clock,
            ids,
            OwnRecruiter(self._recruiter),
            SearchMetrics(self._registry),
            authorize=guard.authorize,
            ssl=guard.client_context,
            log=self._log,
            disk=DiskBudget(folder.path, DiskLimits(settings.spool_limit_bytes)),
        )
        self._stopping = False

    async def run(self, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Lives until it is told to stop; the exit code."""
        settings = self._settings
        self._guard.check("the HTTP server", settings.http_host)
        self._guard.check_dialling_urls(settings.section(SearchSettings).recruiters)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._search.close)
            self._metrics.read_figures_from(self._figures)
            self._store_metrics.read_figures_from(self._objects.figures)
            http = await self._listen_http(stack)
            settle_memory()
            self._folder.announce(http=http.url)
            _log.info("recruiter is up", url=http.url)
            return await self._live(http, signals, forced_end)

    async def _live(self, http: HttpServer, signals: StopSignals, forced_end: ForcedEnd) -> int:
        """Until the first signal; then all registrations are answered, and other requests may finish for a while."""
        settings = self._settings
        await signals.first.wait()
        self._stopping = True
        self._recruiter.close()
        self._search.service.close()
        forced_end.arm(settings.shutdown_grace_s + settings.shutdown_max_s)
        second = asyncio.create_task(signals.second.wait(), name="second signal")
        quiet = asyncio.create_task(self._wait_quiet(http), name="wait for requests")
        try:
            await asyncio.wait((second, quiet), timeout=settings.shutdown_grace_s, return_when=asyncio.FIRST_COMPLETED)
            hurried = second.done()
        finally:
            await end_task(second)
            await end_task(quiet)
        forced_end.arm(settings.shutdown_max_s)
        await http.stop(1.0)
        return EXIT_HURRIED if hurried else 0

    async def _wait_quiet(self, http: HttpServer) -> None:
        """Every request is answered, and the workers of every search are given back."""
        while http.open_requests or self._search.service.is_busy:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_REQUESTS_S)

    async def _listen_http(self, stack: AsyncExitStack) -> HttpServer:
        sources = MonitorSources(
            about={"role": "recruiter", "version": __version__},
            missing=self._missing,
            metrics=lambda accept: render(self._registry, accept),
            metrics_form=form_of,
            scaling=lambda: scaling(self._recruiter.figures()),
        )
        route = RecruiterRoute(self._recruiter)
        roots = SourceRoots(self._settings.source_roots)
        routers = [
            front_router(FRONT, self._missing),
            recruiter_router(self._recruiter, route),
            search_router(self._search.service, roots=roots),
            queries_router(self._log),
        ]
        address = (self._settings.http_host, self._settings.http_port)
        return await self._doors.open_http(
            stack, address, "Quarterdeck recruiter", sources, routers=routers, raw=route.by_path()
        )

    # What monitors ask

    def _missing(self) -> Sequence[str]:
        """It is ready without a worker: it must be, for workers to reach it."""
        return ["it is shutting down"] if self._stopping else self._objects.trouble()

    def _figures(self) -> RecruiterFigures:
        return measured(self._recruiter.figures(), self._doors.rejections(), self._doors.stalls())
