"""A worker's part in log searches: its agent at the recruiters, and the engine that searches what roots send."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fastapi import APIRouter

from quarterdeck.config import WorkerSettings
from quarterdeck.core.backoff import Backoff
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.observers.journal import log_trouble
from quarterdeck.crew.ports import Clock
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import end_task
from quarterdeck.recruiter.agent import ReservationAgent
from quarterdeck.recruiter.client import HttpRegistry
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.model import Offer
from quarterdeck.search.executor import ChunkExecutor
from quarterdeck.search.model import SearchSpec
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.search.root.running import Gatherer
from quarterdeck.search.worker_routes import ChunkService, worker_router
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.source_roots import SourceRoots
from quarterdeck.worker.storage import Storage

if TYPE_CHECKING:
    from quarterdeck.search.engine.contained_search import ContainedSearcher

_JITTER: Final = 0.1
"""With more, a recruiter that is away for half a second would be without some of its workers for more than one."""
_LINES_MEMORY_BYTES: Final = 64 * MIB
_LINES_DISK_BYTES: Final = 4096 * MIB
"""For rows that somebody wants as lines: a root of ours takes them as they are."""
_PORTS: Final = {"http": 80, "https": 443}


class Recruitment:
    """Make it, serve its router, `open` it when the worker can be reached, and tell it what the worker does."""

    def __init__(self, settings: WorkerSettings, folder: DataFolder, guard: Guard) -> None:
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._service: ChunkService | None = None
        self._idle = False
        self.router: Final[APIRouter] = worker_router(self._served, SourceRoots(settings.source_roots))

    async def open(
        self,
        stack: AsyncExitStack,
        url: str,
        storage: Storage,
        clock: Clock,
        *,
        set_accepting: Callable[[bool], None],
        leave: Callable[[str], None],
    ) -> "asyncio.Task[None]":
        """The task in which the agent lives: it ends when it was drained."""
        from quarterdeck.search.engine.contained_search import ContainedSearcher  # noqa: PLC0415 - by who searches

        settings = self._settings
        searcher = ContainedSearcher(at_once=settings.slots, memory_limit_bytes=settings.duckdb_memory_bytes)
        executor = ChunkExecutor(searcher, PieceOpener(storage.objects, storage.cache), settings.slots)
        stack.push_async_callback(_close, executor, searcher)
        await executor.warm_up()
        registry = HttpRegistry(authorize=self._guard.authorize, ssl=self._guard.client_context)
        stack.push_async_callback(registry.close)
        config = _config(settings, addr_of(url))
        agent = ReservationAgent(
            ReservationMachine(config),
            Offer(config.addr, settings.node, frozenset(settings.recruit_labels), settings.slots),
            registry,
            poll_s=settings.recruit_poll_s,
            clock=clock,
            chance=random.random,
            set_accepting=set_accepting,
            leave=leave,
            on_trouble=log_trouble,
        )
        self._service = ChunkService(agent, executor, storage.objects, self._make_gatherer)
        running = asyncio.create_task(agent.run(), name="agent at the recruiters")
        stack.push_async_callback(end_task, running)
        return running

    # What the worker does

    def watch(self, *, idle: bool, draining: bool) -> None:
        """After each step of the worker's machine."""
        if self._service is None:
            return
        if idle != self._idle:
            self._idle = idle
            self._service.agent.idle_changed(idle)
        if draining:
            self._service.agent.drain()

    @property
    def machine(self) -> ReservationMachine | None:
        """For figures; None until it is open."""
        return None if self._service is None else self._service.agent.machine

    def _served(self) -> ChunkService:
        if self._service is None:
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE, "the chunk was not searched", "the worker is starting", "recruit one that is up"
            )
        return self._service

    def _make_gatherer(self, spec: SearchSpec) -> Gatherer:
        from quarterdeck.search.engine.gathering import Gathering  # noqa: PLC0415 - as above

        folder = self._folder.folder("searches")
        return Gathering(spec, folder, memory_bytes=_LINES_MEMORY_BYTES, disk_bytes=_LINES_DISK_BYTES)


def _config(settings: WorkerSettings, addr: str) -> ReservationConfig:
    return ReservationConfig(
        addr,
        settings.recruiters,
        Backoff(settings.recruit_retry_first_s, settings.recruit_retry_max_s, factor=1.5, jitter=_JITTER),
        idle_s=settings.reserved_idle_s,
        progress_s=settings.reserved_progress_s,
        leave_when_abandoned=settings.leave_when_abandoned,
        drain_max_s=settings.drain_max_s,
    )


def addr_of(url: str) -> str:
    """Host and port of a URL.

    >>> addr_of("http://[::1]:7072"), addr_of("https://worker-1.example")
    ('[::1]:7072', 'worker-1.example:443')
    """
    parts = urlsplit(url)
    return parts.netloc if parts.port is not None else f"{parts.netloc}:{_PORTS[parts.scheme]}"


async def _close(executor: ChunkExecutor, searcher: "ContainedSearcher") -> None:
    await asyncio.to_thread(executor.close)
    await asyncio.to_thread(searcher.close)
