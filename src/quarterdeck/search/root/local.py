"""A search in this process alone, without recruiters, on all its processors: for the command line."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from quarterdeck.config.host import cores, memory_bytes
from quarterdeck.crew.clocks import MonotonicClock, RandomIds, wall_us
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.engine.gathering import Gathering
from quarterdeck.search.ports import ChunkAnswer
from quarterdeck.search.root.alone import Engine
from quarterdeck.search.root.driver import Ports
from quarterdeck.search.root.planning import SearchRequest
from quarterdeck.search.root.running import RunningSearch
from quarterdeck.search.root.sampling import FieldSampling
from quarterdeck.search.root.service import SearchOptions, SearchService
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.stores.threads import in_thread

_TIMEOUT_S: Final = 86_400.0
_ROWS_BYTES: Final = 256 * 1024**2
_DISK_BYTES: Final = 10 * 1024**3
_SHARE: Final = 4
"""The engine's threads together may use one part of this many of the memory there is."""


@asynccontextmanager
async def open_local_search(
    request: SearchRequest, *, s3: S3Options | None = None, at_once: int | None = None
) -> AsyncGenerator[RunningSearch]:
    """As `SearchService.opened`. `at_once` chunks are searched at the same time, by default one on each processor."""
    threads = at_once or cores()
    objects = ObjectStores(s3)
    with TemporaryDirectory(prefix="quarterdeck-search-") as name:
        folder = Path(name)
        memory = max(_ROWS_BYTES, memory_bytes() // (_SHARE * threads))
        disk = DiskBudget(folder, DiskLimits(2 * _DISK_BYTES))  # for rows, and for files of S3
        engine = Engine(objects, folder, at_once=threads, memory_bytes=memory, disk_bytes=_DISK_BYTES, disk=disk)
        try:
            service = SearchService(
                objects,
                Ports(_Nobody(), _Nobody(), engine.executor, MonotonicClock()),
                FieldSampling(objects, engine.searcher.probe),
                lambda spec: Gathering(spec, folder, memory_bytes=_ROWS_BYTES, disk_bytes=_DISK_BYTES, disk=disk),
                RandomIds(),
                wall_us,
                SearchOptions(timeout_s=_TIMEOUT_S, alone_at_once=threads, has_recruiters=False),
            )
            try:
                async with service.opened(request) as running:
                    yield running
            finally:
                await service.end()
        finally:
            await in_thread(engine.close)


class _Nobody:
    """Implements `ports.Recruiting` and `ports.SearchWorkers` where there is nobody."""

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        del number, label, tenant
        return ()

    async def search(self, worker: Recruited, *_: object, **_more: object) -> ChunkAnswer:
        raise AssertionError(f"{worker} was recruited by nobody")

    async def release(self, worker: Recruited) -> None:
        raise AssertionError(f"{worker} was recruited by nobody")
