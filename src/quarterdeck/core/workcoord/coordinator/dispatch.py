"""The dispatcher: finds each pending work a worker, by affinity first and by free credit when that takes too long.

It owns the lanes and their timers. It decides who gets which work and when; what an assignment is, and what becomes of
it, is the machine's affair.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.coordinator.desk import Desk
from quarterdeck.core.workcoord.coordinator.lane import Lane, LaneKey
from quarterdeck.core.workcoord.coordinator.line import Line
from quarterdeck.core.workcoord.coordinator.records import Attempt, Query, Session, Work
from quarterdeck.core.workcoord.coordinator.timers import WaitTimer
from quarterdeck.core.workcoord.messages import RecallWork
from quarterdeck.core.workcoord.model import WorkSpec

_BATCH = 256
"""Works placed from a backlog in one step. A step stays in the low milliseconds; the rest follows at once."""


_CHOOSY = 32
"""Choosy works that a worker with credit is held against. The first may be choosy about just this one."""


_RECALLS = 2
"""How often a work is taken back from a worker that has not begun it; then it waits where it is."""
_LOOK_AGAIN_S = 0.1
"""Between two looks at works that wait on workers while no other can begin them at once."""


class Dispatcher:
    """Call `place` when a work becomes pending, `withdraw` when it no longer is, and tell it how the workers change."""

    def __init__(self, assign: Callable[[Work, Session], None], desk: Desk, spill_after_s: float) -> None:
        self._assign = assign
        self._desk = desk
        self._deadlines = desk.deadlines
        self._counters = desk.counters
        self._spill_after_s = spill_after_s
        self._lanes: dict[LaneKey, Lane] = {}
        self._has_suspects = False
        """Whether any lane may have suspects that wait."""
        self.pending = 0
        """How many works wait, in all lanes."""

    def lane_for(self, spec: WorkSpec) -> Lane:
        key = (spec.tenant, spec.kind)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
        return lane

    def lanes(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    # Works

    def place(self, work: Work) -> None:
        """A work has become pending: it is assigned at once, or stands in line."""
        work.since = self._desk.now
        self.pending += 1
        lane = work.lane = self.lane_for(work.spec)
        query = work.query
        query.pending[work] = None
        lane.pending[query] = lane.pending.get(query, 0) + 1
        query.lanes[lane] = None
        if not lane.members:
            self._start_waiting(lane, query)
        self._find_home(work)

    def withdraw(self, work: Work) -> None:
        """A work is no longer pending: assigned, committed or canceled."""
        self.pending -= 1
        self._leave_line(work)
        lane, query = work.lane, work.query
        del query.pending[work]
        lane.pending[query] -= 1
        if not lane.pending[query]:
            self._stop_waiting(lane, query)
            del query.lanes[lane]
            self._tidy(lane)

    def forget(self, query: Query) -> None:
        """A query has ended, and leaves every line with all its works."""
        for line in list(query.lines):
            line.forget(query)
        for lane in list(query.lanes):
            self.pending -= lane.pending[query]
            self._stop_waiting(lane, query)
            self._tidy(lane)
        query.lanes.clear()
        query.pending.clear()

    def resume(self, query: Query) -> None:
        """Nobody of the query is accused any more: the others of it have their turns again."""
        for lane in list(query.lanes):
            self._continue_backlog(lane)
            for session in list(lane.idle.values()):
                self.credit_changed(session)
            self._arm_spill(lane)

    def unbound(self, attempt: Attempt) -> None:
        """An attempt at a work has ended, or is given up."""
        lane = attempt.work.lane
        lane.waiting.pop(attempt, None)
        if not lane.members:
            self._tidy(lane)

    # Workers

    def join(self, session: Session) -> None:
        """A worker has come into rotation."""
        for kind in sorted(session.worker.kinds):
            lane = self._lanes.setdefault((session.worker.tenant, kind), Lane((session.worker.tenant, kind)))
            for query in lane.pending if not lane.members else ():
                self._deadlines.cancel(WaitTimer(lane.key, query.query_id))
            session.lanes.append(lane)
            lane.add(session)
            lane.credit_changed(session)
            self.place_backlog(lane.key)
        self.credit_changed(session)

    def leave(self, session: Session) -> None:
        """A worker has left rotation; what stood in its line moves to others."""
        for lane in session.lanes:
            lane.remove(session)
            for query in lane.pending if not lane.members else ():
                self._start_waiting(lane, query)
            self._continue_backlog(lane)
            self._arm_spill(lane)
            self._tidy(lane)
        session.lanes.clear()

    def credit_changed(self, session: Session) -> None:
        """A worker has more credit, or less: it gets what waits for it."""
        if self._has_suspects:
            self._place_suspects(session)
        idle_turns = 0
        while idle_turns < len(session.lanes):
            lane = session.lanes[0]
            session.lanes.rotate(-1)
            has_credit = session.load.has_room(lane.kind, session.credit)
            work = lane.next_for(session, self._desk.now, self._spill_after_s) if has_credit else None
            if work is None:
                idle_turns += 1
                continue
            idle_turns = 0
            if not self._suits(work, session):
                self._leave_line(work)
                self._find_home(work)
                continue
            at_home = work.lines[0] is lane.homes[session.worker_id]
            self._counters["assigned_at_home" if at_home else "assigned_spilled"] += 1
            self._assign(work, session)
        for lane in session.lanes:
            if lane.choosy:
                self._place_choosy(lane, session)
        self._refresh(session)
        for lane in session.lanes:
            self._arm_spill(lane)

    # Timers

    def place_backlog(self, key: LaneKey) -> None:
        """Finds homes for a batch of what has none, and comes back for the rest."""
        lane = self._lanes[key]
        for _ in range(_BATCH):
            work = lane.next_in_backlog()
            if work is None:
                return
            self._leave_line(work)
            self._find_home(work)
        self._continue_backlog(lane)

    def spill(self, key: LaneKey) -> None:
        """Some work has waited long enough for its home, and another worker is idle."""
        lane = self._lanes[key]
        lane.is_spill_due = False
        for _ in range(_BATCH):
            work = lane.common.head()
            if work is None or not lane.idle or work.since + self._spill_after_s > self._desk.now:
                break
            session = next(iter((lane.vacant or lane.idle).values()))
            self._give(work, session, "assigned_spilled")
        self._arm_spill(lane)

    def recall(self, key: LaneKey) -> None:
        """Some work was given out and has not begun for long, and another worker could begin it at once.

        What it takes back goes there. A worker that has begun it meanwhile ignores this, so nothing is counted on.
        """
        lane = self._lanes[key]
        lane.is_recall_due = False
        until = self._desk.now - self._spill_after_s
        promised: Counter[WorkerId] = Counter()
        for attempt in list(islice(lane.waiting, _BATCH)):
            if attempt.since > until:
                break
            work, session = attempt.work, attempt.session
            if work.recalls >= _RECALLS:
                del lane.waiting[attempt]
                continue
            other = self._vacant_for(work, session, promised)
            if other is None:
                continue
            promised[other.worker_id] += 1
            del lane.waiting[attempt]
            attempt.is_recalled = True
            work.recalls += 1
            self._counters["recalled"] += 1
            self._desk.send(session, RecallWork(attempt.attempt_id))
        self._arm_recall(lane, self._desk.now + _LOOK_AGAIN_S)

    # Inside

    def _tidy(self, lane: Lane) -> None:
        """A lane goes when nobody is in it and nothing waits for it, in a line or on a worker out of rotation."""
        in_use = lane.members or lane.pending or lane.waiting
        if not in_use and self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]
            self._deadlines.cancel(lane.spill_timer)
            self._deadlines.cancel(lane.recall_timer)
            self._deadlines.cancel(lane.backlog_timer)

    def _give(self, work: Work, session: Session, counted_as: str) -> None:
        self._counters[counted_as] += 1
        self._assign(work, session)
        self._refresh(session)

    def _refresh(self, session: Session) -> None:
        """The lanes look anew at what a worker may take."""
        for lane in session.lanes:
            lane.credit_changed(session)
            if lane.waiting and lane.vacant:
                self._arm_recall(lane, 0.0)

    def _find_home(self, work: Work) -> None:
        lane = work.lane
        is_recalled, work.is_recalled = work.is_recalled, False
        if work.query.accused not in (None, work):
            self._stand_in_backlog(work)
            return
        home = self._home(work)
        if work.deaths:
            self._find_quiet_home(work, home)
        elif is_recalled and (other := self._vacant_for(work, None, {})) is not None:
            self._give(work, other, "assigned_spilled")
        elif home is not None and home.has_credit(lane.kind):
            self._give(work, home, "assigned_at_home")
        elif work.choosy and (other := self._idle_for(work)) is not None:
            self._give(work, other, "assigned_spilled")
        elif home is not None:
            line = lane.homes[home.worker_id]
            if work.choosy:
                self._stand_in_line(work, line, lane.choosy)
            else:
                self._stand_in_line(work, line, lane.common)
                self._arm_spill(lane)
        else:
            self._stand_in_backlog(work)

    def _stand_in_backlog(self, work: Work) -> None:
        lane = work.lane
        if not lane.backlog:
            lane.backlog.append(Line())
        self._stand_in_line(work, lane.backlog[-1])

    def _find_quiet_home(self, work: Work, home: Session | None) -> None:
        """A suspect goes where no other one is: when that worker dies too, it is known whose fault it was."""
        lane = work.lane
        candidates = (home, *islice(lane.vacant.values(), _CHOOSY), *islice(lane.idle.values(), _CHOOSY))
        for session in candidates:
            if session is not None and self._is_quiet(session, lane) and self._suits(work, session):
                self._give(work, session, "assigned_at_home" if session is home else "assigned_spilled")
                return
        self._stand_in_line(work, lane.suspects)
        self._has_suspects = True

    def _is_quiet(self, session: Session, lane: Lane) -> bool:
        return session.suspect is None and session.has_credit(lane.kind)

    def _place_suspects(self, session: Session) -> None:
        """A worker's state has changed: a suspect may be waiting for just this one, and goes before others."""
        for lane in session.lanes:
            if lane.suspects and self._is_quiet(session, lane):
                for work in lane.suspects.first(_CHOOSY):
                    if self._suits(work, session):
                        self._counters["assigned_spilled"] += 1
                        self._assign(work, session)
                        break
        self._has_suspects = any(lane.suspects for lane in self._lanes.values())

    def _vacant_for(self, work: Work, not_on: Session | None, promised: Mapping[WorkerId, int]) -> Session | None:
        """A worker that could begin it at once, also with what was promised to it before."""
        for session in islice(work.lane.vacant.values(), _CHOOSY):
            room = session.worker.slots - session.load.charged
            wanted = max(1, room) > promised.get(session.worker_id, 0)
            is_quiet = not work.deaths or session.suspect is None
            if session is not not_on and wanted and is_quiet and self._suits(work, session):
                return session
        return None

    def _suits(self, work: Work, session: Session) -> bool:
        """Whether a worker may have it: it did not fail there, while there are others."""
        worker_id = session.worker_id
        if worker_id not in work.avoid:
            return True
        members = work.lane.members
        if len(members) > sum(avoided in members for avoided in work.avoid):
            return False
        return worker_id != work.avoid[-1] or len(members) == 1

    def _place_choosy(self, lane: Lane, session: Session) -> None:
        """A worker has credit to spare, and may be what a choosy work is waiting for."""
        for work in lane.choosy.first(_CHOOSY):
            if session.has_credit(lane.kind) and self._suits(work, session):
                self._counters["assigned_spilled"] += 1
                self._assign(work, session)

    def _idle_for(self, work: Work) -> Session | None:
        """A worker with credit to spare that a choosy work may go to: it need not wait for its home."""
        idle = islice(work.lane.idle.values(), len(work.avoid) + 1)
        return next((session for session in idle if self._suits(work, session)), None)

    def _home(self, work: Work) -> Session | None:
        spec = work.spec
        placement = work.lane.placement(spec.placement)
        chosen = None
        if work.avoid:
            chosen = placement.choose(spec.affinity_key, work.avoid)
            if chosen is None:  # it failed everywhere: then at least not where it failed last
                chosen = placement.choose(spec.affinity_key, work.avoid[-1:])
        if chosen is None:
            chosen = placement.choose(spec.affinity_key)
        return None if chosen is None else work.lane.members[chosen]

    def _stand_in_line(self, work: Work, *lines: Line) -> None:
        work.lines = lines
        for line in lines:
            line.push(work)

    def _leave_line(self, work: Work) -> None:
        for line in work.lines:
            line.remove(work)
        work.lines = ()

    def _continue_backlog(self, lane: Lane) -> None:
        if lane.members and lane.next_in_backlog() is not None:
            self._deadlines.set(lane.backlog_timer, self._desk.now)
        else:
            self._deadlines.cancel(lane.backlog_timer)

    def _arm_spill(self, lane: Lane) -> None:
        head = lane.common.head() if lane.idle else None
        if head is None:
            if lane.is_spill_due:
                lane.is_spill_due = False
                self._deadlines.cancel(lane.spill_timer)
        else:
            lane.is_spill_due = True
            self._deadlines.set(lane.spill_timer, max(self._desk.now, head.since + self._spill_after_s))

    def _arm_recall(self, lane: Lane, not_before: float) -> None:
        if lane.waiting and lane.vacant and not lane.is_recall_due:
            lane.is_recall_due = True
            due = next(iter(lane.waiting)).since + self._spill_after_s
            self._deadlines.set(lane.recall_timer, max(self._desk.now, due, not_before))

    def _start_waiting(self, lane: Lane, query: Query) -> None:
        timer = WaitTimer(lane.key, query.query_id)
        if query.wait_limit_s is not None and timer not in self._deadlines:
            self._deadlines.set(timer, self._desk.now + query.wait_limit_s)

    def _stop_waiting(self, lane: Lane, query: Query) -> None:
        del lane.pending[query]
        if query.wait_limit_s is not None:
            self._deadlines.cancel(WaitTimer(lane.key, query.query_id))
