"""The simulated processes: the real drivers of crew, leadership and declared things, on simulated machines."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.core.backoff import Backoff
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import CandidateId, CoordinatorId, Fence, Incarnation, WorkerId
from quarterdeck.core.leadership.model import LeaseConfig
from quarterdeck.core.reconcile.changes import Change
from quarterdeck.core.reconcile.holder import effects as hef
from quarterdeck.core.reconcile.holder import events as hev
from quarterdeck.core.reconcile.leader import LeaderConfig, LeaderMachine
from quarterdeck.core.reconcile.leader import effects as lef
from quarterdeck.core.reconcile.leader import events as lev
from quarterdeck.core.reconcile.model import HeldError, HeldId, HeldKind
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import Artifact, AttemptId, Ended, WorkerInfo, WorkSpec
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.declared.database_store import DatabaseStore
from quarterdeck.crew.declared.declarations import Declarations
from quarterdeck.crew.declared.holder import HolderDriver
from quarterdeck.crew.declared.holding import Held, HeldKindOffer
from quarterdeck.crew.declared.leader import LeaderDriver
from quarterdeck.crew.declared.port import Committed
from quarterdeck.crew.leadership import Leadership
from quarterdeck.crew.worker import WorkerDriver
from quarterdeck.simulation.declared.faults import Moment
from quarterdeck.simulation.declared.store import SimulatedDatabase
from quarterdeck.simulation.hosts import CrewHost, SessionIds
from quarterdeck.simulation.process import Process

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from quarterdeck.simulation.declared.world import DeclaredWorld

KIND: Final = HeldKind("simulated")
LEASE_S: Final = 4.0
LEADER: Final = LeaderConfig(lease_s=4.0, adopt_s=7.0, look_s=2.0, backoff=Backoff(0.5, 8.0), max_said=2, steady_s=3.0)
_RELEASE_S: Final = 0.02


class DeclaringHost(CrewHost["DeclaredWorld"]):
    world: "DeclaredWorld"
    driver: CoordinatorDriver[None]
    leader: LeaderDriver
    leadership: Leadership
    declarations: Declarations

    def start(self) -> None:
        super().start()
        name = self.process.name
        database = SimulatedDatabase(self.world)
        store = TrappedStore(self, database)
        machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId(name)))
        self.driver = CoordinatorDriver(machine, clock=self.clock, ids=SessionIds(name), fetcher=NoWork())
        self.leadership = Leadership(database, LeaseConfig(CandidateId(name), self.name, LEASE_S), self.clock)
        self.leader = LeaderDriver(
            LeaderMachine(LEADER),
            store,
            clock=self.clock,
            send=self.driver.say,
            on_doubt=self.leadership.doubt,
            observer=self,
        )
        self.driver.invite(self.leader)
        self.leadership.follow(self.leader.lead)
        self.declarations = Declarations(store, self.leader.look)
        self.spawn(self.driver.run(), "driver")
        self.spawn(self.leader.run(), "leader")
        self.spawn(self.leadership.run(), "leadership")
        self.spawn(self._listen(), "listen")

    async def _listen(self) -> None:
        self.listen(self.driver.serve)

    def stepped(self, event: lev.Event, effects: list[lef.Effect]) -> None:
        self.world.watcher.leader_stepped(self, self.leader.machine, event, effects)


class HoldingHost(CrewHost["DeclaredWorld"]):
    world: "DeclaredWorld"
    driver: WorkerDriver
    holder: HolderDriver
    shelf: "Shelf"

    def start(self) -> None:
        super().start()
        info = WorkerInfo(WorkerId(self.name), Incarnation(self.starts), frozenset((WorkKind("none"),)), 1, 0)
        self.driver = WorkerDriver(WorkerMachine(WorkerConfig(info)), clock=self.clock, executor=NoWork())
        self.shelf = Shelf(self, self.process)
        self.holder = HolderDriver(
            {KIND: HeldKindOffer(self.shelf)}, clock=self.clock, send=self.driver.say, observer=self
        )
        self.driver.invite(self.holder)
        self.spawn(self.driver.run(), "driver")
        self.spawn(self.holder.run(), "holder")
        self.stay_connected(self.world.scenario.coordinator_hosts, self.driver.serve)

    def stepped(self, event: hev.Event, effects: list[hef.Effect]) -> None:
        self.world.watcher.holder_stepped(self, self.holder.machine, event, effects)


class Shelf:
    """Holds what it is told to, in the time and with the failures that the scenario says."""

    def __init__(self, host: HoldingHost, process: Process) -> None:
        self._host: Final = host
        self._process: Final = process
        self.held: dict[HeldId, Held] = {}

    async def acquire(self, held: Held) -> None:
        world = self._host.world
        world.watcher.acquiring(self._host, self._process, held.held_id)
        group = world.group_of(held.spec)
        if group.deadly and held.spec.thing_id.endswith(".0"):
            world.dies_of(self._host, held.spec)
            await asyncio.Event().wait()
        await asyncio.sleep(group.acquire_s)
        if group.poisoned and held.spec.thing_id.endswith(".0"):
            raise QuarterdeckError(ErrorCode.WORK_FAILED, "it", "it is damaged", "mend it", retryable=False)
        if world.fails_again(held.spec, group):
            raise QuarterdeckError(ErrorCode.UNAVAILABLE, "it", "bad luck", "try again")
        self.held[held.held_id] = held

    async def release(self, held: Held) -> None:
        world = self._host.world
        await asyncio.sleep(_RELEASE_S * world.chance.random())
        if world.chance.random() < 0.1:
            raise OSError("it is in use")
        self.held.pop(held.held_id, None)
        world.watcher.released(self._process, held.held_id)

    def break_down(self) -> None:
        """The first of what is held breaks by itself."""
        for held in list(self.held.values())[:1]:
            del self.held[held.held_id]
            held.broke(HeldError(ErrorCode.UNAVAILABLE, "it fell down"))


class TrappedStore(DatabaseStore):
    """The real store, in which the next proposal may meet a disaster."""

    def __init__(self, host: DeclaringHost, database: SimulatedDatabase) -> None:
        super().__init__(database)
        self._host: Final = host

    async def commit(self, fence: Fence, changes: Sequence[Change]) -> Committed:
        world = self._host.world
        trap = world.commit_traps.pop(0) if world.commit_traps else None
        if trap is not None and trap.moment is Moment.BEFORE:
            await trap.spring(self._host)
        committed = await super().commit(fence, changes)
        if trap is not None and trap.moment is Moment.AFTER:
            await trap.spring(self._host)
        return committed


class CommitTrap:
    """Waits for the next proposal of any coordinator."""

    def __init__(self, moment: Moment, spring: Callable[[DeclaringHost], Coroutine[None, None, None]]) -> None:
        self.moment: Final = moment
        self.spring: Final = spring


class NoWork:
    """In this world nobody asks for work."""

    async def execute(self, attempt: AttemptId, spec: WorkSpec, progress: Callable[[float], None]) -> Artifact | Ended:
        del spec, progress
        raise AssertionError(f"{attempt} is executed")

    def release(self, attempt: AttemptId) -> None:
        raise AssertionError(f"{attempt} is released")

    def forget(self, attempt: AttemptId) -> bool:
        raise AssertionError(f"{attempt} is forgotten")

    async def drop(self, attempt: AttemptId) -> None:
        raise AssertionError(f"{attempt} is dropped")

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> None:
        del worker_id, artifact
        raise AssertionError(f"{attempt} is fetched")

    def discard(self, result: Any) -> None:
        raise AssertionError(f"{result} is discarded")
