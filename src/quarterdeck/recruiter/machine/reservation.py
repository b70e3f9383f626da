"""A worker that can be recruited: events in, effects out. It knows no clock, no chance and no socket.

Rules it keeps, whatever recruiters and roots do:

- it is registered only while it is idle and has been so for a moment; one registration at a time;
- a reservation that was on its way when the registration was taken back counts: its root relies on it;
- a search or a release that is faster than the word of its reservation is kept until that has come, never dropped;
- what runs for a root is counted: while the count is 0 the reservation has a limited time, and so has a search that
  makes no progress;
- only the current reservation can be released, and only by its tenant; it is over when nothing runs for it any more;
- nothing is searched for another tenant than the one it is reserved for, whatever reservation that names.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, assert_never

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.invariants import Claim, insist
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.registration_tries import RegistrationTries
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.machine.reservation_effects import (
    AdmitSearch,
    Effect,
    FinishDrain,
    LeaveProcess,
    RefuseSearch,
    Register,
    SetAccepting,
    StopSearch,
    WithdrawRegistration,
)
from quarterdeck.recruiter.machine.reservation_table import RESERVATION_TABLE, ReservationState, ReservationTrigger
from quarterdeck.recruiter.machine.reservation_timers import (
    AbandonTimer,
    DrainTimer,
    OvertakenTimer,
    ProgressTimer,
    RegisterTimer,
    Timer,
)
from quarterdeck.recruiter.model import Holder

_S, _T = ReservationState, ReservationTrigger
_EARLY_RELEASES: Final = 100
"""Names of reservations to be remembered that were released before they were known. There is one, or a stranger."""
_NOT_RESERVED: Final = "it is not reserved for a search"
_DRAINING: Final = "it is draining"


class ReservationMachine:
    """Give it events with the time they happened, execute the effects it returns, and wake it at `next_deadline`."""

    def __init__(self, config: ReservationConfig) -> None:
        self.config = config
        self.counters: Counter[str] = Counter()
        self.moves: Counter[tuple[StrEnum, StrEnum]] = Counter()
        """How often each entry of the table was used."""
        self._tries = RegistrationTries(config.addr, config.recruiters, config.backoff)
        self._now = 0.0
        self._effects: list[Effect] = []
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._state = _S.AWAY
        self._idle = False
        self._idle_since = 0.0
        self._draining = False
        self._accepting = True
        # The registration
        self._poll = 0
        self._asked: dict[int, Holder] = {}
        """Searches that were faster than the word of their reservation, and what they named."""
        self._released: dict[Holder, float] = {}
        """Reservations that were released before we knew them, and when."""
        # The reservation
        self._reservation = ""
        self._tenant = DEFAULT_TENANT
        """For whom it is, or was."""
        self._label = ""
        self._searches: dict[int, bool] = {}
        """Whether each still runs; those that do not were told to stop."""
        self._running = 0

    # What a driver calls

    @property
    def state(self) -> ReservationState:
        return self._state

    @property
    def recruiters(self) -> tuple[str, ...]:
        """Its own order of them, the first choice first."""
        return self._tries.recruiters

    @property
    def failed_registrations(self) -> int:
        return self._tries.failed

    @property
    def is_reserved(self) -> bool:
        return self._state in (_S.RESERVED, _S.ENDING)

    @property
    def label(self) -> str:
        """What its root said it is for."""
        return self._label

    @property
    def searches(self) -> int:
        """How many are in flight, those that have not stopped yet included."""
        return len(self._searches)

    def next_deadline(self) -> float | None:
        """When to send `TimePassed`, one for each time named; None when only events matter."""
        return self._deadlines.next_at()

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it. A clock that went backwards counts as one that stands still."""
        self._now = max(self._now, now)
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case ev.IdleChanged(idle):
                self._idle_changed(idle)
            case ev.WorkerReserved(poll, reservation, label, tenant):
                self._worker_reserved(poll, Holder(reservation, tenant), label)
            case ev.ReregisterAsked(poll, unit):
                self._poll_ended(poll)
                self._tries.ask_again(self._now, unit)
                self._try_again()
            case ev.RegistrationFailed(poll, unit):
                self._poll_ended(poll)
                self._tries.fail(self._now, unit)
                self._try_again()
            case ev.RegistrationWithdrawn(poll):
                self._poll_ended(poll)
                self._come_back()
            case ev.SearchAsked(search, reservation, tenant):
                self._search_asked(search, Holder(reservation, tenant))
            case ev.SearchProgressed(search):
                if self._searches.get(search):
                    self._deadlines.set(ProgressTimer(search), self._now + self.config.progress_s)
            case ev.SearchEnded(search, broken):
                self._search_ended(search, broken=broken)
            case ev.ReleaseAsked(reservation, tenant):
                self._release_asked(Holder(reservation, tenant))
            case ev.DrainRequested():
                self._drain()
            case ev.TimePassed():
                self._time_passed()
            case _:
                assert_never(event)
        return effects

    def check_invariants(self) -> None:
        """Raises `InvariantError` if its records contradict each other."""
        insist(self._claims())

    # Idle and busy

    def _idle_changed(self, idle: bool) -> None:
        if idle == self._idle:
            return
        self._idle = idle
        if idle:
            self._idle_since = self._now
            if self._state is _S.AWAY:
                self._prepare()
        elif self._state is _S.WAITING:
            self._deadlines.cancel(RegisterTimer())
            self._move(_T.TURN_BUSY)
        elif self._state is _S.REGISTERED:
            self._withdraw()

    def _prepare(self) -> None:
        """From being away: registers as soon as it may."""
        if self._draining:
            self._leave()
        elif self._idle and self._tries.recruiters:
            self._move(_T.PREPARE)
            self._register_in_time()

    def _register_in_time(self) -> None:
        at = max(self._idle_since + self.config.settle_s, self._tries.not_before)
        if at > self._now:
            self._deadlines.set(RegisterTimer(), at)
        else:
            self._register()

    # The registration

    def _register(self) -> None:
        self._move(_T.REGISTER)
        self._poll += 1
        self._effects.append(Register(self._poll, self._tries.begin(self._now)))

    def _withdraw(self) -> None:
        self._move(_T.WITHDRAW)
        self.counters["withdrawn"] += 1
        self._effects.append(WithdrawRegistration(self._poll))

    def _poll_ended(self, poll: int) -> None:
        assert poll == self._poll, f"registration {poll} ended, and {self._poll} is open"
        assert self._state in (_S.REGISTERED, _S.WITHDRAWING), f"a registration ended while {self._state}"

    def _try_again(self) -> None:
        """After a registration that ended without a reservation."""
        if self._state is _S.WITHDRAWING:
            self._come_back()
        else:
            self._forget_early_words()
            self._move(_T.TRY_AGAIN)
            self._register_in_time()

    def _come_back(self) -> None:
        self._forget_early_words()
        self._move(_T.COME_BACK)
        self._prepare()

    # The reservation

    def _worker_reserved(self, poll: int, holder: Holder, label: str) -> None:
        self._poll_ended(poll)
        self._tries.succeed()
        if self._was_released(holder) or self._draining:
            self.counters["reservations_over_at_once"] += 1
            self._try_again()
            return
        self._move(_T.RESERVE)
        self.counters["reservations"] += 1
        self._reservation, self._tenant, self._label = holder.reservation, holder.tenant, label
        self._set_accepting(False)
        self._released.clear()
        asked, self._asked = self._asked, {}
        for search, wanted in asked.items():
            self._deadlines.cancel(OvertakenTimer(search))
            self._decide(search, wanted)
        if not self._running:
            self._await_search()

    def _was_released(self, holder: Holder) -> bool:
        at = self._released.get(holder)
        return at is not None and self._now - at <= self.config.overtaken_s

    def _is_current(self, holder: Holder) -> bool:
        """Where one side has no names, the tenant alone is checked."""
        if self._state is not _S.RESERVED or holder.tenant != self._tenant:
            return False
        return not holder.reservation or holder.reservation == (self._reservation or holder.reservation)

    def _release_asked(self, holder: Holder) -> None:
        if self._is_current(holder):
            self.counters["released"] += 1
            self._end_reservation("its root has released the worker")
        elif self._state in (_S.REGISTERED, _S.WITHDRAWING) and len(self._released) < _EARLY_RELEASES:
            self._released[holder] = self._now
        else:
            self.counters["stale_releases"] += 1

    def _end_reservation(self, why: str) -> None:
        self._move(_T.END)
        self._deadlines.cancel(AbandonTimer())
        for search, runs in list(self._searches.items()):
            if runs:
                self._stop(search, why)
        self._reservation = self._label = ""
        self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        if not self._searches:
            self._move(_T.COME_BACK)
            if not self._draining:
                self._set_accepting(True)
            self._prepare()

    def _set_accepting(self, accepting: bool) -> None:
        self._accepting = accepting
        self._effects.append(SetAccepting(accepting))

    def _await_search(self) -> None:
        """Nothing runs for the root: it has so long to send something."""
        self._deadlines.set(AbandonTimer(), self._now + self.config.idle_s)

    def _abandoned(self) -> None:
        why = f"reserved, and no search came for {self.config.idle_s:g} s"
        self.counters["abandoned"] += 1
        if self.config.leave_when_abandoned:
            self._draining = True
            self._effects.append(LeaveProcess(why))
        self._end_reservation(why)

    # Searches

    def _search_asked(self, search: int, holder: Holder) -> None:
        if self._state in (_S.REGISTERED, _S.WITHDRAWING) and not self._draining:
            self._asked[search] = holder
            self._deadlines.set(OvertakenTimer(search), self._now + self.config.overtaken_s)
        else:
            self._decide(search, holder)

    def _decide(self, search: int, holder: Holder) -> None:
        if self._draining:
            self._refuse(search, _DRAINING)
        elif self._is_current(holder):
            self._searches[search] = True
            self._running += 1
            self._deadlines.cancel(AbandonTimer())
            self._deadlines.set(ProgressTimer(search), self._now + self.config.progress_s)
            self._effects.append(AdmitSearch(search))
        else:
            self._refuse(search, "it is reserved for another search" if self._state is _S.RESERVED else _NOT_RESERVED)

    def _refuse(self, search: int, why: str) -> None:
        self.counters["searches_refused"] += 1
        self._effects.append(RefuseSearch(search, why))

    def _refuse_asked(self) -> None:
        for search in self._asked:
            self._deadlines.cancel(OvertakenTimer(search))
            self._refuse(search, _DRAINING if self._draining else _NOT_RESERVED)
        self._asked.clear()

    def _forget_early_words(self) -> None:
        """The registration they may have been about has ended without a reservation."""
        self._refuse_asked()
        self._released.clear()

    def _search_ended(self, search: int, *, broken: bool) -> None:
        if self._asked.pop(search, None) is not None:
            self._deadlines.cancel(OvertakenTimer(search))
            return
        ran = self._searches.pop(search)
        self.counters["searches_broken" if broken else "searches_done"] += 1
        if ran:
            self._not_running(search)
        if self._state is _S.ENDING:
            self._end_if_stopped()

    def _stop(self, search: int, why: str) -> None:
        self._searches[search] = False
        self._effects.append(StopSearch(search, why))
        self._not_running(search)

    def _not_running(self, search: int) -> None:
        self._running -= 1
        self._deadlines.cancel(ProgressTimer(search))
        if self._state is _S.RESERVED and not self._running:
            if self._draining:
                self._end_reservation(_DRAINING)
            else:
                self._await_search()

    # Draining

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        self._refuse_asked()
        self._deadlines.set(DrainTimer(), self._now + self.config.drain_max_s)
        match self._state:
            case _S.AWAY | _S.WAITING:
                self._leave()
            case _S.REGISTERED:
                self._withdraw()
            case _S.RESERVED if not self._running:
                self._end_reservation(_DRAINING)
            case _:
                pass  # it goes when that has ended

    def _leave(self) -> None:
        self._deadlines.cancel(RegisterTimer())
        self._deadlines.cancel(DrainTimer())
        self._move(_T.LEAVE)
        self._effects.append(FinishDrain())

    # Time

    def _time_passed(self) -> None:
        """Handles one due timer; more may be due, and `next_deadline` says so."""
        due = self._deadlines.pop_due(self._now)
        if due is None:
            return
        timer = due[0]
        match timer:
            case RegisterTimer():
                self._register()
            case AbandonTimer():
                self._abandoned()
            case ProgressTimer(search):
                self.counters["searches_without_progress"] += 1
                self._stop(search, f"it made no progress for {self.config.progress_s:g} s")
            case OvertakenTimer(search):
                del self._asked[search]
                self._refuse(search, _NOT_RESERVED)
            case DrainTimer():
                if self._state is _S.RESERVED:
                    self._end_reservation("the time for draining ran out")
            case _:
                assert_never(timer)

    # Inside

    def _move(self, trigger: ReservationTrigger) -> None:
        self.moves[self._state, trigger] += 1
        self._state = RESERVATION_TABLE.next(self._state, trigger)

    def _claims(self) -> Iterator[Claim]:
        state, timers = self._state, self._deadlines
        yield state not in (_S.WAITING, _S.REGISTERED) or self._idle, "busy, and %s", (state,)
        yield state not in (_S.WAITING, _S.REGISTERED) or not self._draining, "draining, and %s", (state,)
        yield (RegisterTimer() in timers) == (state is _S.WAITING), "the time to register is set wrongly: %s", (state,)
        polled = state in (_S.REGISTERED, _S.WITHDRAWING)
        yield polled or not self._asked, "%s, and searches wait for a reservation", (state,)
        yield polled or not self._released, "%s, and releases wait for their reservation", (state,)
        yield all(OvertakenTimer(search) in timers for search in self._asked), "a search may wait for ever", ()
        yield self.is_reserved or not self._searches, "%s, and searches run", (state,)
        yield state is not _S.ENDING or bool(self._searches), "a reservation ends, and nothing has to stop", ()
        running = [search for search, runs in self._searches.items() if runs]
        yield len(running) == self._running, "%s searches run, not %s", (len(running), self._running)
        yield state is _S.RESERVED or not running, "%s, and searches run", (state,)
        yield all(ProgressTimer(search) in timers for search in running), "a search may hang for ever", ()
        waits = state is _S.RESERVED and not running
        yield (
            waits == (AbandonTimer() in timers),
            "the time of a root is set wrongly: %s, %s run",
            (state, self._running),
        )
        yield not (waits and self._draining), "draining, and it waits for its root", ()
        yield self._accepting != self.is_reserved or self._draining, "%s, accepting: %s", (state, self._accepting)
        yield bool(self._reservation) <= (state is _S.RESERVED), "%s, and it has a reservation", (state,)
