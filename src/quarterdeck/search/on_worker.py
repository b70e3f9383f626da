"""A worker's part in log searches: the engine that searches what roots send while they have reserved the worker."""

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from fastapi import APIRouter

from quarterdeck.capability.worker import WorkerHost, WorkerPart
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter.agent import ReservationAgent
from quarterdeck.recruiter.settings import ReservationSettings
from quarterdeck.search.engine.contained_search import ContainedSearcher
from quarterdeck.search.engine.gathering import Gathering
from quarterdeck.search.executor import ChunkExecutor
from quarterdeck.search.model import SearchSpec
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.search.root.running import Gatherer
from quarterdeck.search.worker_routes import ChunkService, worker_router
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.source_roots import SourceRoots

_LINES_MEMORY_BYTES: Final = 64 * MIB
_LINES_DISK_BYTES: Final = 4096 * MIB
"""For rows that somebody wants as lines: a root of ours takes them as they are."""


class SearchOnWorker(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        settings, storage = host.settings, host.storage
        self._host = host
        self._lines = host.folder.folder("searches")
        shutil.rmtree(self._lines, ignore_errors=True)  # of a process that was killed: nobody counts it
        self._searcher = ContainedSearcher(at_once=settings.slots, memory_limit_bytes=settings.duckdb_memory_bytes)
        self._executor = ChunkExecutor(self._searcher, PieceOpener(storage.objects, storage.cache), settings.slots)
        self._service: ChunkService | None = None

    def routers(self) -> Sequence[APIRouter]:
        return (worker_router(self._served, SourceRoots(self._host.settings.source_roots)),)

    async def warm_up(self) -> None:
        await self._executor.warm_up()

    async def open(self, stack: AsyncExitStack) -> Sequence["asyncio.Task[None]"]:
        del stack
        agent = self._host.offers.get(ReservationAgent)
        assert agent is not None, "what reserves this worker is opened before what searches on it"
        self._service = ChunkService(agent, self._executor, self._host.storage.objects, self._make_gatherer)
        return ()

    def close(self) -> None:
        self._executor.close()
        self._searcher.close()

    def _served(self) -> ChunkService:
        if self._service is None:
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE, "the chunk was not searched", "the worker is starting", "recruit one that is up"
            )
        return self._service

    def _make_gatherer(self, spec: SearchSpec) -> Gatherer:
        return Gathering(
            spec,
            self._lines,
            memory_bytes=_LINES_MEMORY_BYTES,
            disk_bytes=_LINES_DISK_BYTES,
            disk=self._host.storage.budget,
        )


def search_on_worker(host: WorkerHost) -> SearchOnWorker | None:
    """None where the worker is never reserved, and so has nobody to search for."""
    return SearchOnWorker(host) if host.settings.section(ReservationSettings).urls else None
