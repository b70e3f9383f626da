"""The watcher: sees every step of every machine and every execution, and stops the run when a promise is broken.

After every step it holds that
- a work's result is delivered at most once, and it is the right one;
- a work that leaves nothing ends so only after it was done, and nothing of it stays on its worker;
- no submitted work is forgotten: its query is open and has it, or has ended;
- a work executes for a coordinator on at most one worker that this coordinator believes alive, and a
  worker that registers has nothing in flight for that coordinator;
- no worker is given more than its credit, and none that drains takes anything new or keeps what it has not begun;
- no query fails for want of a worker while there is one, and no work goes to and fro between those that reject it;
- an attempt that is given up is canceled on its worker in the same step, and a withdrawn work is never delivered;
- a work that ends whatever runs it ends a few workers only; an innocent one is quarantined only when it had three
  tries, and never one that nobody ever ran;
- no honest peer is ever accused of breaking the protocol.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import QueryId
from quarterdeck.core.invariants import InvariantError
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as cef
from quarterdeck.core.workcoord.coordinator import events as cev
from quarterdeck.core.workcoord.coordinator.tables import WorkerState
from quarterdeck.core.workcoord.messages import AssignWork, CancelQuery, CancelWork, WorkAccepted, WorkEnded
from quarterdeck.core.workcoord.model import AttemptId, WorkError, WorkKey
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.core.workcoord.worker import effects as wef
from quarterdeck.core.workcoord.worker import events as wev
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.process import Process, ProcessState
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.verdict import Verdict

if TYPE_CHECKING:
    from quarterdeck.simulation.hosts import CoordinatorHost

_TO_AND_FRO = 50
"""So many attempts are not bad luck. Failures are limited, and so are the times a worker can drain under a work."""
_POISONED = 8
"""Workers that a poisonous work may end, at worst. Three as a rule, four while others die too; more when the network
keeps what they said last."""
_TRIES = 3
"""That an innocent work has, whatever happens to those who run it."""


@dataclass(frozen=True, slots=True)
class Execution:
    host: str
    process: Process
    attempt: AttemptId


class Watcher(Verdict):
    def __init__(self, loop: SimulatedLoop, trace: Trace) -> None:
        super().__init__()
        self._loop = loop
        self.trace = trace
        self.owners: dict[QueryId, CoordinatorHost] = {}
        """Who was asked each query that has not ended; a coordinator that dies takes its queries along."""
        self.submitted: dict[QueryId, set[WorkKey]] = {}
        self.delivered: dict[WorkKey, AttemptId] = {}
        self.ended: dict[QueryId, cef.EndQuery] = {}
        self.executions: dict[WorkKey, list[Execution]] = {}
        self.poisonous: set[WorkKey] = set()
        self._given: dict[QueryId, int] = {}
        """The highest number of an attempt at a work of each query."""
        self._begun: set[WorkKey] = set()
        """Works that a worker has begun."""
        self._did: set[AttemptId] = set()
        """Attempts whose execution came to its end by itself, and well."""
        self._ended_by: Counter[WorkKey] = Counter()
        """How many workers each poisonous work has ended."""
        self._withdrawn: set[WorkKey] = set()
        self._closing: dict[CoordinatorHost, set[AttemptId]] = {}

    # Steps of the machines

    def coordinator_stepped(
        self, host: "CoordinatorHost", machine: CoordinatorMachine, event: cev.Event, effects: list[cef.Effect]
    ) -> None:
        self.trace.add(self._loop.time(), host.name, event, effects)
        if isinstance(event, cev.SessionOpened):
            self._nothing_in_flight(host, event.register.worker.worker_id)
        if isinstance(event, cev.WorkCancelRequested) and event.key not in self.delivered:
            self._withdrawn.add(event.key)
        self._canceled_where_given_up(host, machine, effects)
        for effect in effects:
            match effect:
                case cef.SendToWorker(session_id, AssignWork() as assignment):
                    self._may_be_given(machine, session_id, assignment)
                case cef.DeliverResult(attempt):
                    self._delivered(attempt)
                case cef.DeliverEnd(attempt):
                    self._is_done(attempt, "was told to whoever asked")
                    self._delivered(attempt)
                case cef.EndQuery(query_id, error=error):
                    self._may_lack_a_worker(machine, query_id, error)
                    self._may_be_quarantined(query_id, error)
                    self.ended[query_id] = effect
                    self.owners.pop(query_id, None)
                case _:
                    pass
        self._check(machine, effects)
        mine = {query_id for query_id, owner in self.owners.items() if owner is host}
        there = {query.query_id: query for query in machine.ledger.queries()}
        for query_id in mine - there.keys():
            raise self.violated(f"query {query_id} is forgotten")
        for query_id in mine:
            for key in self.submitted[query_id] - there[query_id].works.keys() - there[query_id].finished:
                raise self.violated("a submitted work is forgotten", key.work_id)

    def worker_stepped(self, host: str, machine: WorkerMachine, event: wev.Event, effects: list[wef.Effect]) -> None:
        self.trace.add(self._loop.time(), host, event, effects)
        for effect in effects:
            match effect:
                case wef.SendToCoordinator(_, WorkAccepted(attempt)) if machine.status.draining:
                    raise self.violated(f"{host} drains and took {attempt}", attempt.key.work_id)
                case wef.SendToCoordinator(_, WorkEnded(attempt)):
                    self._is_done(attempt, f"was said by {host}")
                    if any(other.attempt_id == attempt for other in machine.attempts()):
                        raise self.violated(f"{host} says that {attempt} has ended and keeps it", attempt.key.work_id)
                case _:
                    pass
        if machine.status.draining and machine.queued:
            raise self.violated(f"{host} drains and keeps {machine.queued} works in line")
        self._check(machine, effects)

    # Executions

    def execution_started(self, execution: Execution) -> None:
        """Called when it really begins to run, not when a machine says so."""
        key = execution.attempt.key
        self._begun.add(key)
        others = self.executions.setdefault(key, [])
        owner = self.owners.get(key.query_id)
        if owner is not None and owner.believes_alive(execution.host):
            for other in others:
                if other.host != execution.host and owner.believes_alive(other.host):
                    message = f"{key.work_id} starts on {execution.host} while it runs on {other.host}"
                    raise self.violated(f"{message}, and {owner.name} believes both alive", key.work_id)
        others.append(execution)

    def execution_ended(self, execution: Execution) -> None:
        if execution.process.state is not ProcessState.DEAD:
            self._remove(execution)

    def execution_did_its_work(self, attempt: AttemptId) -> None:
        self._did.add(attempt)

    def process_poisoned(self, key: WorkKey) -> None:
        """A work is about to end the process that runs it."""
        self._ended_by[key] += 1
        if self._ended_by[key] > _POISONED:
            raise self.violated(f"{key.work_id} has ended {self._ended_by[key]} workers", key.work_id)

    def process_died(self, process: Process) -> None:
        for execution in [e for executions in self.executions.values() for e in executions if e.process is process]:
            self._remove(execution)

    def _remove(self, execution: Execution) -> None:
        executions = self.executions[execution.attempt.key]
        executions.remove(execution)
        if not executions:
            del self.executions[execution.attempt.key]

    # Claims

    def _nothing_in_flight(self, host: "CoordinatorHost", worker_id: str) -> None:
        for key, executions in self.executions.items():
            if self.owners.get(key.query_id) is host and any(e.host == worker_id for e in executions):
                raise self.violated(f"{worker_id} registers with {host.name} and still runs {key.work_id}", key.work_id)

    def _is_done(self, attempt: AttemptId, said: str) -> None:
        if attempt not in self._did:
            raise self.violated(f"the end of {attempt} {said}, and it was not done", attempt.key.work_id)

    def _may_be_given(self, machine: CoordinatorMachine, session_id: str, assignment: AssignWork) -> None:
        session = next((s for s in machine.roster.sessions() if s.session_id == session_id), None)
        work_id, query_id = assignment.spec.key.work_id, assignment.spec.key.query_id
        self._given[query_id] = max(assignment.number, self._given.get(query_id, 0))
        if session is None:
            raise self.violated(f"{work_id} was given to a session that is gone", work_id)
        if session.state is not WorkerState.ACCEPTING:
            raise self.violated(f"{work_id} was given to {session.worker_id}, which is {session.state}", work_id)
        if session.load.charged > session.credit:
            raise self.violated(f"{work_id} was given to {session.worker_id} beyond its credit", work_id)
        if assignment.number > _TO_AND_FRO:
            raise self.violated(f"{work_id} goes to and fro, {assignment.number} attempts until now", work_id)

    def _may_lack_a_worker(self, machine: CoordinatorMachine, query_id: QueryId, error: WorkError | None) -> None:
        taking = [s.worker_id for s in machine.roster.sessions() if s.state is WorkerState.ACCEPTING]
        if error is not None and error.code == ErrorCode.NO_WORKER and taking:
            raise self.violated(f"{query_id} failed for want of a worker, and {taking[0]} takes work")

    def _may_be_quarantined(self, query_id: QueryId, error: WorkError | None) -> None:
        is_quarantined = error is not None and error.code == ErrorCode.QUARANTINED
        if not is_quarantined:
            return
        if not self._begun & self.submitted[query_id]:
            raise self.violated(f"{query_id} was quarantined, and no worker ever began a work of it")
        if not self.poisonous & self.submitted[query_id] and self._given[query_id] < _TRIES:
            raise self.violated(f"{query_id} is innocent and was quarantined after {self._given[query_id]} tries")

    def _delivered(self, attempt: AttemptId) -> None:
        if attempt.key in self._withdrawn:
            raise self.violated("the result of a withdrawn work was delivered", attempt.key.work_id)
        before = self.delivered.get(attempt.key)
        if before is not None:
            raise self.violated(
                f"{attempt.key.work_id} was delivered twice: {before.number}, {attempt.number}", attempt.key.work_id
            )
        self.delivered[attempt.key] = attempt

    def _canceled_where_given_up(
        self, host: "CoordinatorHost", machine: CoordinatorMachine, effects: list[cef.Effect]
    ) -> None:
        closing = {attempt for session in machine.roster.sessions() for attempt in session.closing}
        for attempt in closing - self._closing.get(host, set()):
            told = [effect.message for effect in effects if isinstance(effect, cef.SendToWorker)]
            if CancelWork(attempt) not in told and CancelQuery(attempt.key.query_id) not in told:
                raise self.violated(f"{attempt} was given up and its worker not told", attempt.key.work_id)
        self._closing[host] = closing

    def _check(self, machine: CoordinatorMachine | WorkerMachine, effects: Sequence[cef.Effect | wef.Effect]) -> None:
        if machine.counters["protocol_errors"]:
            why = [e.detail for e in effects if isinstance(e, cef.CloseSession | wef.CloseSession)]
            raise self.violated(f"an honest peer was accused of breaking the protocol: {'; '.join(why)}")
        try:
            machine.check_invariants()
        except InvariantError as error:
            raise self.violated(f"records contradict each other: {error}") from error
