"""The leader's machine: events in, effects out. It is the one owner of its records and knows no clock and no socket.

Rules it keeps, whatever is lost and whoever dies:

- it acts only on what is committed, and only while it leads; a proposal changes nothing until it is committed;
- it compares, each time anew, what is committed with what is reported: no message and no reply has to arrive;
- it commands only workers that have said that they obey its fence, so nobody who led before can undo it;
- what was told and not done is told again, with a backoff, and not while the worker is away;
- an error that no other try can cure rolls back the whole group;
- what a worker has and nobody wants there is stopped;
- a thing ends (`STOP`, `CLEAR`) when its worker has said that it has no trace of it. One that is not pinned also ends
  when its worker has been away for the lease: should that worker come back, its copy is one that nobody wants.

A step is linear in what it is about: a worker's report in that, a session in what its worker holds or should hold.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from quarterdeck.core.backoff import Backoff
from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.ids import Fence, SessionId, WorkerId
from quarterdeck.core.invariants import insist
from quarterdeck.core.reconcile.changes import MAX_CHANGES, Change, is_wanted
from quarterdeck.core.reconcile.leader import events as ev
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.effects import (
    Commit,
    DoubtLeadership,
    Effect,
    Load,
    ReportRetry,
    SendToWorker,
)
from quarterdeck.core.reconcile.leader.invariants import claims
from quarterdeck.core.reconcile.leader.timers import AnnounceTimer, CommandTimer, LeaseTimer, StoreTimer, Timer
from quarterdeck.core.reconcile.leader.workers import Told, Worker, Workers
from quarterdeck.core.reconcile.messages import (
    DropThing,
    HoldThing,
    LeaderAnnounced,
    LeaderMessage,
    ReportWanted,
)
from quarterdeck.core.reconcile.model import (
    NEVER,
    GroupId,
    HeldError,
    HeldId,
    Holding,
    Report,
    Revision,
    Thing,
    ThingId,
)
from quarterdeck.core.reconcile.tables import HoldingState, ThingState, ThingTrigger

_NO_JITTER: Final = 0.5
"""One leader tells many workers, each at its own time: there is no herd to spread."""


@dataclass(frozen=True, slots=True)
class LeaderConfig:
    """How a leader's machine behaves."""

    lease_s: float = 10.0
    """How long things wait for a worker that is away before others take them. Too short loads again what a worker that
    merely restarts would have had; too long leaves what it held unavailable."""
    adopt_s: float = 18.0
    """The same for a new leader, whom workers still have to find: the lease and their longest wait between two tries to
    connect. Too short makes each change of leaders load everything anew."""
    look_s: float = 5.0
    """How often it looks whether something was declared that nobody told it of. Each look is a small query."""
    backoff: Backoff = Backoff()
    """How long a worker has to do what it was told before it is told again, and the store after a failure."""
    tries_before_moving: int = 3
    """How often a worker may fail to hold a thing before another one is asked, if one may hold it."""


class LeaderMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: LeaderConfig | None = None) -> None:
        self.config = config or LeaderConfig()
        self.counters: Counter[str] = Counter()
        self.moves: Counter[tuple[StrEnum, StrEnum]] = Counter()
        """How often each entry of the table was committed."""
        self.declared = Declared()
        """As committed; empty while somebody else leads."""
        self.workers = Workers()
        self._now = 0.0
        self._effects: list[Effect] = []
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._fence: Fence | None = None
        self._doubted = False
        """Somebody has seen a higher fence than ours."""
        self._asked: Load | Commit | None = None
        """What the store has not answered yet."""
        self._number = 0
        self._since = NEVER
        """What is known of the store."""
        self._stale = False
        """The store knows more than we do."""
        self._store_rests = False
        """It failed a moment ago."""
        self._store_failures = 0
        self._knows = False
        """What is declared was read in this leadership: only then is known what nobody wants."""
        self._chosen: list[tuple[GroupId, WorkerId]] = []
        """In the proposal that is being made."""
        self._dirty: dict[ThingId, None] = {}
        """About these something may be to propose."""
        self._homeless: dict[ThingId, None] = {}
        """These want a worker, or another one, and there is none."""

    # What a driver calls

    @property
    def fence(self) -> Fence | None:
        """Ours, while we lead."""
        return self._fence

    @property
    def is_settled(self) -> bool:
        """Whether it leads, knows the store, and has nothing left to propose or to say again."""
        known = self._leads and self._knows and not self._stale
        told = any(worker.told for worker in self.workers)
        return known and self._asked is None and not self._dirty and not told

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        self._now = max(self._now, now)
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case ev.MessageReceived(session_id, message):
                worker = self.workers.of_session(session_id)
                if worker is not None:
                    self._reported(worker, message.report)
            case ev.TimePassed():
                self._time_passed()
            case ev.SessionOpened():
                self._session_opened(event)
            case ev.SessionLost(session_id):
                self._session_lost(session_id)
            case ev.DeclarationsChanged():
                self._stale = True
            case ev.DeclaredLoaded(number, revision, things):
                self._loaded(number, revision, things)
            case ev.ChangesCommitted(number, things, gone):
                self._committed(number, things, gone)
            case ev.ChangesRefused(number):
                self._read_anew(number)
            case ev.StoreFailed(number):
                self._store_failed(number)
            case ev.StoreDeposedUs(number):
                if self._answered(number) is not None:
                    self._doubt()
            case ev.LeadershipGained(fence):
                self._gain(fence)
            case ev.LeadershipLost():
                self._lose()
            case _:
                assert_never(event)
        self._ask_the_store()
        return effects

    def check_invariants(self) -> None:
        insist(claims(self.declared, self.workers, self._homeless))

    # Leadership

    @property
    def _leads(self) -> bool:
        return self._fence is not None and not self._doubted

    @property
    def _leading(self) -> Fence:
        assert self._fence is not None
        return self._fence

    def _gain(self, fence: Fence) -> None:
        self._lose()
        self._fence = fence
        for worker in self.workers:
            self._announce(worker)
            self._adopt(worker)

    def _lose(self) -> None:
        self._fence, self._doubted, self._asked = None, False, None
        self._since, self._stale, self._knows = NEVER, True, False
        self._store_rests, self._store_failures = False, 0
        self._dirty.clear()
        self._homeless.clear()
        self.declared = Declared()
        self._deadlines.cancel(StoreTimer())
        for worker in list(self.workers):
            self._stop_telling(worker)
            self._forget_if_nothing(worker)

    def _doubt(self) -> None:
        if self._leads:
            self.counters["leadership_doubted"] += 1
            self._effects.append(DoubtLeadership(self._leading))
            self._doubted = True
            for worker in self.workers:
                self._stop_telling(worker)

    # The store

    def _ask_the_store(self) -> None:
        """One thing at a time: first what is not known, then what is to be proposed."""
        if not self._leads or self._asked is not None or self._store_rests:
            return
        if self._stale:
            self._stale = False
            self._ask(Load(self._next_number(), self._leading, self._since))
            return
        changes = self._changes()
        if changes:
            self._ask(Commit(self._next_number(), self._leading, changes))

    def _changes(self) -> tuple[Change, ...]:
        """What is to be proposed now, as far as it fits into one proposal."""
        changes: list[Change] = []
        self._chosen.clear()
        while self._dirty and len(changes) < MAX_CHANGES:
            thing_id = next(iter(self._dirty))
            del self._dirty[thing_id]
            thing = self.declared.get(thing_id)
            change = None if thing is None else self._change_of(thing)
            if change is not None:
                changes.append(change)
        return tuple(changes)

    def _ask(self, question: Load | Commit) -> None:
        self._asked = question
        self._effects.append(question)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _answered(self, number: int) -> Load | Commit | None:
        """What this answers. An answer to what an earlier leadership asked is nobody's."""
        asked = self._asked
        if asked is None or asked.number != number:
            return None
        self._asked = None
        return asked

    def _loaded(self, number: int, revision: Revision, things: tuple[Thing, ...]) -> None:
        asked = self._answered(number)
        if not isinstance(asked, Load):
            return
        self._store_failures = 0
        if asked.since == NEVER:
            there = {thing.spec.thing_id for thing in things}
            for thing_id in [each.spec.thing_id for each in self.declared if each.spec.thing_id not in there]:
                self._remove(thing_id)
        knew, self._knows = self._knows, True
        self._since = revision
        for thing in things:
            self._put(thing)
        if not knew:
            for worker in self.workers:
                self._look_at_all(worker)
        self._deadlines.set(StoreTimer(), self._now + self.config.look_s)

    def _committed(self, number: int, things: tuple[Thing, ...], gone: tuple[ThingId, ...]) -> None:
        """Others may have committed something before it, so the next look still begins where the last one ended."""
        asked = self._answered(number)
        if not isinstance(asked, Commit):
            return
        self._store_failures = 0
        for change in asked.changes:
            thing = self.declared.get(change.thing_id)
            assert thing is not None  # nothing was read since it was proposed
            self.moves[thing.state, change.trigger] += 1
        for thing in things:
            self._put(thing)
        for thing_id in gone:
            self._remove(thing_id)

    def _read_anew(self, number: int) -> bool:
        """What was asked came to nothing, or nobody knows to what."""
        asked = self._answered(number)
        if asked is None:
            return False
        if isinstance(asked, Commit):
            self._dirty |= dict.fromkeys(change.thing_id for change in asked.changes)
        self._since, self._stale = NEVER, True
        return True

    def _store_failed(self, number: int) -> None:
        if self._read_anew(number):
            self._store_failures += 1
            self._store_rests = True
            again_at = self._now + self.config.backoff.delay_s(self._store_failures, _NO_JITTER)
            self._deadlines.set(StoreTimer(), again_at)

    def _put(self, thing: Thing) -> None:
        """It is committed so."""
        thing_id = thing.spec.thing_id
        before = self.declared.get(thing_id)
        if before is not None and before.revision >= thing.revision:
            return
        self.declared.put(thing)
        if not is_wanted(thing):
            self._homeless.pop(thing_id, None)
        self._changed(thing)
        if before is not None and before.worker_id is not None:
            self._settle(self._worker(before.worker_id), before.held_id)
            self._forget_if_nothing(self._worker(before.worker_id))
        if thing.worker_id is not None:
            self._settle(self._worker(thing.worker_id), thing.held_id)

    def _remove(self, thing_id: ThingId) -> None:
        thing = self.declared.remove(thing_id)
        self._homeless.pop(thing_id, None)
        self._changed(thing)
        if thing.worker_id is not None:
            worker = self._worker(thing.worker_id)
            self._settle(worker, thing.held_id)
            self._forget_if_nothing(worker)

    def _changed(self, thing: Thing) -> None:
        """Something may be to propose about it, and about those that stand and fall with it."""
        self._dirty[thing.spec.thing_id] = None
        has_failed = self.declared.failure_of(thing.spec.group_id) is not None
        for sibling in self.declared.of_group(thing.spec.group_id):
            sibling_id = sibling.spec.thing_id
            if sibling_id in self._homeless or (has_failed and is_wanted(sibling)):
                self._dirty[sibling_id] = None

    # What to propose

    def _change_of(self, thing: Thing) -> Change | None:
        if is_wanted(thing):
            failure = self.declared.failure_of(thing.spec.group_id)
            if failure is not None:
                return _change(thing, ThingTrigger.FAIL, error=failure)
            return self._change_of_wanted(thing)
        if thing.state is ThingState.FAILED or not self._is_gone(thing):
            return None
        return _change(thing, ThingTrigger.STOP if thing.state is ThingState.FAILING else ThingTrigger.CLEAR)

    def _change_of_wanted(self, thing: Thing) -> Change | None:
        self._homeless.pop(thing.spec.thing_id, None)
        if thing.worker_id is None:
            return self._place(thing)
        worker = self._worker(thing.worker_id)
        obeys = worker.obeys(self._leading)
        holding = worker.holdings.get(thing.held_id) if obeys else None
        if holding is not None and holding.error is not None and not holding.error.retryable:
            return _change(thing, ThingTrigger.FAIL, error=holding.error)
        if thing.spec.pinned_to is None and self._should_leave(thing, worker, holding):
            move = self._place(thing)
            if move is not None:
                return move
        is_held = holding is not None and holding.state is HoldingState.HELD
        if thing.state is ThingState.PLACED and is_held:
            return _change(thing, ThingTrigger.CONFIRM)
        if thing.state is ThingState.HELD and (worker.lease_over or (obeys and not is_held)):
            return _change(thing, ThingTrigger.MISS)
        return None

    def _should_leave(self, thing: Thing, worker: Worker, holding: Holding | None) -> bool:
        """Whether another worker should have it, if there is one."""
        if worker.report is None:
            return worker.lease_over
        told = worker.told.get(thing.held_id)
        failed = holding is not None and holding.state is HoldingState.FAILED
        is_vain = failed and told is not None and told.times >= self.config.tries_before_moving
        holds_kind = thing.spec.kind in worker.report.kinds
        return is_vain or not worker.report.takes_more or not holds_kind

    def _place(self, thing: Thing) -> Change | None:
        spec = thing.spec
        excluded = {chosen for group_id, chosen in self._chosen if group_id == spec.group_id}
        excluded |= {each.worker_id for each in self.declared.of_group(spec.group_id) if each.worker_id is not None}
        worker_id = spec.pinned_to or self.workers.choose(spec, excluded)
        if worker_id is None:
            self._homeless[spec.thing_id] = None
            return None
        self._chosen.append((spec.group_id, worker_id))
        return _change(thing, ThingTrigger.PLACE, worker_id)

    def _is_gone(self, thing: Thing) -> bool:
        """Whether its worker has no trace of it."""
        if thing.worker_id is None:
            return True
        worker = self._worker(thing.worker_id)
        if worker.obeys(self._leading):
            return not worker.may_have(thing.held_id) and not worker.has_other(thing.held_id)
        return worker.lease_over and thing.spec.pinned_to is None

    # What to command

    def _look_at_all(self, worker: Worker) -> None:
        """At everything that it holds or should hold."""
        for held_id in list(worker.holdings):
            self._look(worker, held_id)
        for thing in list(self.declared.at(worker.worker_id)):
            self._look(worker, thing.held_id)

    def _look(self, worker: Worker, held_id: HeldId) -> None:
        self._settle(worker, held_id)
        thing = self.declared.get(held_id.thing_id)
        if thing is not None and thing.worker_id == worker.worker_id:
            self._dirty[held_id.thing_id] = None
            if thing.held_id != held_id:
                self._settle(worker, thing.held_id)

    def _settle(self, worker: Worker, held_id: HeldId) -> None:
        """Tells the worker what to do about it, if anything."""
        if not (self._leads and self._knows and worker.obeys(self._leading)):
            return
        thing = self.declared.get(held_id.thing_id)
        is_its = thing is not None and (thing.worker_id, thing.held_id) == (worker.worker_id, held_id)
        holding = worker.holdings.get(held_id)
        if thing is not None and is_its and is_wanted(thing):
            self._settle_wanted(worker, thing, holding)
        elif holding is not None and holding.state is HoldingState.RELEASING:
            self._wait(worker, held_id)
        elif worker.may_have(held_id):
            self._tell(worker, held_id, hold=False)
        else:
            self._done(worker, held_id)

    def _settle_wanted(self, worker: Worker, thing: Thing, holding: Holding | None) -> None:
        held_id = thing.held_id
        match None if holding is None else holding.state:
            case HoldingState.HELD:
                self._done(worker, held_id)
            case HoldingState.ACQUIRING | HoldingState.RELEASING:
                self._wait(worker, held_id)
            case _:
                # That it is missing is committed before it is asked for again; another generation goes first.
                is_hopeless = holding is not None and holding.error is not None and not holding.error.retryable
                if thing.state is ThingState.HELD or worker.has_other(held_id) or is_hopeless:
                    self._done(worker, held_id)
                else:
                    self._tell(worker, held_id, hold=True)

    def _tell(self, worker: Worker, held_id: HeldId, *, hold: bool) -> None:
        told = worker.told.get(held_id)
        timer = CommandTimer(worker.worker_id, held_id)
        if told is None or told.hold is not hold:
            worker.told[held_id] = told = Told(hold)
            self._say(worker, held_id, told)
        elif timer not in self._deadlines:  # it had begun, and failed
            self._deadlines.set(timer, self._now + self.config.backoff.delay_s(told.times, _NO_JITTER))

    def _tell_again(self, worker: Worker, held_id: HeldId) -> None:
        told = worker.told[held_id]
        told.times += 1
        command = "hold" if told.hold else "drop"
        self._effects.append(ReportRetry(worker.worker_id, held_id, command, told.times))
        self._say(worker, held_id, told)

    def _say(self, worker: Worker, held_id: HeldId, told: Told) -> None:
        thing = self.declared.get(held_id.thing_id)
        if told.hold:
            assert thing is not None
            worker.asked[held_id] = None
            self._send(worker, HoldThing(self._leading, held_id, thing.spec))
        else:
            self._send(worker, DropThing(self._leading, held_id))
        again_at = self._now + self.config.backoff.delay_s(told.times, _NO_JITTER)
        self._deadlines.set(CommandTimer(worker.worker_id, held_id), again_at)

    def _wait(self, worker: Worker, held_id: HeldId) -> None:
        """It is on its way: nothing is said again, and how often it was said is not forgotten."""
        self._deadlines.cancel(CommandTimer(worker.worker_id, held_id))

    def _done(self, worker: Worker, held_id: HeldId) -> None:
        worker.told.pop(held_id, None)
        self._deadlines.cancel(CommandTimer(worker.worker_id, held_id))

    def _stop_telling(self, worker: Worker) -> None:
        self._deadlines.cancel(AnnounceTimer(worker.worker_id))
        for held_id in list(worker.told):
            self._done(worker, held_id)

    # Workers

    def _worker(self, worker_id: WorkerId) -> Worker:
        """Its record. One that has to come first has as long as workers have to find a new leader."""
        worker = self.workers.known(worker_id)
        if worker.report is None and not worker.lease_over and LeaseTimer(worker_id) not in self._deadlines:
            self._adopt(worker)
        return worker

    def _adopt(self, worker: Worker) -> None:
        """Gives one that is away the time to find a new leader."""
        if worker.report is None:
            worker.lease_over = False
            self._deadlines.set(LeaseTimer(worker.worker_id), self._now + self.config.adopt_s)

    def _announce(self, worker: Worker) -> None:
        """Tells it whom to obey, until it has said that it does. One that never reports holds nothing, and is told
        nothing."""
        if worker.report is not None:
            self._send(worker, LeaderAnnounced(self._leading))
            again_at = self._now + self.config.backoff.delay_s(1, _NO_JITTER)
            self._deadlines.set(AnnounceTimer(worker.worker_id), again_at)

    def _session_opened(self, opened: ev.SessionOpened) -> None:
        before = self.workers.get(opened.worker_id)
        if before is not None and before.session_id is not None and opened.incarnation >= before.incarnation:
            self._session_lost(before.session_id)
        self.workers.open(opened.session_id, opened.worker_id, opened.incarnation, opened.tenant)

    def _session_lost(self, session_id: SessionId) -> None:
        worker = self.workers.of_session(session_id)
        if worker is None:
            return
        self._stop_telling(worker)
        timer = LeaseTimer(worker.worker_id)
        if worker.report is not None or timer not in self._deadlines:
            self._deadlines.set(timer, self._now + self.config.lease_s)
        self.workers.close(worker)

    def _reported(self, worker: Worker, report: Report) -> None:
        before = worker.report
        if self._leads and report.fence > self._leading:
            self._doubt()
        mentioned = self.workers.take_report(worker, report)
        if mentioned is None:
            self.counters["reports_missed"] += 1
            self._send(worker, ReportWanted())
            return
        worker.lease_over = False
        self._deadlines.cancel(LeaseTimer(worker.worker_id))
        if not self._leads:
            return
        if not worker.obeys(self._leading):
            if AnnounceTimer(worker.worker_id) not in self._deadlines:
                self._announce(worker)
            return
        self._deadlines.cancel(AnnounceTimer(worker.worker_id))
        assert worker.report is not None
        if before is None or (before.fence, before.takes_more) != (worker.report.fence, worker.report.takes_more):
            self._dirty |= self._homeless
            self._look_at_all(worker)
        for held_id in mentioned:
            self._look(worker, held_id)

    def _forget_if_nothing(self, worker: Worker) -> None:
        """One that is away, and that nothing waits for."""
        if worker.session_id is None and worker.lease_over and not self.declared.has_at(worker.worker_id):
            self.workers.forget(worker)

    # Time

    def _time_passed(self) -> None:
        due = self._deadlines.pop_due(self._now)
        while due is not None:
            self._timer_fired(due[0])
            due = self._deadlines.pop_due(self._now)

    def _timer_fired(self, timer: Timer) -> None:
        match timer:
            case CommandTimer(worker_id, held_id):
                self._tell_again(self.workers.known(worker_id), held_id)
            case AnnounceTimer(worker_id):
                self._announce(self.workers.known(worker_id))
            case LeaseTimer(worker_id):
                worker = self.workers.known(worker_id)
                worker.lease_over = True
                for thing in self.declared.at(worker_id):
                    self._dirty[thing.spec.thing_id] = None
                self._forget_if_nothing(worker)
            case StoreTimer():
                self._store_rests, self._stale = False, True
            case _:
                assert_never(timer)

    # Inside

    def _send(self, worker: Worker, message: LeaderMessage) -> None:
        assert worker.session_id is not None
        self._effects.append(SendToWorker(worker.session_id, message))


def _change(
    thing: Thing, trigger: ThingTrigger, worker_id: WorkerId | None = None, error: HeldError | None = None
) -> Change:
    return Change(thing.spec.thing_id, thing.revision, trigger, worker_id, error)
