"""The leader's machine: events in, effects out. It is the one owner of its records and knows no clock and no socket.

Rules it keeps, whatever is lost and whoever dies:

- it acts only on what is committed, and only while it leads; a proposal changes nothing until it is committed;
- it compares, each time anew, what is committed with what is reported: no message and no reply has to arrive;
- it commands only workers that have said that they obey its fence, so nobody who led before can undo it;
- what was told and not done is told again, with a backoff, and not while the worker is away;
- so many commands are on their way to one worker and no more: its session carries the work of queries, too;
- a proposal that cannot be committed is made again apart from the others, with a backoff;
- an error that no other try can cure rolls back the whole group;
- what ends the process of its worker again and again has such an error, and nothing beside it has;
- what a worker has and nobody wants there is stopped;
- a thing ends (`STOP`, `CLEAR`) when its worker has said that it has no trace of it. One that is not pinned also ends
  when its worker has been away for the lease: should that worker come back, its copy is one that nobody wants.

A step is linear in what it is about: a worker's report in that, a session in what its worker holds or should hold.

The parts: the questions ask the store, and the proposals say for what; the commands tell workers what is committed; the
trials find what ends workers; the leases say who has been away for too long. Leadership, and what was committed and
reported, comes in here.
"""

from collections import Counter
from enum import StrEnum
from typing import assert_never

from quarterdeck.core.ids import Fence, SessionId
from quarterdeck.core.invariants import insist
from quarterdeck.core.leadership.model import MOST_BELIEVED
from quarterdeck.core.reconcile.changes import is_wanted
from quarterdeck.core.reconcile.leader import events as ev
from quarterdeck.core.reconcile.leader.commands import Commands
from quarterdeck.core.reconcile.leader.config import LeaderConfig
from quarterdeck.core.reconcile.leader.deaths import Deaths
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.desk import LeaderDesk
from quarterdeck.core.reconcile.leader.effects import Commit, DoubtLeadership, Effect, Load
from quarterdeck.core.reconcile.leader.invariants import claims
from quarterdeck.core.reconcile.leader.leases import Leases
from quarterdeck.core.reconcile.leader.proposals import Proposals
from quarterdeck.core.reconcile.leader.questions import Questions
from quarterdeck.core.reconcile.leader.timers import (
    AnnounceTimer,
    CommandTimer,
    LeaseTimer,
    ReportTimer,
    SteadyTimer,
    StoreTimer,
    SuspectTimer,
    Timer,
    TrialTimer,
)
from quarterdeck.core.reconcile.leader.trials import Trials
from quarterdeck.core.reconcile.leader.workers import Worker, Workers
from quarterdeck.core.reconcile.messages import LeaderAnnounced, ReportWanted
from quarterdeck.core.reconcile.model import NEVER, Report, Revision, Thing, ThingId


class LeaderMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: LeaderConfig | None = None) -> None:
        self.config = config or LeaderConfig()
        self.declared = Declared()
        """As committed; empty while somebody else leads."""
        self.workers = Workers()
        self._desk = LeaderDesk(self.config)
        self._deaths = Deaths(self.config.deaths_allowed)
        self._leases = Leases(self._desk, self.declared, self.workers)
        self._trials = Trials(self._desk, self.declared, self._leases, self._deaths)
        self._commands = Commands(self._desk, self.declared, self._deaths, self._trials)
        self._proposals = Proposals(self._desk, self.declared, self.workers, self._leases, self._deaths)
        self._questions = Questions(self._desk, self._proposals)

    # What a driver calls

    @property
    def counters(self) -> Counter[str]:
        """What was counted since the machine was made."""
        return self._desk.counters

    @property
    def moves(self) -> Counter[tuple[StrEnum, StrEnum]]:
        """How often each entry of the table was committed."""
        return self._desk.moves

    @property
    def fence(self) -> Fence | None:
        """Ours, while we lead."""
        return self._desk.fence

    @property
    def is_settled(self) -> bool:
        """Whether it leads, knows the store, and has nothing left to propose or to say again."""
        known = self._desk.leads and self._desk.knows
        told = any(worker.told for worker in self.workers)
        return known and self._questions.is_done and self._proposals.is_done and not told

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._desk.deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        desk = self._desk
        desk.now = max(desk.now, now)
        effects: list[Effect] = []
        desk.effects = effects
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
                self._questions.heard_of_more()
            case ev.DeclaredLoaded(number, revision, things):
                self._loaded(number, revision, things)
            case ev.ChangesCommitted(number, things, gone):
                self._committed(number, things, gone)
            case ev.ChangesRefused(number):
                self._questions.read_anew(number)
            case ev.StoreFailed(number):
                self._questions.failed(number)
            case ev.StoreDeposedUs(number, highest):
                if self._questions.answered(number) is not None:
                    self._doubt(highest)
            case ev.LeadershipGained(fence):
                self._gain(fence)
            case ev.LeadershipLost():
                self._lose()
            case _:
                assert_never(event)
        self._questions.ask()
        return effects

    def check_invariants(self) -> None:
        insist(claims(self.declared, self.workers, self._proposals.homeless, self._deaths))

    # Leadership

    def _gain(self, fence: Fence) -> None:
        self._lose()
        self._desk.fence = fence
        for worker in self.workers:
            self._announce(worker)
            self._leases.adopt(worker)

    def _lose(self) -> None:
        desk = self._desk
        desk.fence, desk.is_doubted, desk.knows = None, False, False
        self._questions.clear()
        self._proposals.clear()
        self._trials.clear(self.workers)
        self.declared.clear()
        for worker in list(self.workers):
            self._stop_telling(worker)
            self._leases.forget_if_nothing(worker)

    def _doubt(self, seen: Fence) -> None:
        if self._desk.leads:
            self.counters["leadership_doubted"] += 1
            self._desk.do(DoubtLeadership(self._desk.leading, seen))
            self._desk.is_doubted = True
            for worker in self.workers:
                self._stop_telling(worker)

    # What is committed

    def _loaded(self, number: int, revision: Revision, things: tuple[Thing, ...]) -> None:
        asked = self._questions.answered(number)
        if not isinstance(asked, Load):
            return
        if asked.since == NEVER:
            there = {thing.spec.thing_id for thing in things}
            for thing_id in [each.spec.thing_id for each in self.declared if each.spec.thing_id not in there]:
                self._remove(thing_id)
        knew, self._desk.knows = self._desk.knows, True
        for thing in things:
            self._put(thing)
        if not knew:
            for worker in self.workers:
                self._commands.look_at_all(worker)
        self._questions.has_read(revision)

    def _committed(self, number: int, things: tuple[Thing, ...], gone: tuple[ThingId, ...]) -> None:
        asked = self._questions.answered(number)
        if not isinstance(asked, Commit):
            return
        self._questions.has_committed()
        for change in asked.changes:
            thing = self.declared.get(change.thing_id)
            assert thing is not None  # nothing was read since it was proposed
            self.moves[thing.state, change.trigger] += 1
        for thing in things:
            self._put(thing)
        for thing_id in gone:
            self._remove(thing_id)

    def _put(self, thing: Thing) -> None:
        """It is committed so."""
        thing_id = thing.spec.thing_id
        before = self.declared.get(thing_id)
        if before is not None and before.revision == thing.revision:
            return
        had_failed = self.declared.failure_of(thing.spec.group_id) is not None
        self.declared.put(thing)
        if not is_wanted(thing):
            self._proposals.has_home(thing)
            self._trials.acquit(thing_id)
        self._proposals.changed(thing, before, had_failed=had_failed)
        if before is not None and before.worker_id is not None:
            self._commands.settle(self._leases.worker(before.worker_id), before.held_id)
            self._leases.forget_if_nothing(self._leases.worker(before.worker_id))
        if thing.worker_id is not None:
            self._commands.settle(self._leases.worker(thing.worker_id), thing.held_id)

    def _remove(self, thing_id: ThingId) -> None:
        thing = self.declared.remove(thing_id)
        self._proposals.has_home(thing)
        self._trials.acquit(thing_id)
        self._proposals.changed(thing, thing, had_failed=True)
        if thing.worker_id is not None:
            worker = self._leases.worker(thing.worker_id)
            self._commands.settle(worker, thing.held_id)
            self._leases.forget_if_nothing(worker)

    # Workers

    def _announce(self, worker: Worker) -> None:
        """Tells it whom to obey, until it has said that it does. One that never reports holds nothing, and is told
        nothing."""
        if worker.report is not None:
            self._desk.send(worker, LeaderAnnounced(self._desk.leading))
            self._desk.deadlines.set(AnnounceTimer(worker.worker_id), self._desk.again_at(1))

    def _session_opened(self, opened: ev.SessionOpened) -> None:
        worker = self.workers.known(opened.worker_id)
        if opened.incarnation < worker.incarnation:
            return
        if worker.session_id is not None:
            self._session_lost(worker.session_id)
        earlier = worker.incarnation
        self.workers.open(opened.session_id, opened.worker_id, opened.incarnation, opened.tenant)
        if earlier < worker.incarnation:
            self._trials.died(worker, earlier)
        thing = self._trials.lives(worker)
        if thing is not None:
            assert thing.worker_id is not None  # it was placed, or it could not be told
            self._commands.settle(self._leases.worker(thing.worker_id), thing.held_id)

    def _session_lost(self, session_id: SessionId) -> None:
        worker = self.workers.of_session(session_id)
        if worker is None:
            return
        self._trials.went(worker)
        self._stop_telling(worker)
        self._desk.deadlines.cancel(ReportTimer(worker.worker_id))
        self._leases.begin(worker)
        self.workers.close(worker)

    def _reported(self, worker: Worker, report: Report) -> None:
        before = worker.report
        if self._desk.leads and self._desk.leading < report.fence <= MOST_BELIEVED:
            self._heard_of_higher(worker, report.fence)
        mentioned = self.workers.take_report(worker, report)
        if mentioned is None:
            self.counters["reports_missed"] += 1
            if ReportTimer(worker.worker_id) not in self._desk.deadlines:
                self._want_report(worker)
            return
        if report.since is None:
            self._desk.deadlines.cancel(ReportTimer(worker.worker_id))
        self._leases.end(worker)
        if not self._desk.leads:
            return
        if not worker.obeys(self._desk.leading):
            if worker.told:  # it obeyed before, and says a lower fence now
                self._stop_telling(worker)
            if AnnounceTimer(worker.worker_id) not in self._desk.deadlines:
                self._announce(worker)
            return
        self._desk.deadlines.cancel(AnnounceTimer(worker.worker_id))
        assert worker.report is not None
        if before is None or (before.fence, before.takes_more) != (worker.report.fence, worker.report.takes_more):
            self._proposals.look_at_homeless()
            self._commands.look_at_all(worker)
        for held_id in mentioned:
            worker.answered(held_id)
            self._commands.look(worker, held_id)
        self._commands.go_on(worker)

    def _heard_of_higher(self, worker: Worker, seen: Fence) -> None:
        """A worker obeys another leader, or says so."""
        believed_at = worker.believed_at
        if believed_at is None or self._desk.now - believed_at >= self.config.believe_again_s:
            worker.believed_at = self._desk.now
            reports = [each.report.fence for each in self.workers if each.report is not None]
            self._doubt(max(seen, *(fence for fence in reports if fence <= MOST_BELIEVED), Fence(0)))

    def _want_report(self, worker: Worker) -> None:
        """Asks for all of it, once for all that was missed meanwhile."""
        self._desk.send(worker, ReportWanted())
        self._desk.deadlines.set(ReportTimer(worker.worker_id), self._desk.again_at(1))

    def _stop_telling(self, worker: Worker) -> None:
        """Neither whom to obey nor what to hold."""
        self._desk.deadlines.cancel(AnnounceTimer(worker.worker_id))
        self._commands.stop_telling(worker)

    # Time

    def _time_passed(self) -> None:
        due = self._desk.deadlines.pop_due(self._desk.now)
        while due is not None:
            self._timer_fired(due[0])
            due = self._desk.deadlines.pop_due(self._desk.now)

    def _timer_fired(self, timer: Timer) -> None:
        match timer:
            case CommandTimer(worker_id, held_id):
                self._commands.tell_again(self.workers.known(worker_id), held_id)
            case AnnounceTimer(worker_id):
                self._announce(self.workers.known(worker_id))
            case ReportTimer(worker_id):
                self._want_report(self.workers.known(worker_id))
            case LeaseTimer(worker_id):
                worker = self.workers.known(worker_id)
                self._trials.stays_away(worker)
                self._leases.run_out(worker)
            case StoreTimer():
                self._questions.look()
            case SuspectTimer():
                pass  # they are proposed when the store is asked next
            case TrialTimer(worker_id):
                worker = self.workers.known(worker_id)
                if self._trials.took_long(worker):
                    self._commands.go_on(worker)
            case SteadyTimer(thing_id):
                holder = self._trials.held_for_long(thing_id)
                if holder is not None:
                    self._commands.go_on(holder)
            case _:
                assert_never(timer)
