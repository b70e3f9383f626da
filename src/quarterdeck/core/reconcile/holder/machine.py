"""The holder's machine: events in, effects out. It is the one owner of its records and knows no clock and no socket.

Rules it keeps, whatever coordinators do:

- it obeys the highest fence that it has seen, and nobody with a lower one;
- what it holds outlives every session, and ends when it is told so, or with the process;
- of one thing it holds at most one generation;
- each change gets the next number, and every session hears of it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from quarterdeck.core.ids import Fence, SessionId
from quarterdeck.core.invariants import Claim, insist
from quarterdeck.core.reconcile.holder import events as ev
from quarterdeck.core.reconcile.holder.effects import Acquire, Effect, RefuseCommand, Release, SendToCoordinator
from quarterdeck.core.reconcile.messages import (
    DropThing,
    HoldingsReported,
    HoldThing,
    LeaderAnnounced,
    ReportWanted,
)
from quarterdeck.core.reconcile.model import HeldError, HeldId, HeldKind, Holding, Report, ThingId, ThingSpec
from quarterdeck.core.reconcile.tables import HOLDING_TABLE, HoldingState, HoldingTrigger


@dataclass(frozen=True, slots=True)
class HolderConfig:
    kinds: frozenset[HeldKind]
    max_held: int = 4_096
    """How many things it has at most. One more fails, and is tried elsewhere or again. Of those that failed so it keeps
    as many more, and then hears nothing of others: a full report has to fit into one message."""


@dataclass(slots=True, eq=False)
class _Record:
    spec: ThingSpec
    state: HoldingState = HOLDING_TABLE.initial
    error: HeldError | None = None


class HolderMachine:
    """Give it events, and execute the effects it returns."""

    def __init__(self, config: HolderConfig) -> None:
        self.config = config
        self.counters: Counter[str] = Counter()
        self.moves: Counter[tuple[StrEnum, StrEnum]] = Counter()
        """How often each entry of the table was used."""
        self._effects: list[Effect] = []
        self._sessions: dict[SessionId, None] = {}
        self._records: dict[HeldId, _Record] = {}
        self._generation: dict[ThingId, HeldId] = {}
        """What there is of each thing."""
        self._admitted: set[HeldId] = set()
        """What was to be acquired, and may have left something. The others were refused at once."""
        self._fence = Fence(0)
        self._number = 0
        self._takes_more = True

    # What a driver calls

    @property
    def fence(self) -> Fence:
        return self._fence

    @property
    def takes_more(self) -> bool:
        return self._takes_more

    def holdings(self) -> Iterator[Holding]:
        for held_id, record in self._records.items():
            yield Holding(held_id, record.state, record.error)

    def next_deadline(self) -> float | None:
        """It waits for nothing but events: who wants something tried again says so."""
        return None

    def step(self, event: ev.Event, now: float) -> list[Effect]:
        """Takes one event and says what to do about it."""
        del now
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case ev.MessageReceived(session_id, message):
                if session_id in self._sessions:
                    self._message_received(session_id, message)
            case ev.SessionOpened(session_id):
                self._sessions[session_id] = None
                self._report_all(session_id)
            case ev.SessionLost(session_id):
                self._sessions.pop(session_id, None)
            case ev.Acquired(held_id):
                self._move(held_id, HoldingTrigger.ACQUIRE)
            case ev.HoldingFailed(held_id, error):
                self._move(held_id, HoldingTrigger.FAIL, error)
            case ev.Released(held_id):
                self._move(held_id, HoldingTrigger.RELEASE)
            case ev.DrainRequested():
                if self._takes_more:
                    self._takes_more = False
                    self._report()
            case _:
                assert_never(event)
        return effects

    def check_invariants(self) -> None:
        insist(self._claims())

    # Inside

    def _message_received(self, session_id: SessionId, message: ev.LeaderMessage) -> None:
        match message:
            case ReportWanted():
                self._report_all(session_id)
            case LeaderAnnounced(fence):
                if self._obeys(session_id, fence):
                    self._report()
            case HoldThing(fence, held_id, spec):
                if self._obeys(session_id, fence):
                    self._hold(held_id, spec)
            case DropThing(fence, held_id):
                if self._obeys(session_id, fence):
                    self._drop(held_id)
            case _:
                assert_never(message)

    def _obeys(self, session_id: SessionId, fence: Fence) -> bool:
        if fence < self._fence:
            self.counters["commands_refused"] += 1
            self._effects.append(RefuseCommand(session_id, fence, self._fence))
            self._report()  # so that it learns of the higher fence
            return False
        self._fence = fence
        return True

    def _hold(self, held_id: HeldId, spec: ThingSpec) -> None:
        record = self._records.get(held_id)
        if record is not None:
            if record.state is HoldingState.FAILED:
                self._move(held_id, HoldingTrigger.HOLD)
                self._begin(held_id, record.spec)
            return
        if held_id.thing_id in self._generation:
            return  # another generation has to go first; the leader asks again when it has heard that it is gone
        if len(self._records) >= 2 * self.config.max_held:
            self.counters["commands_beyond_all_bounds"] += 1
            return
        self._records[held_id] = _Record(spec)
        self._generation[held_id.thing_id] = held_id
        self._report(held_id)
        self._begin(held_id, spec)

    def _begin(self, held_id: HeldId, spec: ThingSpec) -> None:
        """Each time anew: what was refused is refused again, unless there is room now."""
        refusal = None if held_id in self._admitted else self._refusal(spec)
        if refusal is None:
            self._admitted.add(held_id)
            self._effects.append(Acquire(held_id, spec))
        else:
            self._move(held_id, HoldingTrigger.FAIL, refusal)

    def _refusal(self, spec: ThingSpec) -> HeldError | None:
        if len(self._admitted) >= self.config.max_held:
            return HeldError("resource_exhausted", f"the worker holds {self.config.max_held} things, which is the most")
        if spec.kind not in self.config.kinds:
            return HeldError("unavailable", f"the worker does not hold things of the kind {spec.kind}")
        return None

    def _drop(self, held_id: HeldId) -> None:
        record = self._records.get(held_id)
        if record is None:
            self._report(held_id)
        elif record.state is not HoldingState.RELEASING:
            self._move(held_id, HoldingTrigger.DROP)
            self._effects.append(Release(held_id, record.spec))

    def _move(self, held_id: HeldId, trigger: HoldingTrigger, error: HeldError | None = None) -> None:
        record = self._records[held_id]
        state = HOLDING_TABLE.next(record.state, trigger)
        self.moves[record.state, trigger] += 1
        record.state, record.error = state, error
        if state is HoldingState.GONE:
            del self._records[held_id]
            self._admitted.discard(held_id)
            del self._generation[held_id.thing_id]
        self._report(held_id)

    def _report(self, *held_ids: HeldId) -> None:
        """The next report to everybody: of these, or of the fence and the willingness alone."""
        since, self._number = self._number, self._number + 1
        holdings = tuple(self._holding(held_id) for held_id in held_ids if held_id in self._records)
        gone = tuple(held_id for held_id in held_ids if held_id not in self._records)
        report = Report(self._fence, since, self._number, takes_more=self._takes_more, holdings=holdings, gone=gone)
        for session_id in self._sessions:
            self._effects.append(SendToCoordinator(session_id, HoldingsReported(report)))

    def _report_all(self, session_id: SessionId) -> None:
        holdings = tuple(self.holdings())
        report = Report(self._fence, None, self._number, self.config.kinds, self._takes_more, holdings)
        self._effects.append(SendToCoordinator(session_id, HoldingsReported(report)))

    def _holding(self, held_id: HeldId) -> Holding:
        record = self._records[held_id]
        return Holding(held_id, record.state, record.error)

    def _claims(self) -> Iterator[Claim]:
        known = {held_id.thing_id: held_id for held_id in self._records}
        yield len(known) == len(self._records), "two generations of one thing are here: %s", (list(self._records),)
        yield known == self._generation, "there is %s of the things, and said to be %s", (known, self._generation)
        yield (
            self._admitted <= self._records.keys(),
            "%s was admitted, and %s is there",
            (self._admitted, list(self._records)),
        )
        yield len(self._admitted) <= self.config.max_held, "%s things were admitted", (len(self._admitted),)
        for held_id, record in self._records.items():
            failed = record.state is HoldingState.FAILED
            yield (
                failed == (record.error is not None),
                "%s is %s with the error %s",
                (
                    held_id,
                    record.state,
                    record.error,
                ),
            )
