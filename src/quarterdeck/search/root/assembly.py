"""The root of log searches, wired as a process has it: the engine, the ways to workers, the disk, and the service."""

import asyncio
import shutil
import ssl as tls
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from quarterdeck.crew.clocks import wall_us
from quarterdeck.crew.ports import Clock
from quarterdeck.crew.query_log import QueryLog
from quarterdeck.http.client import Origin
from quarterdeck.recruiter.client import HttpRecruiting
from quarterdeck.recruiter.ports import Recruiting
from quarterdeck.search.client import HttpSearchWorkers
from quarterdeck.search.engine.gathering import Gathering
from quarterdeck.search.metering import SearchFigures, SearchMetrics
from quarterdeck.search.model import SearchSpec
from quarterdeck.search.root.alone import Engine
from quarterdeck.search.root.driver import Ports
from quarterdeck.search.root.recruiting import OneAfterTheOther
from quarterdeck.search.root.sampling import FieldSampling
from quarterdeck.search.root.service import QueryIds, SearchOptions, SearchService
from quarterdeck.search.settings import SearchSettings
from quarterdeck.search.stored_rows import RowLimits
from quarterdeck.stores.disk import DiskBudget
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)


class SearchRoot:
    """Make it before the loop runs, and close it when no search is open any more."""

    def __init__(
        self,
        settings: SearchSettings,
        folder: Path,
        objects: ObjectStores,
        clock: Clock,
        ids: QueryIds,
        own: Recruiting | None,
        metrics: SearchMetrics,
        *,
        authorize: Callable[[Origin], str | None],
        ssl: tls.SSLContext | None,
        log: QueryLog,
        disk: DiskBudget,
    ) -> None:
        """`own` is the recruiter of this process, if it has one; `log` remembers its queries; `disk` counts its
        files."""
        self._spool = folder / "rows"
        self._settings = settings
        self._disk = disk
        self._engine = Engine(
            objects,
            folder,
            at_once=settings.alone_at_once,
            memory_bytes=settings.alone_memory_bytes,
            disk_bytes=settings.spool_bytes,
            disk=disk,
        )
        shutil.rmtree(self._spool, ignore_errors=True)  # of a process that was killed
        self._spool.mkdir(parents=True)
        self._recruiting = HttpRecruiting(
            settings.recruiters, Random(), authorize=authorize, ssl=ssl, on_trouble=_tell_trouble
        )
        rows = RowLimits(self._spool, disk_bytes=settings.spool_bytes, disk=disk)
        self._workers = HttpSearchWorkers(authorize=authorize, ssl=ssl, rows=rows)
        recruiting = OneAfterTheOther([*([] if own is None else [own]), self._recruiting])
        self.service: Final = SearchService(
            objects,
            Ports(recruiting, self._workers, self._engine.executor, clock),
            FieldSampling(objects, self._engine.searcher.probe),
            self._gathering,
            ids,
            wall_us,
            SearchOptions(
                timeout_s=settings.timeout_s,
                at_once=settings.searches_at_once,
                alone_at_once=settings.alone_at_once,
                running_bytes=settings.in_flight_bytes,
                held_bytes=settings.memory_bytes,
            ),
            metrics,
            log,
        )
        metrics.read_figures_from(lambda: SearchFigures(running=self.service.admission.running))

    async def close(self) -> None:
        await self.service.end()
        await self._recruiting.close()
        await self._workers.close()
        await asyncio.to_thread(self._engine.close)

    def _gathering(self, spec: SearchSpec) -> Gathering:
        settings = self._settings
        return Gathering(
            spec,
            self._spool,
            memory_bytes=settings.memory_bytes,
            disk_bytes=settings.spool_bytes,
            disk=self._disk,
        )


def _tell_trouble(why: str) -> None:
    _log.warning("a recruiter was passed over", reason=why)
