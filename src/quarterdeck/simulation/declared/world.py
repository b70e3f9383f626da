"""The world: plays one scenario on the simulated loop, heals everything, and sees whether all promises were kept."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.messages import HoldingsReported
from quarterdeck.core.reconcile.model import GroupId, ThingId, ThingSpec
from quarterdeck.core.reconcile.tables import ThingState
from quarterdeck.simulation.declared import faults as f
from quarterdeck.simulation.declared.hosts import KIND, LEADER, CommitTrap, DeclaringHost, HoldingHost
from quarterdeck.simulation.declared.scenario import TROUBLE_S, DeclaredScenario, Group
from quarterdeck.simulation.declared.store import Disk, failure
from quarterdeck.simulation.declared.watcher import DeclaredWatcher
from quarterdeck.simulation.failures import SimulationFailure
from quarterdeck.simulation.faults import Crash, Cut, Partition, Pause, SlowPeer
from quarterdeck.simulation.host import Host
from quarterdeck.simulation.hosts import seeded
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.network import SimulatedNetwork
from quarterdeck.simulation.outcome import PlayOutcome
from quarterdeck.simulation.process import Process
from quarterdeck.simulation.stage import CrewStage
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.verdict import Violation

Outcome: TypeAlias = PlayOutcome[DeclaredScenario]

_PATIENCE_S = 150.0
"""Virtual time after healing in which everything must have come to rest."""
ENDED_BY_A_THING = "worker ended by a thing"
_DOWN_S = (0.1, 1.0, 1.5 * LEADER.lease_s)
"""How long it takes until a worker starts again after a thing has ended it."""
_STEP_LIMIT = 600_000


def play(scenario: DeclaredScenario) -> Outcome:
    """Runs a scenario to its end, or to the first broken promise."""
    trace = Trace()
    outcome = Outcome(scenario, trace)
    loop = SimulatedLoop(seeded(scenario.seed, "order"), step_limit=_STEP_LIMIT)
    world = DeclaredWorld(scenario, loop, trace)
    loop.after_callback = world.watcher.stop_if_violated
    heard = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the drivers warn of what the faults do
    try:
        loop.run_until_complete(world.play())
    except (Violation, SimulationFailure) as failure:
        found = world.watcher.found
        outcome.violation = str(found) if found is not None else f"{type(failure).__name__}: {failure}"
    finally:
        logging.disable(heard)
        world.summarize(outcome)
        loop.close()
        world.disk.close()
    return outcome


class DeclaredWorld(CrewStage):
    def __init__(self, scenario: DeclaredScenario, loop: SimulatedLoop, trace: Trace) -> None:
        super().__init__(loop, SimulatedNetwork(loop, seeded(scenario.seed, "network")), trace)
        self.scenario = scenario
        self.chance = seeded(scenario.seed, "world")
        self.disk = Disk()
        self.watcher = DeclaredWatcher(loop, trace)
        self.coordinators = {name: DeclaringHost(self, name) for name in scenario.coordinator_hosts}
        self.workers = {name: HoldingHost(self, name) for name in scenario.worker_hosts}
        self.commit_traps: list[CommitTrap] = []
        self._send_traps: list[Callable[[DeclaringHost], None]] = []
        self._groups: dict[GroupId, Group] = {}
        self._declared: set[GroupId] = set()
        """Whoever asked was told that they are declared."""
        self._unwanted: set[GroupId] = set()
        """Somebody asked that they be withdrawn."""
        self._withdrawn: set[GroupId] = set()
        """And was told that they are."""
        self._failures: Counter[ThingId] = Counter()
        self._met: Counter[str] = Counter()
        self._moves: Counter[tuple[StrEnum, StrEnum]] = Counter()

    # For the hosts

    def host(self, name: str) -> "DeclaringHost | HoldingHost":
        return self.coordinators[name] if name in self.coordinators else self.workers[name]

    def process_died(self, process: Process) -> None:
        self.watcher.process_died(process)

    def group_of(self, spec: ThingSpec) -> Group:
        return self._groups[spec.group_id]

    def fails_again(self, spec: ThingSpec, group: Group) -> bool:
        self._failures[spec.thing_id] += 1
        return self._failures[spec.thing_id] <= group.failures

    def dies_of(self, host: HoldingHost, spec: ThingSpec) -> None:
        """A worker dies of what it begins to acquire, and starts again, perhaps when its lease is over."""
        self.note(f"{host.name} dies of {spec.thing_id}")
        self._met[ENDED_BY_A_THING] += 1
        self._crash_soon(host, self.chance.choice(_DOWN_S))

    def _crash_soon(self, host: Host[Any], down_s: float) -> None:
        """From inside of its process: it dies in a moment."""
        delay_s = 0.01 * self.chance.random()
        self.loop.call_later(delay_s, self._crash, host, host.process, down_s, context=self.loop.context_of(None))

    def _stand_still(self, host: DeclaringHost, for_s: float) -> None:
        """From inside of its process: it stops, and another one may lead before it goes on."""
        self.disk.release()
        self.loop.pause(host.process)
        self.loop.call_later(for_s, self.loop.resume, host.process, context=self.loop.context_of(None))

    def _crash(self, host: Host[Any], process: Process, down_s: float) -> None:
        if host.process is process and host.alive:
            self.last_look(host)
            host.kill()
            self.restart_later(host, down_s)

    def told(self, host: DeclaringHost) -> None:
        """A coordinator is about to tell a worker to hold something."""
        if self._send_traps:
            self._send_traps.pop(0)(host)

    def last_look(self, host: Host[Any]) -> None:
        if host.starts and host.alive:
            if isinstance(host, DeclaringHost):
                self._moves.update(host.leader.machine.moves)
            elif isinstance(host, HoldingHost):
                self._moves.update(host.holder.machine.moves)

    # The play

    async def play(self) -> None:
        hosts: list[Host[Any]] = [*self.coordinators.values(), *self.workers.values()]
        for host in hosts:
            host.start()
        tasks = [self._spawn(self._strike(fault), f"fault {n}") for n, fault in enumerate(self.scenario.faults)]
        tasks += [self._spawn(self._ask(n, group), f"group {n}") for n, group in enumerate(self.scenario.groups)]
        await asyncio.sleep(TROUBLE_S)
        for task in tasks:
            await task
        self.commit_traps.clear()
        self._send_traps.clear()
        self.heal(hosts)
        await self._until_rest()

    def summarize(self, outcome: Outcome) -> None:
        outcome.steps = self.loop.steps
        outcome.virtual_s = self.loop.time()
        outcome.works = sum(group.things for group in self._groups.values())
        outcome.faults = self._met
        states = self.disk.ask("SELECT state, COUNT(*) FROM declared_things GROUP BY state")
        outcome.ends = Counter({state: number for state, number in states if number})
        gone = self.disk.ask("SELECT COUNT(*) FROM history WHERE state = 'gone'")[0][0]
        if gone:
            outcome.ends["gone"] = gone
        for host in [*self.coordinators.values(), *self.workers.values()]:
            self.last_look(host)
        outcome.moves = self._moves + self.watcher.wishes

    def _spawn(self, coroutine: Coroutine[None, None, None], name: str) -> "asyncio.Task[None]":
        return self.loop.spawn(None, coroutine, name=name)

    # What is declared

    async def _ask(self, number: int, group: Group) -> None:
        await asyncio.sleep(group.at_s)
        group_id = GroupId(f"g{number}")
        self._groups[group_id] = group
        host = self.coordinators[group.coordinator]
        if host.alive:
            host.spawn(self._declare(host, group_id, group), f"declare {group_id}")
            self._met["group declared"] += 1
        if group.withdraw_after_s is not None:
            await asyncio.sleep(group.withdraw_after_s)
            at = self.coordinators[group.withdrawn_at]
            if at.alive:
                at.spawn(self._withdraw(at, group_id), f"withdraw {group_id}")

    async def _declare(self, host: DeclaringHost, group_id: GroupId, group: Group) -> None:
        pinned_to = WorkerId(group.pinned_to) if group.pinned_to is not None else None
        specs = [
            ThingSpec(ThingId(f"{group_id}.{n}"), group_id, KIND, b"plan", pinned_to=pinned_to)
            for n in range(group.things)
        ]
        try:
            await host.declarations.declare(*specs)
        except QuarterdeckError:
            return
        self._declared.add(group_id)

    async def _withdraw(self, host: DeclaringHost, group_id: GroupId) -> None:
        self._unwanted.add(group_id)
        if await host.declarations.withdraw(group_id):
            self._withdrawn.add(group_id)

    # Trouble

    async def _strike(self, fault: f.Fault) -> None:
        await asyncio.sleep(fault.at_s)
        self._met[next(name for name, kind in f.FAULTS.items() if kind is type(fault))] += 1
        self.trace.add(self.loop.time(), "----", fault)
        match fault:
            case Crash() | Pause() | Partition() | Cut() | SlowPeer():
                await self.befall(fault)
            case f.CrashAtCommit() | f.StoreFails() | f.CrashAtSend() | f.Depose():
                self._set_trap(fault)
            case f.LostReport(_, host):
                self.network.lose_reply(host, HoldingsReported)
            case f.Breakdown(_, name):
                worker = self.workers[name]
                if worker.alive:
                    self.loop.call_soon(worker.shelf.break_down, context=self.loop.context_of(worker.process))
            case _:
                assert_never(fault)

    def _set_trap(self, fault: f.CrashAtCommit | f.StoreFails | f.CrashAtSend | f.Depose) -> None:
        async def crash(host: DeclaringHost) -> None:
            assert isinstance(fault, f.CrashAtCommit)
            self._crash_soon(host, fault.down_s)
            await asyncio.Event().wait()

        async def fail(_: DeclaringHost) -> None:
            raise failure()

        async def stand_still(host: DeclaringHost) -> None:
            assert isinstance(fault, f.Depose)
            self._stand_still(host, fault.for_s)
            await asyncio.sleep(0)

        match fault:
            case f.CrashAtCommit(_, moment):
                self.commit_traps.append(CommitTrap(moment, crash))
            case f.StoreFails(_, moment):
                self.commit_traps.append(CommitTrap(moment, fail))
            case f.CrashAtSend(_, down_s):
                self._send_traps.append(lambda host: self._crash_soon(host, down_s))
            case f.Depose(_, f.At.SEND, for_s):
                self._send_traps.append(lambda host: self._stand_still(host, for_s))
            case f.Depose():
                self.commit_traps.append(CommitTrap(f.Moment.BEFORE, stand_still))
            case _:
                assert_never(fault)

    # Rest

    async def _until_rest(self) -> None:
        deadline = self.loop.time() + _PATIENCE_S
        while (left := self._left()) is not None:
            if self.loop.time() > deadline:
                raise self.watcher.violated(f"after everything healed: {left}")
            await asyncio.sleep(0.5)

    def _left(self) -> str | None:
        leaders = [host for host in self.coordinators.values() if host.leadership.fence is not None]
        if len(leaders) != 1:
            return f"{len(leaders)} coordinators lead"
        if not leaders[0].leader.machine.is_settled:
            return f"{leaders[0].name} leads and is not settled"
        return self._left_in_store() or self._left_on_workers()

    def _left_in_store(self) -> str | None:
        rows = self.disk.ask("SELECT thing_id, group_id, state, pinned_to FROM declared_things")
        failed = {group_id for _, group_id, state, _ in rows if state == ThingState.FAILED}
        self._see_who_failed(failed)
        for thing_id, group_id, state, pinned_to in rows:
            if group_id in self._withdrawn:
                return f"{thing_id} was withdrawn and is {state}"
            if (state == ThingState.FAILED) != (group_id in failed):
                return f"{thing_id} is {state}, and others of its group have failed"
            if self._groups[group_id].deadly and state != ThingState.FAILED:
                return f"{thing_id} is {state}, and its group ends workers"
            lacks_worker = pinned_to is None and self._groups[group_id].things > len(self.workers)
            if state not in (ThingState.HELD, ThingState.FAILED) and not (
                state == ThingState.DECLARED and lacks_worker
            ):
                return f"{thing_id} is {state}"
        there = Counter(group_id for _, group_id, _, _ in rows)
        for group_id in self._declared - self._unwanted:
            if there[group_id] != self._groups[group_id].things:
                return f"{there[group_id]} things of {group_id} are there, which nobody withdrew"
        return None

    def _see_who_failed(self, failed: set[GroupId]) -> None:
        """Nothing fails because of what ends workers beside it."""
        for group_id in sorted(failed):
            group = self._groups[group_id]
            if not group.poisoned and not group.deadly:
                raise self.watcher.violated(f"{group_id} has failed, and it is harmless")

    def _left_on_workers(self) -> str | None:
        rows = self.disk.ask("SELECT worker_id, thing_id, generation FROM declared_things WHERE state = 'held'")
        wanted = set(rows)
        there = {
            (name, held_id.thing_id, held_id.generation) for name in self.workers for held_id in self.watcher.has(name)
        }
        held = {
            (host.name, held_id.thing_id, held_id.generation)
            for host in self.workers.values()
            for held_id in host.shelf.held
        }
        if there != wanted:
            return f"{sorted(there - wanted)} is there and not wanted, {sorted(wanted - there)} the other way round"
        return None if held == wanted else f"{sorted(wanted - held)} is said to be held"
