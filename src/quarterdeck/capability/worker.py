"""The part of a capability in a worker: what it gets from the process, and what the process asks of it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter

from quarterdeck.capability.offers import Offers
from quarterdeck.config import WorkerSettings
from quarterdeck.core.reconcile.model import HeldKind
from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import AttemptId
from quarterdeck.crew.declared.holding import HeldKindOffer
from quarterdeck.crew.executors import KindExecutor
from quarterdeck.crew.ports import Clock
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.memory_budget import MemoryBudget
from quarterdeck.crew.process.storage import Storage
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.telemetry.metrics.families import Families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHost:
    """What a worker has for all of its parts."""

    settings: WorkerSettings
    folder: DataFolder
    guard: Guard
    clock: Clock
    registry: "CollectorRegistry"
    families: Families
    """Of the worker: what a part declares here is the process's, not a service's of its own."""
    storage: Storage
    memory: MemoryBudget
    observe: Callable[[AttemptId, float, Outcome], None]
    """To be told of the seconds that an engine had a work, and how it ended; on the loop."""
    url: Callable[[], str]
    """Where others reach this worker; known when it listens."""
    set_accepting: Callable[[bool], None]
    """Whether coordinators may give it new work."""
    leave: Callable[[str], None]
    """Ends the process in order, and says why."""
    offers: Offers


class WorkerPart:
    """A base: what a part does not override, it does not contribute.

    It is made when the storage is open. `warm_up` comes before the worker can be reached by coordinators, `open` when
    all parts are warm. `close` comes when nothing runs any more.
    """

    def executors(self) -> Mapping[WorkKind, KindExecutor]:
        """For each kind of work that it executes."""
        return {}

    def holders(self) -> Mapping[HeldKind, HeldKindOffer]:
        """For each kind of declared thing that it can hold: with threads and memory of its own, and no slot."""
        return {}

    def caches(self) -> Sequence[Callable[[], object]]:
        """What gives back memory that is only kept to be quick, when memory is short."""
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()

    async def warm_up(self) -> None:
        """What the first who asks would have to wait for otherwise; executors are warmed up besides."""

    async def open(self, stack: AsyncExitStack) -> Sequence["asyncio.Task[None]"]:
        """Tasks that live until the worker has drained, each by itself."""
        del stack
        return ()

    def watch(self, *, idle: bool, draining: bool) -> None:
        """Called after each step of the worker's machine, from when it is open."""

    def missing(self) -> Sequence[str]:
        """What keeps it from being ready, each in a few words."""
        return ()

    def scaling(self) -> Mapping[str, float]:
        """Flat numbers for an autoscaler."""
        return {}

    def close(self) -> None:
        """Ends its threads and processes. It may block for a moment."""
