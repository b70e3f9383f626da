"""Candidates and stores with one known mistake each. The simulation must find every one."""

from dataclasses import replace

from quarterdeck.core.ids import Fence
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership import events as ev
from quarterdeck.core.leadership.machine import CandidateMachine
from quarterdeck.core.leadership.model import LeaderRow, LeaseConfig
from tests.core.leadership.stage import Store


class CountsFromTheAnswer(CandidateMachine):
    """The holder's lease begins when the beat was confirmed, not when it was sent."""

    def _answered(self, request: ef.Request, answer: ev.RowAnswered) -> None:
        self._sent_at = self._now
        super()._answered(request, answer)


class CountsFromTheQuestion(CandidateMachine):
    """A candidate believes that the row was so when it asked, not when it heard."""

    def _answered(self, request: ef.Request, answer: ev.RowAnswered) -> None:
        before = self._row
        super()._answered(request, answer)
        if self._row != before:
            self._row_since = self._sent_at


class TakesAnOlderAnswer(CandidateMachine):
    """The answer to a request that was given up counts for the one after it."""

    def _handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.RowAnswered) and isinstance(self._request, ef.RaiseBeat):
            event = replace(event, number=self._request.number)
        super()._handle(event)


class TakesItsNameForItsLease(CandidateMachine):
    """It leads when it finds its own name, whichever request wrote it and when."""

    def _answered(self, request: ef.Request, answer: ev.RowAnswered) -> None:
        if isinstance(request, ef.TakeRow) and answer.row.holder == self.config.candidate:
            answer = replace(answer, changed=True)
        super()._answered(request, answer)


class ForgetsTheClock(CandidateMachine):
    """It leads until it notices that it does not."""

    def fence_at(self, now: float) -> Fence | None:
        del now
        return self._fence


class WaitsForEver(CandidateMachine):
    """No request is given up."""

    def _notice_time(self) -> None:
        if self._request is None:
            super()._notice_time()

    def next_deadline(self) -> float | None:
        return None if self._request is not None else super().next_deadline()

    def check_invariants(self) -> None:
        """What it does wrong is only seen from outside."""


class Impatient(CandidateMachine):
    """It takes the row after half a lease."""

    def _may_take_at(self) -> float:
        assert self._row is not None
        return self._row_since + self._row.lease_s / 2


class TakesWhateverIsThere(Store):
    """The row is taken, also if it is not as it was seen."""

    def rule(self, request: ef.Request, config: LeaseConfig) -> LeaderRow:
        if isinstance(request, ef.TakeRow):
            request = replace(request, seen=self.row)
        return super().rule(request, config)


class KeepsTheFence(Store):
    """A new leader has the fence of the one before."""

    def rule(self, request: ef.Request, config: LeaseConfig) -> LeaderRow:
        row = super().rule(request, config)
        return replace(row, fence=Fence(1)) if isinstance(request, ef.TakeRow) else row


class SeesOnlyWrites(Store):
    """A takeover is no reason to refuse the older leader; only a write of the new one is."""

    def request(self, request: ef.Request, config: LeaseConfig) -> tuple[LeaderRow, bool]:
        highest = self.highest
        answer = super().request(request, config)
        self.highest = highest
        return answer


class RefusesNobody(Store):
    def write(self, fence: Fence) -> bool:
        super().write(fence)
        return True


MACHINES = (
    CountsFromTheAnswer,
    CountsFromTheQuestion,
    TakesAnOlderAnswer,
    TakesItsNameForItsLease,
    ForgetsTheClock,
    WaitsForEver,
    Impatient,
)
STORES = (TakesWhateverIsThere, KeepsTheFence, SeesOnlyWrites, RefusesNobody)
