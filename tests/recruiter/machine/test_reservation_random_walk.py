"""Recruiters and roots that do whatever they like, at random: records agree after every step, every search is decided
once, and in the end the worker is back in the pool, or gone."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.machine.reservation_table import RESERVATION_TABLE
from tests.recruiter.machine.reserved_worker import A, B, ReservedWorker, State

ANY = st.integers(0, 1_000_000)
NAMES = st.sampled_from(["r1", "r2", ""])
moves: set[tuple[Any, Any]] = set()
"""Of all walks."""


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.polls: set[int] = set()
        self.undecided: set[int] = set()
        self.running: set[int] = set()
        self.stopping: set[int] = set()
        self.searches = 0
        self.left = self.finished = False

    @rule(leaves=st.booleans())
    @precondition(lambda self: not hasattr(self, "worker"))
    def begin(self, leaves: bool) -> None:
        config = ReservationConfig("worker:1", (A, B), leave_when_abandoned=leaves, drain_max_s=100)
        self.worker = ReservedWorker(config)

    def take(self, effects: list[ef.Effect]) -> None:
        for effect in effects:
            match effect:
                case ef.Register(poll):
                    assert not self.polls
                    self.polls.add(poll)
                case ef.WithdrawRegistration(poll):
                    assert poll in self.polls
                case ef.AdmitSearch(search):
                    self.undecided.remove(search)
                    self.running.add(search)
                case ef.RefuseSearch(search):
                    self.undecided.remove(search)
                case ef.StopSearch(search):
                    self.running.remove(search)
                    self.stopping.add(search)
                case ef.LeaveProcess():
                    assert not self.left
                    self.left = True
                case ef.FinishDrain():
                    assert not self.finished
                    assert not self.polls | self.running | self.stopping | self.undecided
                    self.finished = True
                case ef.SetAccepting():
                    pass
        machine = self.worker.machine
        assert machine.searches == len(self.running) + len(self.stopping)
        moves.update(machine.moves)

    def tell(self, event: ev.Event) -> None:
        self.take(self.worker.tell(event))

    def ready(self) -> bool:
        return hasattr(self, "worker")

    @precondition(ready)
    @rule(idle=st.sampled_from([True, True, False]))
    def idle_changes(self, idle: bool) -> None:
        self.tell(ev.IdleChanged(idle))

    @precondition(lambda self: self.polls)
    @rule(how=st.sampled_from(["reserve", "reserve", "again", "fail", "withdraw"]), name=NAMES, unit=st.floats(0, 0.99))
    def poll_ends(self, how: str, name: str, unit: float) -> None:
        poll = self.worker.poll
        if how == "withdraw" and self.worker.state is not State.WITHDRAWING:
            return
        self.polls.clear()
        match how:
            case "reserve":
                self.tell(ev.WorkerReserved(poll, name))
            case "again":
                self.tell(ev.ReregisterAsked(poll, unit))
            case "fail":
                self.tell(ev.RegistrationFailed(poll, unit))
            case _:
                self.tell(ev.RegistrationWithdrawn(poll))

    @precondition(ready)
    @rule(name=NAMES)
    def ask(self, name: str) -> None:
        self.searches += 1
        self.undecided.add(self.searches)
        self.tell(ev.SearchAsked(self.searches, name))

    @precondition(lambda self: self.running or self.stopping or self.undecided)
    @rule(pick=ANY, what=st.sampled_from(["progress", "end", "break"]))
    def search_goes_on(self, pick: int, what: str) -> None:
        under_way = sorted(self.running | self.stopping | self.undecided)
        search = under_way[pick % len(under_way)]
        if what == "progress":
            self.tell(ev.SearchProgressed(search))
            return
        for kept in (self.running, self.stopping, self.undecided):
            kept.discard(search)
        self.tell(ev.SearchEnded(search, broken=what == "break"))

    @precondition(ready)
    @rule(name=NAMES)
    def release(self, name: str) -> None:
        self.tell(ev.ReleaseAsked(name))

    @precondition(ready)
    @rule(pick=ANY)
    def drain(self, pick: int) -> None:
        if pick % 10 == 0:
            self.tell(ev.DrainRequested())

    @precondition(ready)
    @rule(seconds=st.sampled_from([0.01, 0.1, 0.3, 1.5, 5.0, 11.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.worker.now + seconds
        while (due := self.worker.machine.next_deadline()) is not None and due <= until:
            self.worker.now = max(self.worker.now, due)
            self.tell(ev.TimePassed())
        self.worker.now = until

    def teardown(self) -> None:
        """The world is healed: what was told to stop stops, roots are gone, and recruiters take registrations."""
        if not self.ready():
            return
        for _ in range(20):
            for search in sorted(self.running | self.stopping):
                self.running.discard(search)
                self.stopping.discard(search)
                self.tell(ev.SearchEnded(search, broken=True))
            if self.polls and self.worker.state is State.WITHDRAWING:
                self.polls.clear()
                self.tell(ev.RegistrationWithdrawn(self.worker.poll))
            self.idle_changes(idle=True)
            self.time_passes(11.0)
        assert not self.undecided
        assert self.worker.state in (State.REGISTERED, State.GONE)
        assert self.worker.accepting == (self.worker.state is State.REGISTERED) or self.finished


def test_whatever_happens_a_worker_is_back_in_the_pool_or_gone() -> None:
    moves.clear()
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    quickly = settings(max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=checks)
    missing = set(RESERVATION_TABLE.moves)
    for _ in range(10):  # by chance one round in some hundred misses a move
        run_state_machine_as_test(Walk, settings=quickly)
        missing -= moves
        if not missing:
            return
    pytest.fail(f"no walk came by {missing}")
