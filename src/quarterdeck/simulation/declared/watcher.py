"""The watcher: sees every step of the machines, every commit and everything that is held, and stops the run when a
promise is broken.

After every step and every commit it holds that
- a worker is told to hold, and acquires, only what is committed for it;
- of one thing a worker never has two generations;
- a worker obeys no fence lower than one it has obeyed, and the store takes nothing from such a leader;
- when the store says that a pinned thing has ended, its worker has no trace of it;
- the machines' records agree with themselves.
"""

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from quarterdeck.core.ids import Fence
from quarterdeck.core.invariants import InvariantError
from quarterdeck.core.reconcile.holder import HolderMachine
from quarterdeck.core.reconcile.holder import effects as hef
from quarterdeck.core.reconcile.holder import events as hev
from quarterdeck.core.reconcile.leader import LeaderMachine
from quarterdeck.core.reconcile.leader import effects as lef
from quarterdeck.core.reconcile.leader import events as lev
from quarterdeck.core.reconcile.messages import HoldThing
from quarterdeck.core.reconcile.model import HeldId
from quarterdeck.core.reconcile.tables import ThingState, ThingTrigger
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.process import Process
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.verdict import Verdict

if TYPE_CHECKING:
    from quarterdeck.simulation.declared.hosts import DeclaringHost, HoldingHost
    from quarterdeck.simulation.declared.store import Past

_WISHES = (ThingState.DECLARED, ThingState.WITHDRAWN)
"""What whoever asks commits, who needs no fence."""


class DeclaredWatcher(Verdict):
    def __init__(self, loop: SimulatedLoop, trace: Trace) -> None:
        super().__init__()
        self._loop = loop
        self.trace = trace
        self.resident: dict[Process, dict[HeldId, None]] = {}
        """What each process of a worker has, wholly or in part."""
        self.on: dict[str, Process] = {}
        """The newest process of each worker."""
        self._placed: set[tuple[str, str, int]] = set()
        self._states: dict[str, ThingState] = {}
        self.wishes: Counter[tuple[StrEnum, StrEnum]] = Counter()
        """Moves of things that nobody's machine made."""
        self._obeyed: dict[Process, Fence] = {}

    def process_died(self, process: Process) -> None:
        self.resident.pop(process, None)

    def has(self, worker: str) -> list[HeldId]:
        process = self.on.get(worker)
        return [] if process is None else list(self.resident.get(process, ()))

    # The store

    def committed(self, news: "list[Past]", fence: int) -> None:
        """What a transaction committed, and the highest fence that the store has seen after it."""
        for past in news:
            if past.state == ThingState.WITHDRAWN:
                self.wishes[self._states[past.thing_id], ThingTrigger.WITHDRAW] += 1
            self._states[past.thing_id] = ThingState(past.state)
            self.trace.add(
                self._loop.time(), "disk", f"{past.thing_id}@{past.generation} is {past.state} on {past.worker_id}"
            )
            if past.state == ThingState.PLACED and past.worker_id is not None:
                self._placed.add((past.worker_id, past.thing_id, past.generation))
            if past.state not in (*_WISHES, ThingState.GONE) and past.fence < fence:
                raise self.violated(f"{past.thing_id} is {past.state} by an earlier leader")
            if past.state in (ThingState.FAILED, ThingState.GONE) and past.pinned_to is not None:
                left = [held_id for held_id in self.has(past.pinned_to) if held_id.thing_id == past.thing_id]
                if left:
                    raise self.violated(f"{past.thing_id} has ended, and {past.pinned_to} still has {left[0]}")

    # The machines

    def leader_stepped(
        self, host: "DeclaringHost", machine: LeaderMachine, event: lev.Event, effects: list[lef.Effect]
    ) -> None:
        self.trace.add(self._loop.time(), host.name, event, effects)
        for effect in effects:
            if isinstance(effect, lef.SendToWorker) and isinstance(effect.message, HoldThing):
                worker = machine.workers.of_session(effect.session_id)
                assert worker is not None
                self._is_committed(worker.worker_id, effect.message.held_id, "was told to hold")
                host.world.told(host)
        self._check(machine)

    def holder_stepped(
        self, host: "HoldingHost", machine: HolderMachine, event: hev.Event, effects: list[hef.Effect]
    ) -> None:
        self.trace.add(self._loop.time(), host.name, event, effects)
        if machine.fence < self._obeyed.get(host.process, Fence(0)):
            raise self.violated(f"{host.name} obeys fence {machine.fence}, lower than one before")
        self._obeyed[host.process] = machine.fence
        if any(isinstance(effect, hef.Acquire | hef.Release) for effect in effects):
            message = event.message if isinstance(event, hev.MessageReceived) else None
            fence = getattr(message, "fence", None)
            if fence != machine.fence:
                raise self.violated(f"{host.name} does what a leader with fence {fence} says, not {machine.fence}")
        self._check(machine)

    def acquiring(self, host: "HoldingHost", process: Process, held_id: HeldId) -> None:
        self._is_committed(host.name, held_id, "acquires")
        there = self.resident.setdefault(process, {})
        self.on[host.name] = process
        for other in there:
            if other.thing_id == held_id.thing_id and other != held_id:
                raise self.violated(f"{host.name} acquires {held_id} and has {other}")
        there[held_id] = None

    def released(self, process: Process, held_id: HeldId) -> None:
        self.resident.get(process, {}).pop(held_id, None)

    # Inside

    def _is_committed(self, worker: str, held_id: HeldId, what: str) -> None:
        if (worker, held_id.thing_id, held_id.generation) not in self._placed:
            raise self.violated(f"{worker} {what} {held_id}, which is not committed")

    def _check(self, machine: Any) -> None:
        try:
            machine.check_invariants()
        except InvariantError as error:
            raise self.violated(str(error)) from None
