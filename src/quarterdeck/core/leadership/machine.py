"""One candidate for leadership: events in, effects out.

Rules it keeps, whatever the store, the network and the other candidates do:

- Of two candidates at most one leads at a time, as long as their clocks run at about the same rate. A holder counts
  its lease from when it sent the beat that was confirmed. Another counts it from when it heard of that beat: later.
- It takes the row only if that is still as it was seen, and each time under a higher fence. So where clocks err,
  because a machine was suspended, the fence refuses what the older leader writes.
- What it learns too late it has not learned: leadership that ended by its own clock does not come back by an answer.
- One request at a time. An answer to one that was given up is ignored.
- Leadership comes back to somebody within two looks and one lease after a leader was lost, if the store answers.
"""

from typing import assert_never

from quarterdeck.core.ids import Fence
from quarterdeck.core.invariants import insist
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership import events as ev
from quarterdeck.core.leadership.model import MOST_BELIEVED, LeaderRow, LeadershipLossReason, LeaseConfig
from quarterdeck.core.leadership.table import CANDIDATE_TABLE, CandidateState, CandidateTrigger


class CandidateMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: LeaseConfig) -> None:
        self.config = config
        self._state = CANDIDATE_TABLE.initial
        self._effects: list[ef.Effect] = []
        self._now = 0.0
        self._number = 0
        """Of the last request."""
        self._request: ef.Request | None = None
        """What has no answer yet."""
        self._sent_at = 0.0
        """When the last request was sent."""
        self._next_at = float("-inf")
        """When to send the next one, if none is under way."""
        self._row: LeaderRow | None = None
        """As it was last seen."""
        self._row_since = 0.0
        """When it was first seen so."""
        self._fence: Fence | None = None
        self._leads_until = 0.0
        self._above = Fence(0)
        """The highest fence that somebody has seen elsewhere."""
        self._has_bid = False
        """Whether the row may be ours, now or when a request comes to its end."""

    # What a driver calls

    @property
    def state(self) -> CandidateState:
        return self._state

    @property
    def row(self) -> LeaderRow | None:
        """Who leads, as far as is known here: None before the store has first answered."""
        return self._row

    def fence_at(self, now: float) -> Fence | None:
        """The fence under which this candidate leads; None when it does not. It looks at the clock, so it is right also
        while the end of the lease has not been noticed yet."""
        return self._fence if now < self._leads_until else None

    def step(self, event: ev.Event, now: float) -> list[ef.Effect]:
        self._now = now
        self._notice_time()
        self._handle(event)
        self._go_on()
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float | None:
        if self._state is CandidateState.ENDED:
            return None
        request_at = self._next_at if self._request is None else self._sent_at + self.config.answer_max_s
        return request_at if self._fence is None else min(request_at, self._leads_until)

    def check_invariants(self) -> None:
        leads, ended = self._state is CandidateState.LEADING, self._state is CandidateState.ENDED
        deadline = self.next_deadline()
        insist(
            [
                ((self._fence is not None) == leads, "%s with fence %s", (self._state, self._fence)),
                (not leads or self._now < self._leads_until, "leads at %s, beyond %s", (self._now, self._leads_until)),
                (not leads or isinstance(self._request, ef.RaiseBeat | None), "leads and asks %s", (self._request,)),
                (not ended or self._request is None, "has ended and awaits %s", (self._request,)),
                (ended or (deadline is not None and deadline > self._now), "is woken at %s", (deadline,)),
                (not self._effects, "keeps %s to itself", (self._effects,)),
            ]
        )

    # What happened

    def _notice_time(self) -> None:
        """Before anything else: what an event says is judged by what was still true when it came."""
        if self._fence is not None and self._now >= self._leads_until:
            self._lose(LeadershipLossReason.LEASE_ENDED)
        if self._request is not None and self._now >= self._sent_at + self.config.answer_max_s:
            self._request_failed()

    def _handle(self, event: ev.Event) -> None:
        match event:
            case ev.RowAnswered():
                if self._request is not None and event.number == self._request.number:
                    self._answered(self._request, event)
            case ev.RequestFailed():
                if self._request is not None and event.number == self._request.number:
                    self._request_failed()
            case ev.HigherFenceSeen():
                self._doubt(event.fence)
            case ev.ReleaseAsked():
                self._release()
            case ev.TimePassed():
                pass
            case _:
                assert_never(event)

    def _answered(self, request: ef.Request, answer: ev.RowAnswered) -> None:
        self._request = None
        self._next_at = self._sent_at + self.config.beat_every_s
        if answer.row != self._row:
            self._row, self._row_since = answer.row, self._now
        match request:
            case ef.ReadRow():
                self._look_again()
            case ef.TakeRow():
                if answer.changed:
                    self._gain(answer.row.fence)
                else:
                    self._look_again()
            case ef.RaiseBeat():
                if self._fence is None:
                    self._look_again()
                elif answer.changed:
                    self._leads_until = self._sent_at + self.config.leads_for_s
                else:
                    self._lose(LeadershipLossReason.TAKEN_OVER)
            case ef.ReleaseRow():
                self._finish()
            case _:
                assert_never(request)

    def _request_failed(self) -> None:
        if isinstance(self._request, ef.ReleaseRow):
            self._finish()
        self._request = None
        self._next_at = self._sent_at + self.config.beat_every_s

    # What follows

    def _look_again(self) -> None:
        """At the next beat, or when the row may be taken if that is sooner."""
        self._next_at = min(self._next_at, self._may_take_at())

    def _may_take_at(self) -> float:
        """When the lease of the row that was seen has run out. A row that is free, or ours although we do not lead, is
        there for the taking."""
        assert self._row is not None
        if self._row.holder in (None, self.config.candidate):
            return self._row_since
        return self._row_since + self._row.lease_s

    def _gain(self, fence: Fence) -> None:
        """The answer came within `answer_max_s`, which is shorter than the lease."""
        self._move(CandidateTrigger.GAIN)
        self._fence = fence
        self._leads_until = self._sent_at + self.config.leads_for_s
        self._effects.append(ef.BeginLeading(fence))

    def _lose(self, reason: LeadershipLossReason) -> None:
        assert self._fence is not None
        self._move(CandidateTrigger.LOSE)
        self._effects.append(ef.EndLeading(self._fence, reason))
        self._fence = None
        self._next_at = self._now

    def _doubt(self, higher: Fence) -> None:
        if higher > MOST_BELIEVED:
            return
        self._above = max(self._above, higher)
        if self._fence is not None and higher > self._fence:
            self._lose(LeadershipLossReason.REFUSED)
            # If nobody else holds the row, one who always says something higher must not keep the store busy.
            self._next_at = self._now + self.config.beat_every_s

    def _release(self) -> None:
        if self._state not in (CandidateState.WAITING, CandidateState.LEADING):
            return
        if self._fence is not None:
            self._lose(LeadershipLossReason.RELEASED)
        if self._has_bid:
            self._move(CandidateTrigger.RELEASE)
            self._ask(ef.ReleaseRow(self._number + 1))
        else:
            self._request = None
            self._finish()

    def _finish(self) -> None:
        self._move(CandidateTrigger.FINISH)
        self._effects.append(ef.FinishCandidacy())

    def _go_on(self) -> None:
        """Sends the next request when its time has come."""
        if self._request is not None or self._now < self._next_at or self._state is CandidateState.ENDED:
            return
        number = self._number + 1
        if self._fence is not None:
            self._ask(ef.RaiseBeat(number, self._fence))
        elif self._row is not None and self._now >= self._may_take_at():
            self._has_bid = True
            self._ask(ef.TakeRow(number, self._row, self._above))
        else:
            self._ask(ef.ReadRow(number))

    def _ask(self, request: ef.Request) -> None:
        self._number = request.number
        self._request = request
        self._sent_at = self._now
        self._effects.append(request)

    def _move(self, trigger: CandidateTrigger) -> None:
        self._state = CANDIDATE_TABLE.next(self._state, trigger)
