"""The world: plays one scenario on the simulated loop, heals everything, and sees whether all promises were kept."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

from quarterdeck.core.ids import LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.workcoord.coordinator.effects import Outcome as QueryOutcome
from quarterdeck.core.workcoord.messages import (
    CreditChanged,
    WorkAccepted,
    WorkCanceled,
    WorkEnded,
    WorkFailed,
    WorkReady,
)
from quarterdeck.core.workcoord.model import ENDED, Ended, WorkKey, WorkSpec
from quarterdeck.core.workcoord.worker import events as wev
from quarterdeck.crew.coordinator import QueryHandle
from quarterdeck.simulation import faults as f
from quarterdeck.simulation.failures import SimulationFailure
from quarterdeck.simulation.host import Host
from quarterdeck.simulation.hosts import OFTEN, SELDOM, CoordinatorHost, CrewHost, WorkerHost, query_id_for, seeded
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.network import SimulatedNetwork
from quarterdeck.simulation.outcome import PlayOutcome
from quarterdeck.simulation.process import Process
from quarterdeck.simulation.scenario import TROUBLE_S, QueryLoad, Scenario, WorkLoad
from quarterdeck.simulation.stage import CrewStage
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.verdict import Violation
from quarterdeck.simulation.watcher import Watcher

Outcome: TypeAlias = PlayOutcome[Scenario]

_PATIENCE_S = 90.0
"""Virtual time after healing in which everything must have come to its end."""
_PROBE_LOAD = WorkLoad(duration_s=0.05)
_POISON_QUERY = 500
"""From this number on queries are named that have a poisonous work; from twice that on, those asked after healing."""
_STEP_LIMIT = 400_000

_MESSAGE_OF_REPLY = {
    f.Reply.ACCEPTED: WorkAccepted,
    f.Reply.READY: WorkReady,
    f.Reply.ENDED: WorkEnded,
    f.Reply.FAILED: WorkFailed,
    f.Reply.CANCELED: WorkCanceled,
    f.Reply.CREDIT: CreditChanged,
}


def play(scenario: Scenario) -> Outcome:
    """Runs a scenario to its end, or to the first broken promise."""
    trace = Trace()
    outcome = Outcome(scenario, trace)
    loop = SimulatedLoop(seeded(scenario.seed, "order"), step_limit=_STEP_LIMIT)
    world = World(scenario, loop, trace)
    loop.after_callback = world.watcher.stop_if_violated
    try:
        loop.run_until_complete(world.play())
    except (Violation, SimulationFailure) as failure:
        # A task or callback that a violation ends fails unseen; then the violation is what is to be told.
        found = world.watcher.found
        outcome.violation = str(found) if found is not None else f"{type(failure).__name__}: {failure}"
        outcome.work_id = found.work_id if found is not None else None
    finally:
        world.summarize(outcome)
        loop.close()
    return outcome


class World(CrewStage):
    def __init__(self, scenario: Scenario, loop: SimulatedLoop, trace: Trace) -> None:
        super().__init__(loop, SimulatedNetwork(loop, seeded(scenario.seed, "network")), trace)
        self.scenario = scenario
        self.chance = seeded(scenario.seed, "world")
        self.watcher = Watcher(loop, trace)
        self.coordinators = {name: CoordinatorHost(self, name) for name in scenario.coordinator_hosts}
        self.workers = {WorkerId(name): WorkerHost(self, name) for name in scenario.worker_hosts}
        self._loads: dict[WorkKey, WorkLoad] = {}
        self._failures: Counter[WorkKey] = Counter()
        self._results: Counter[WorkKey] = Counter()
        self._withdrawn: set[WorkKey] = set()
        self._poisons = 0
        self._met: Counter[str] = Counter()
        self._moves: Counter[tuple[StrEnum, StrEnum]] = Counter()

    # For the hosts

    def process_died(self, process: Process) -> None:
        self.watcher.process_died(process)

    def load_of(self, key: WorkKey) -> WorkLoad:
        return self._loads.get(key, _PROBE_LOAD)

    def fails_again(self, key: WorkKey, load: WorkLoad) -> bool:
        self._failures[key] += 1
        return self._failures[key] <= load.failures

    def poisoned(self, host: WorkerHost, process: Process, key: WorkKey, down_s: float) -> None:
        """A work ends the process that runs it."""
        self.watcher.process_poisoned(key)
        self.loop.call_soon(self._crash, host, process, down_s, context=self.loop.context_of(None))

    def _crash(self, host: WorkerHost, process: Process, down_s: float) -> None:
        if host.process is process and host.alive:
            self.last_look(host)
            host.kill()
            self.restart_later(host, down_s)

    def result_came(self, key: WorkKey, result: WorkKey | Ended) -> None:
        self._results[key] += 1
        if isinstance(result, Ended) is not self.load_of(key).leaves_nothing:
            raise self.watcher.violated(f"the client got {result} of {key.work_id}", key.work_id)
        if result not in (key, ENDED):
            raise self.watcher.violated(f"{key.work_id} got the result of {result}", key.work_id)
        if self._results[key] > 1:
            raise self.watcher.violated(f"the client got {key.work_id} twice", key.work_id)

    def worker_exited(self, host: WorkerHost, process: Process) -> None:
        """A worker drained and its process ended; it starts again after a while."""
        self.note(f"{host.name} exits")
        left = [
            e.attempt for executions in self.watcher.executions.values() for e in executions if e.process is process
        ]
        if left or host.artifacts:
            raise self.watcher.violated(f"{host.name} exits and leaves {left or list(host.artifacts)}")
        self.exited(host, process)

    # The play

    async def play(self) -> None:
        hosts: list[Host[Any]] = [*self.coordinators.values(), *self.workers.values()]
        for host in hosts:
            host.start()
        tasks = [
            self._spawn(self._strike(fault), f"fault {number}") for number, fault in enumerate(self.scenario.faults)
        ]
        tasks += [self._spawn(self._ask_later(n, load), f"query {n}") for n, load in enumerate(self.scenario.queries)]
        await asyncio.sleep(TROUBLE_S)
        for task in tasks:
            await task
        self.heal(hosts)
        await asyncio.sleep(0.1)  # what was told to processes that were paused is heard first
        await self._until(self._queries_ended, "a query has not ended")
        await self._until(self._not_connected, "not all have found each other again")
        await self._probe()
        await self._until(self._nothing_left, "something is left behind")

    def summarize(self, outcome: Outcome) -> None:
        outcome.steps = self.loop.steps
        outcome.virtual_s = self.loop.time()
        outcome.works = len(self._loads)
        outcome.faults = self._met
        outcome.ends = Counter(end.outcome.value for end in self.watcher.ended.values())
        for host in [*self.coordinators.values(), *self.workers.values()]:
            self.last_look(host)
        outcome.moves = self._moves

    def _spawn(self, coroutine: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        return self.loop.spawn(None, coroutine, name=name)

    # Load

    async def _ask_later(self, number: int, load: QueryLoad) -> None:
        await asyncio.sleep(load.at_s)
        host = self.coordinators[load.coordinator]
        if host.alive:
            query_id = query_id_for(host, number)
            host.spawn(self._ask(host, query_id, load), f"ask {query_id}")
            self._met["query asked"] += 1

    async def _ask(self, host: CoordinatorHost, query_id: QueryId, load: QueryLoad) -> None:
        """Runs inside the coordinator's process, as the handler of a request would."""
        self.watcher.owners[query_id] = host
        self.watcher.submitted[query_id] = submitted = set[WorkKey]()
        handle = host.driver.open_query(query_id, load.wait_limit_s)
        for number, work in enumerate(load.works):
            key = WorkKey(query_id, LeafId("l0"), WorkId(f"{query_id}/{number}"))
            self._loads[key] = work
            if work.poison_s is not None:
                self.watcher.poisonous.add(key)
            kind = SELDOM if number % 5 == 4 else OFTEN
            spec = WorkSpec(key, kind, affinity_key=f"segment{number % 3}", leaves_nothing=work.leaves_nothing)
            handle.submit(spec)
            if handle.ended is None:
                submitted.add(key)
        handle.seal()
        if load.cancel_after_s is not None:
            host.spawn(self._cancel_later(handle, load.cancel_after_s), f"cancel {query_id}")
        if load.cancel_work_after_s is not None:
            key = WorkKey(query_id, LeafId("l0"), WorkId(f"{query_id}/0"))
            host.spawn(self._withdraw_later(handle, key, load.cancel_work_after_s), f"withdraw {key.work_id}")
        await host.consume(handle)

    async def _cancel_later(self, handle: QueryHandle[WorkKey], after_s: float) -> None:
        await asyncio.sleep(after_s)
        handle.cancel("the client has gone")

    async def _withdraw_later(self, handle: QueryHandle[WorkKey], key: WorkKey, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if handle.ended is None:
            self._withdrawn.add(key)
            handle.cancel_work(key)

    # Trouble

    async def _strike(self, fault: f.Fault) -> None:
        await asyncio.sleep(fault.at_s)
        self._met[next(name for name, kind in f.FAULTS.items() if kind is type(fault))] += 1
        self.trace.add(self.loop.time(), "----", fault)
        match fault:
            case f.Crash() | f.Pause() | f.Partition() | f.Cut() | f.SlowPeer() | f.ClockJump():
                await self.befall(fault)
            case f.LostReply(_, host, reply):
                self.network.lose_reply(host, _MESSAGE_OF_REPLY[reply])
            case f.Drain(_, name, by, down_s):
                self._drain(self.workers[WorkerId(name)], by, down_s)
            case f.Shutdown(_, name, down_s):
                self._shut_down(self.coordinators[name], down_s)
            case f.NotAccepting(_, name, for_s):
                await self._stop_accepting(self.workers[WorkerId(name)], for_s)
            case f.Pressure(_, name, for_s):
                self._tell(self.workers[WorkerId(name)], wev.PressureRose(for_s))
            case f.Eviction(_, name):
                host = self.workers[WorkerId(name)]
                for attempt in list(host.artifacts):
                    self._tell(host, wev.ResultEvicted(attempt))
            case f.Corruption(_, name):
                self.workers[WorkerId(name)].corrupt_next = True
            case f.Poison(_, name, down_s, works):
                self._ask_for_poison(self.coordinators[name], down_s, works)
            case _:
                assert_never(fault)

    def _ask_for_poison(self, host: CoordinatorHost, down_s: float, works: int) -> None:
        if host.alive:
            self._poisons += 1
            query_id = query_id_for(host, _POISON_QUERY + self._poisons)
            innocents = (WorkLoad(0.5),) if works == 1 else ()
            load = QueryLoad(0.0, host.name, (WorkLoad(0.05, poison_s=down_s),) * works + innocents)
            host.spawn(self._ask(host, query_id, load), f"ask {query_id}")

    def _drain(self, host: WorkerHost, by: str | None, down_s: float) -> None:
        host.back_after_s = down_s
        coordinator = self.coordinators[by] if by is not None else None
        if coordinator is None:
            self._tell(host, wev.DrainRequested())
        elif coordinator.alive:
            self.loop.call_soon(
                coordinator.driver.drain_worker,
                WorkerId(host.name),
                context=self.loop.context_of(coordinator.process),
            )

    def _shut_down(self, host: CoordinatorHost, down_s: float) -> None:
        host.back_after_s = down_s
        if host.alive:
            context = self.loop.context_of(host.process)
            self.loop.call_soon(host.driver.stop, "maintenance", context=context)

    async def _stop_accepting(self, host: WorkerHost, for_s: float) -> None:
        for accepting in (False, True):
            host.accepting = accepting
            if host.alive:  # a paused host hears of both when it goes on, in any order: the latest word counts
                context = self.loop.context_of(host.process)
                self.loop.call_soon(lambda: host.driver.apply(wev.AcceptingChanged(host.accepting)), context=context)
            await asyncio.sleep(0.0 if accepting else for_s)

    def _tell(self, host: WorkerHost, event: wev.Event) -> None:
        """Something happens inside a worker's process; a paused one hears of it when it goes on."""
        if host.alive:
            self.loop.call_soon(host.driver.apply, event, context=self.loop.context_of(host.process))

    # Healing

    async def _until(self, left: Callable[[], "tuple[str, WorkId | None] | None"], promise: str) -> None:
        deadline = self.loop.time() + _PATIENCE_S
        while (remaining := left()) is not None:
            if self.loop.time() > deadline:
                raise self.watcher.violated(f"{promise}: {remaining[0]}", remaining[1])
            await asyncio.sleep(0.5)

    def _queries_ended(self) -> "tuple[str, WorkId | None] | None":
        for query_id, host in self.watcher.owners.items():
            query = host.machine.ledger.query(query_id)
            unfinished = [w for w in query.works.values() if w.state not in ("done", "canceled")] if query else []
            works = ", ".join(f"{work.key.work_id} is {work.state}" for work in unfinished)
            return f"{query_id}: {works}", unfinished[0].key.work_id if unfinished else None
        return None

    async def _probe(self) -> None:
        """Every coordinator answers again, with a work for each worker's every place."""
        room = self.scenario.slots + self.scenario.queue_places
        load = QueryLoad(0.0, "", (_PROBE_LOAD,) * (room * self.scenario.workers + 1))
        for number, host in enumerate(self.coordinators.values()):
            host.spawn(self._ask(host, query_id_for(host, 1000 + number), load), "probe")
        await asyncio.sleep(0.1)
        await self._until(self._queries_ended, "a query asked after healing has not ended")
        for query_id, end in self.watcher.ended.items():
            if query_id.startswith("q10") and end.outcome is not QueryOutcome.SUCCEEDED:
                raise self.watcher.violated(f"a query asked after healing did not succeed: {end}")

    def _nothing_left(self) -> "tuple[str, WorkId | None] | None":
        for query_id, end in self.watcher.ended.items():
            for key in self.watcher.submitted.get(query_id, ()):
                missing = end.outcome is QueryOutcome.SUCCEEDED and not self._results[key]
                if missing and key not in self._withdrawn:
                    return f"{query_id} succeeded without {key.work_id}", key.work_id
        return self._not_connected() or self._left_on_coordinators() or self._left_on_workers()

    def _not_connected(self) -> "tuple[str, WorkId | None] | None":
        for host in self.coordinators.values():
            connected = len(host.machine.roster) if host.alive else 0
            if connected != len(self.workers):
                return f"{host.name} has sessions with {connected} of {len(self.workers)} workers", None
        return None

    def _left_on_coordinators(self) -> "tuple[str, WorkId | None] | None":
        for host in self.coordinators.values():
            for query in host.machine.ledger.queries():
                return f"{host.name} still has query {query.query_id}", None
            for session in host.machine.roster.sessions():
                for attempt in [*session.attempts, *session.closing]:
                    return f"{host.name} still has {attempt} on {session.worker_id}", attempt.key.work_id
            left = host.driver.left_over()
            if left:
                return f"{host.name} still has {left}", None
        return None

    def _left_on_workers(self) -> "tuple[str, WorkId | None] | None":
        for host in self.workers.values():
            room = max(self.scenario.slots + self.scenario.queue_places, self.scenario.coordinators)
            granted = sum(session.granted for session in host.machine.sessions())
            if granted != room:
                return f"{host.name} gives a credit of {granted} and has room for {room}", None
            for attempt in [*(a.attempt_id for a in host.machine.attempts()), *host.artifacts]:
                return f"{host.name} still has {attempt}", attempt.key.work_id
        for key, executions in self.watcher.executions.items():
            return f"{executions[0].host} still runs {key.work_id}", key.work_id
        return None

    # Inside

    def host(self, name: str) -> CrewHost[Any]:
        return self.coordinators[name] if name in self.coordinators else self.workers[WorkerId(name)]

    def last_look(self, host: Host[Any]) -> None:
        if isinstance(host, CoordinatorHost | WorkerHost) and host.starts and host.alive:
            self._moves.update(host.machine.moves)
