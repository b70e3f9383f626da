"""The simulated processes: the real drivers on a simulated machine, with a simulated executor and simulated fetches."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from quarterdeck.control.link import Link, LinkClosedError
from quarterdeck.control.redial import keep_connected
from quarterdeck.core.backoff import Backoff
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import CoordinatorId, Incarnation, QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as cef
from quarterdeck.core.workcoord.coordinator import events as cev
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import ENDED, Artifact, AttemptId, Ended, WorkerInfo, WorkError, WorkKey, WorkSpec
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.core.workcoord.worker import effects as wef
from quarterdeck.core.workcoord.worker import events as wev
from quarterdeck.crew.coordinator import CoordinatorDriver, QueryHandle
from quarterdeck.crew.ports import ExecutionFailedError, FetchFailedError
from quarterdeck.crew.worker import WorkerDriver
from quarterdeck.simulation.host import Host
from quarterdeck.simulation.process import Process, ProcessState
from quarterdeck.simulation.stage import CrewStage
from quarterdeck.simulation.watcher import Execution

if TYPE_CHECKING:
    from quarterdeck.simulation.world import World

CrewStageT = TypeVar("CrewStageT", bound=CrewStage)

OFTEN: Final = WorkKind("often")
SELDOM: Final = WorkKind("seldom")
"""The kinds of work there are here."""
_BACKOFF = Backoff(base_s=0.1, cap_s=2.0)
_FETCH_TIMEOUT_S = 4.0
_STOP_S = 0.02
"""How long an executor takes to stop when it is told to."""


@dataclass(frozen=True, slots=True)
class HostDialer:
    world: CrewStage
    source: str

    async def dial(self, address: str) -> Link:
        return await self.world.network.dial(self.source, address)


class CrewHost(Host[CrewStageT]):
    """A machine of a crew: connected with others for as long as its process lives."""

    def stay_connected(self, hosts: list[str], serve: Callable[[Link], Coroutine[None, None, bool]]) -> None:
        for host in hosts:
            dialer = HostDialer(self.world, self.name)
            self.spawn(keep_connected(dialer, host, serve, _BACKOFF, self.world.chance), f"dial {host}")

    def listen(self, serve: Callable[[Link], Coroutine[None, None, bool]]) -> None:
        process = self.process

        def accept(link: Link) -> None:
            self.world.loop.spawn(process, serve(link), name=f"{process.name}: serve {link.peer}")

        self.world.network.listen(self.name, accept)


class WorkerHost(CrewHost["World"]):
    driver: WorkerDriver
    machine: WorkerMachine

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.artifacts: dict[AttemptId, WorkKey] = {}
        self.corrupt_next = False
        self.accepting = True

    def start(self) -> None:
        super().start()
        scenario = self.world.scenario
        info = WorkerInfo(
            WorkerId(self.name),
            Incarnation(self.starts),
            kinds=frozenset((OFTEN, SELDOM)),
            slots=scenario.slots,
            queue_places=scenario.queue_places,
            node=f"node{self.name[1:]}",
        )
        config = WorkerConfig(info, artifact_ttl_s=6.0, artifact_linger_s=2.0, drain_max_s=8.0)
        self.artifacts = {}
        self.machine = WorkerMachine(config)
        executor = SimulatedExecutor(self, self.process, self.artifacts)
        self.driver = WorkerDriver(self.machine, clock=self.clock, executor=executor, observer=self)
        self.spawn(self._main(), "main")
        if scenario.coordinators_dial:
            self.listen(self.driver.serve)
        else:
            self.stay_connected(scenario.coordinator_hosts, self.driver.serve)

    def exit(self) -> None:
        super().exit()
        self.artifacts = {}

    def stepped(self, event: wev.Event, effects: list[wef.Effect]) -> None:
        self.world.watcher.worker_stepped(self.name, self.machine, event, effects)

    async def _main(self) -> None:
        await self.driver.run()
        self.world.worker_exited(self, self.process)


class SimulatedExecutor:
    """Takes the time the scenario says, fails as often as it says, and leaves an artifact, or nothing."""

    def __init__(self, host: WorkerHost, process: Process, artifacts: dict[AttemptId, WorkKey]) -> None:
        self._host = host
        self._process = process
        self._artifacts = artifacts

    async def execute(self, attempt: AttemptId, spec: WorkSpec, progress: Callable[[float], None]) -> Artifact | Ended:
        world = self._host.world
        execution = Execution(self._host.name, self._process, attempt)
        world.watcher.execution_started(execution)
        try:
            return await self._work(attempt, spec, progress)
        except asyncio.CancelledError:
            await asyncio.sleep(_STOP_S)
            if world.chance.random() < 0.2:  # it had no time to see why it was interrupted
                raise ExecutionFailedError(WorkError(ErrorCode.UNAVAILABLE, "interrupted")) from None
            raise
        finally:
            world.watcher.execution_ended(execution)

    async def _work(self, attempt: AttemptId, spec: WorkSpec, progress: Callable[[float], None]) -> Artifact | Ended:
        world = self._host.world
        load = world.load_of(spec.key)
        await asyncio.sleep(load.duration_s / 2)
        progress(0.5)
        await asyncio.sleep(load.duration_s / 2)
        if load.poison_s is not None:
            world.poisoned(self._host, self._process, spec.key, load.poison_s)
            await asyncio.Event().wait()
        if load.fatal:
            raise ExecutionFailedError(WorkError(ErrorCode.WORK_FAILED, "no retry can cure this", retryable=False))
        if world.fails_again(spec.key, load):
            raise ExecutionFailedError(WorkError(ErrorCode.UNAVAILABLE, "bad luck"))
        world.watcher.execution_did_its_work(attempt)
        if spec.leaves_nothing:
            return ENDED
        self._artifacts[attempt] = spec.key
        url = f"sim://{self._host.name}/{spec.key.work_id}/{attempt.number}"
        return Artifact(url, 1, f"sum:{spec.key.work_id}", 1, 0, 0, 1)

    def release(self, attempt: AttemptId) -> None:
        pass

    def forget(self, attempt: AttemptId) -> bool:
        return attempt not in self._artifacts

    async def drop(self, attempt: AttemptId) -> None:
        self._artifacts.pop(attempt, None)


class CoordinatorHost(CrewHost["World"]):
    driver: CoordinatorDriver[WorkKey]
    machine: CoordinatorMachine

    def start(self) -> None:
        super().start()
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId(self.process.name)))
        fetcher = SimulatedFetcher(self)
        self.driver = CoordinatorDriver(
            self.machine, clock=self.clock, ids=SessionIds(self.process.name), fetcher=fetcher, observer=self
        )
        self.spawn(self._main(), "main")

    async def _main(self) -> None:
        if self.world.scenario.coordinators_dial:
            self.stay_connected(self.world.scenario.worker_hosts, self.driver.serve)
        else:
            self.listen(self.driver.serve)
        process = self.process
        await self.driver.run()
        self.world.note(f"{self.name} exits")
        self.world.exited(self, process)

    def exit(self) -> None:
        super().exit()
        for query_id, owner in list(self.world.watcher.owners.items()):
            if owner is self:
                del self.world.watcher.owners[query_id]

    def believes_alive(self, worker: str) -> bool:
        return self.alive and self.machine.roster.of_worker(WorkerId(worker)) is not None

    def stepped(self, event: cev.Event, effects: list[cef.Effect]) -> None:
        self.world.watcher.coordinator_stepped(self, self.machine, event, effects)

    async def consume(self, handle: QueryHandle[WorkKey]) -> None:
        """A client that reads all results of its query."""
        while (won := await handle.next_result()) is not None:
            key, result = won
            self.world.result_came(key, result)


@dataclass(slots=True)
class SessionIds:
    prefix: str
    made: int = 0

    def session_id(self) -> SessionId:
        self.made += 1
        return SessionId(f"{self.prefix}/s{self.made}")


class SimulatedFetcher:
    """A request to the worker's host and an answer from it, either of which may not arrive."""

    def __init__(self, host: CoordinatorHost) -> None:
        self._host = host

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> WorkKey:
        try:
            async with asyncio.timeout(_FETCH_TIMEOUT_S):
                return await self._request(self._host.world.workers[worker_id], attempt, artifact)
        except TimeoutError:
            raise FetchFailedError(WorkError(ErrorCode.UNAVAILABLE, f"{worker_id} took too long")) from None
        except LinkClosedError as error:
            raise FetchFailedError(WorkError(ErrorCode.UNAVAILABLE, str(error))) from None

    async def _request(self, server: WorkerHost, attempt: AttemptId, artifact: Artifact) -> WorkKey:
        network, here = self._host.world.network, self._host.name
        await network.travel(here, server.name, _FETCH_TIMEOUT_S)
        process = server.process
        while process.state is ProcessState.PAUSED:  # noqa: ASYNC110 - a simulated look, which costs nothing
            await asyncio.sleep(0.1)
        if not server.alive:
            raise LinkClosedError(f"{server.name} refused the connection")
        found = server.artifacts.get(attempt)
        chance = self._host.world.chance
        await asyncio.sleep(chance.choice((0.01, 0.05, 0.3, 1.5)) * chance.random())
        await network.travel(server.name, here, _FETCH_TIMEOUT_S)
        if server.process is not process or not server.alive:
            raise LinkClosedError(f"{server.name} died during the fetch")
        corrupt, server.corrupt_next = server.corrupt_next, False
        if found is None or corrupt or artifact.checksum != f"sum:{found.work_id}":
            why = "it is not there" if found is None else "its checksum does not fit"
            raise FetchFailedError(WorkError(ErrorCode.UNAVAILABLE, f"{artifact.url}: {why}"))
        return found

    def discard(self, result: WorkKey) -> None:
        pass


def query_id_for(host: CoordinatorHost, number: int) -> QueryId:
    return QueryId(f"q{number}@{host.process.name}")


def seeded(seed: int, purpose: str) -> random.Random:
    """Independent streams of chance from one seed."""
    return random.Random(f"{seed} {purpose}")
