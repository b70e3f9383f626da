"""The part of a capability in a coordinator: what it gets from the process, and what the process asks of it."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.types import ASGIApp

from quarterdeck.capability.offers import Offers
from quarterdeck.config import CoordinatorSettings
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.declared.declarations import Declarations
from quarterdeck.crew.leadership import Leadership
from quarterdeck.crew.observers.timelines import Timelines
from quarterdeck.crew.process.doors import Doors
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import StopSignals
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.crew.query_log import QueryLog
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.disk import DiskBudget
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.source_roots import SourceRoots
from quarterdeck.telemetry.metrics.families import Families
from quarterdeck.web.front import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from quarterdeck.stores.s3_options import S3Options


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorHost:
    """What a coordinator has for all of its parts."""

    settings: CoordinatorSettings
    folder: DataFolder
    guard: Guard
    clock: MonotonicClock
    ids: RandomIds
    doors: Doors
    registry: "CollectorRegistry"
    families: Families
    """Of the coordinator: what a part declares here is the process's, not a service's of its own."""
    driver: CoordinatorDriver[FetchedArtifact]
    s3: "S3Options"
    objects: ObjectStores
    roots: SourceRoots
    """Below which callers may name files."""
    database: Database
    """With the tables of every capability."""
    leadership: Leadership | None
    """Whether this coordinator leads, and under which fence. None if no capability declares state: then nobody does."""
    declarations: Declarations | None
    """Where a part declares what workers are to hold. None if no capability has things of a kind that is held."""
    disk: DiskBudget
    memory: MemoryBudget
    log: QueryLog
    timelines: Timelines
    missing: "Callable[[], Sequence[str]]"
    """What keeps the whole process from being ready."""
    offers: Offers


class CoordinatorPart:
    """A base: what a part does not override, it does not contribute.

    `open` is called first of all, and says what closes it; `begin` when the database has its tables, the driver runs
    and the HTTP server listens. `close` comes at the first word to stop.
    """

    reading_prefixes: Sequence[str] = ()
    """Where paths begin that only read: on loopback they need no token."""

    def asks(self) -> Sequence[Ask]:
        """What people may ask, for the front page."""
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()

    def raw_routes(self) -> Mapping[str, ASGIApp]:
        """Applications without a framework, by the prefix of their paths."""
        return {}

    async def open(self, stack: AsyncExitStack) -> None:
        """Gives the stack what closes it, when no query is open any more. What it may not do raises."""

    async def begin(self, stack: AsyncExitStack, signals: StopSignals) -> None:
        """What goes on beside: it may take long, and nobody waits for it."""

    def missing(self) -> Sequence[str]:
        """What keeps it from being ready, each in a few words."""
        return ()

    def scaling(self) -> Mapping[str, float]:
        """Flat numbers for an autoscaler."""
        return {}

    def close(self) -> None:
        """Takes nothing new: the process is on its way out. What runs may finish for a while."""

    @property
    def is_busy(self) -> bool:
        """Whether an answer is open, or something of it is still to be cleaned up."""
        return False
