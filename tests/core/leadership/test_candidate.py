"""One candidate, event by event."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.ids import CandidateId, Fence
from quarterdeck.core.invariants import InvariantError
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership import events as ev
from quarterdeck.core.leadership.machine import CandidateMachine
from quarterdeck.core.leadership.model import NOBODY, LeaderRow, LeadershipLossReason, LeaseConfig
from quarterdeck.core.leadership.table import CANDIDATE_TABLE, CandidateState

ME = LeaseConfig(CandidateId("me"), "mine", lease_s=10.0)
MINE = LeaderRow(ME.candidate, "mine", Fence(1), beat=1, lease_s=10.0)
OTHERS = LeaderRow(CandidateId("other"), "other", Fence(5), beat=3, lease_s=4.0)


class Played:
    """A candidate whose last request is remembered."""

    def __init__(self) -> None:
        self.machine = CandidateMachine(ME)
        self.request: ef.Request | None = None

    def step(self, event: ev.Event, now: float) -> list[ef.Effect]:
        effects = self.machine.step(event, now)
        self.machine.check_invariants()
        for effect in effects:
            if isinstance(effect, ef.Request):
                self.request = effect
        return effects

    def answer(self, row: LeaderRow, now: float, *, changed: bool = False) -> list[ef.Effect]:
        assert self.request is not None
        return self.step(ev.RowAnswered(self.request.number, row, changed), now)

    def fail(self, now: float) -> list[ef.Effect]:
        assert self.request is not None
        return self.step(ev.RequestFailed(self.request.number), now)


def waiting() -> Played:
    """Another leads, seen at 100."""
    played = Played()
    assert played.step(ev.TimePassed(), 100) == [ef.ReadRow(1)]
    assert played.answer(OTHERS, 100) == []
    return played


def leading() -> Played:
    """Since 100, under fence 1; the next beat is due at 102."""
    played = Played()
    played.step(ev.TimePassed(), 100)
    assert played.answer(NOBODY, 100) == [ef.TakeRow(2, NOBODY)]
    assert played.answer(MINE, 100, changed=True) == [ef.BeginLeading(Fence(1))]
    return played


def test_a_candidate_knows_nothing_before_the_store_has_answered() -> None:
    machine = CandidateMachine(ME)
    assert (machine.row, machine.fence_at(0), machine.next_deadline()) == (None, None, float("-inf"))


def test_who_leads_has_a_fence_until_the_lease_ends_by_its_own_clock() -> None:
    machine = leading().machine
    assert machine.fence_at(107.9) == 1
    assert machine.fence_at(108) is None
    assert machine.row == MINE


def test_a_lease_counts_from_when_the_beat_was_sent() -> None:
    played = leading()
    assert played.step(ev.TimePassed(), 102) == [ef.RaiseBeat(3, Fence(1))]
    assert played.answer(replace(MINE, beat=2), 104.5, changed=True) == [ef.RaiseBeat(4, Fence(1))]
    assert played.machine.fence_at(109.9) == 1
    assert played.machine.fence_at(110) is None


def test_beats_come_at_their_time() -> None:
    played = leading()
    assert played.machine.next_deadline() == 102
    assert played.step(ev.TimePassed(), 101) == []
    assert played.step(ev.TimePassed(), 102) == [ef.RaiseBeat(3, Fence(1))]
    assert played.machine.next_deadline() == 105
    played.answer(MINE, 103, changed=True)
    assert played.machine.next_deadline() == 104


def test_a_beat_that_is_not_answered_is_sent_again_until_the_lease_ends() -> None:
    played = leading()
    played.step(ev.TimePassed(), 102)
    assert played.step(ev.TimePassed(), 105) == [ef.RaiseBeat(4, Fence(1))]
    assert played.machine.next_deadline() == 108
    assert played.step(ev.TimePassed(), 108)[0] == ef.EndLeading(Fence(1), LeadershipLossReason.LEASE_ENDED)
    assert played.machine.state is CandidateState.WAITING


def test_a_beat_that_failed_is_sent_again_at_the_next_beat() -> None:
    played = leading()
    played.step(ev.TimePassed(), 102)
    assert played.fail(102.5) == []
    assert played.machine.next_deadline() == 104


def test_an_answer_to_what_was_given_up_is_ignored() -> None:
    played = leading()
    played.step(ev.TimePassed(), 102)
    played.step(ev.TimePassed(), 105)
    assert played.step(ev.RowAnswered(3, MINE, changed=True), 106) == []
    assert played.step(ev.RequestFailed(3), 106) == []
    assert played.machine.fence_at(108) is None


def test_leadership_that_ended_does_not_come_back_by_a_late_answer() -> None:
    """The row is still ours, so it is taken again, under a new fence."""
    played = leading()
    played.step(ev.TimePassed(), 107)
    beaten = replace(MINE, beat=2)
    effects = played.answer(beaten, 109, changed=True)
    assert effects == [ef.EndLeading(Fence(1), LeadershipLossReason.LEASE_ENDED), ef.TakeRow(4, beaten)]
    again = replace(beaten, fence=Fence(2), beat=3)
    assert played.answer(again, 109.5, changed=True) == [ef.BeginLeading(Fence(2))]


def test_a_leader_that_finds_another_in_the_row_leads_no_longer() -> None:
    played = leading()
    played.step(ev.TimePassed(), 102)
    effects = played.answer(OTHERS, 103)
    assert effects == [ef.EndLeading(Fence(1), LeadershipLossReason.TAKEN_OVER), ef.ReadRow(4)]
    assert played.machine.row == OTHERS


def test_a_leader_whose_write_was_refused_leads_no_longer() -> None:
    """If nobody else has the row, a restored store knows too little: the next fence is above what was seen."""
    played = leading()
    assert played.step(ev.HigherFenceSeen(Fence(7)), 101) == [ef.EndLeading(Fence(1), LeadershipLossReason.REFUSED)]
    assert played.step(ev.TimePassed(), 102.9) == [], "whoever always says so must not keep the store busy"
    assert played.step(ev.TimePassed(), 103) == [ef.TakeRow(3, MINE, Fence(7))]


def test_a_fence_that_is_not_higher_says_nothing_about_this_one() -> None:
    played = leading()
    assert played.step(ev.HigherFenceSeen(Fence(1)), 101) == []
    assert played.step(ev.HigherFenceSeen(Fence(2**62 + 1)), 101) == [], "no leader had that"
    assert waiting().step(ev.HigherFenceSeen(Fence(9)), 100) == []


def test_a_row_that_does_not_change_is_taken_when_the_holders_lease_is_over() -> None:
    """The holder's lease of 4 s, not ours of 10 s; counted from when it was first seen so."""
    played = waiting()
    assert played.machine.next_deadline() == 102
    assert played.step(ev.TimePassed(), 102) == [ef.ReadRow(2)]
    assert played.answer(OTHERS, 102.5) == []
    assert played.machine.next_deadline() == 104
    assert played.step(ev.TimePassed(), 103.9) == []
    assert played.step(ev.TimePassed(), 104) == [ef.TakeRow(3, OTHERS)]


def test_a_row_is_taken_no_later_than_its_lease_says() -> None:
    played = waiting()
    played.step(ev.TimePassed(), 102.5)
    played.answer(OTHERS, 102.5)
    assert played.machine.next_deadline() == 104, "not at the next look"


def test_a_row_that_changes_has_its_whole_lease_again() -> None:
    played = waiting()
    played.step(ev.TimePassed(), 102)
    played.answer(replace(OTHERS, beat=4), 103)
    assert played.step(ev.TimePassed(), 104) == [ef.ReadRow(3)]
    played.answer(replace(OTHERS, beat=4), 104)
    assert played.step(ev.TimePassed(), 106) == [ef.ReadRow(4)]
    played.answer(replace(OTHERS, beat=4), 106)
    assert played.step(ev.TimePassed(), 107) == [ef.TakeRow(5, replace(OTHERS, beat=4))]


def test_a_row_that_was_faster_is_looked_at_again() -> None:
    played = waiting()
    played.step(ev.TimePassed(), 104)
    assert isinstance(played.request, ef.TakeRow)
    assert played.answer(replace(OTHERS, beat=4), 104) == []
    assert played.machine.state is CandidateState.WAITING


def test_a_row_that_names_us_was_taken_by_an_older_request_and_does_not_make_a_leader() -> None:
    """When it was written nobody knows, so neither does anybody know how long its lease still is."""
    played = waiting()
    played.step(ev.TimePassed(), 104)
    played.step(ev.TimePassed(), 107)
    assert played.request == ef.TakeRow(3, OTHERS)
    taken = replace(MINE, fence=Fence(6))
    assert played.answer(taken, 108) == [ef.TakeRow(4, taken)]


def test_a_row_that_was_released_is_taken_at_once() -> None:
    played = waiting()
    played.step(ev.TimePassed(), 102)
    free = replace(OTHERS, holder=None)
    assert played.answer(free, 102.1) == [ef.TakeRow(3, free)]


def test_a_store_that_fails_is_asked_at_each_beat() -> None:
    played = Played()
    played.step(ev.TimePassed(), 100)
    assert played.fail(100.1) == []
    assert played.step(ev.TimePassed(), 102) == [ef.ReadRow(2)]


def test_a_leader_that_is_released_ends_first_and_then_frees_the_row() -> None:
    played = leading()
    assert played.step(ev.ReleaseAsked(), 101) == [
        ef.EndLeading(Fence(1), LeadershipLossReason.RELEASED),
        ef.ReleaseRow(3),
    ]
    assert played.machine.fence_at(101) is None
    assert played.step(ev.ReleaseAsked(), 101) == []
    assert played.answer(NOBODY, 102, changed=True) == [ef.FinishCandidacy()]
    assert played.machine.next_deadline() is None
    assert played.step(ev.TimePassed(), 200) == []
    assert played.step(ev.ReleaseAsked(), 200) == []


@pytest.mark.parametrize("how", ["error", "silence"])
def test_a_release_that_fails_is_left_to_the_lease(how: str) -> None:
    played = leading()
    played.step(ev.ReleaseAsked(), 101)
    effects = played.fail(102) if how == "error" else played.step(ev.TimePassed(), 104)
    assert effects == [ef.FinishCandidacy()]


def test_a_candidate_that_asked_for_nothing_ends_at_once() -> None:
    played = waiting()
    played.step(ev.TimePassed(), 102)
    assert played.step(ev.ReleaseAsked(), 102) == [ef.FinishCandidacy()]
    assert played.answer(replace(OTHERS, holder=None), 102) == []


def test_a_candidate_that_tried_to_take_the_row_frees_it_too() -> None:
    played = waiting()
    played.step(ev.TimePassed(), 104)
    assert played.step(ev.ReleaseAsked(), 104) == [ef.ReleaseRow(3)]


def test_no_lease_is_no_time() -> None:
    with pytest.raises(ValueError, match="lease_s is 0"):
        LeaseConfig(CandidateId("me"), "mine", lease_s=0)


def test_a_broken_rule_is_noticed() -> None:
    machine = leading().machine
    machine._leads_until = 0.0  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(InvariantError, match="beyond"):
        machine.check_invariants()


def test_who_ended_stays_so() -> None:
    assert not any(state in CANDIDATE_TABLE.terminal for state, _, _ in CANDIDATE_TABLE)


rows = st.builds(
    LeaderRow,
    holder=st.sampled_from([None, ME.candidate, CandidateId("other")]),
    name=st.just(""),
    fence=st.integers(0, 3).map(Fence),
    beat=st.integers(0, 3),
    lease_s=st.sampled_from([1.0, 10.0]),
)
happenings = st.one_of(
    st.just(ev.TimePassed()),
    st.builds(ev.RowAnswered, number=st.integers(1, 12), row=rows, changed=st.booleans()),
    st.builds(ev.RequestFailed, number=st.integers(1, 12)),
    st.builds(ev.HigherFenceSeen, fence=st.integers(0, 3).map(Fence)),
    st.just(ev.ReleaseAsked()),
)


@given(st.lists(st.tuples(happenings, st.floats(0, 12)), max_size=40))
def test_whatever_it_is_told_it_gains_and_loses_in_turn_and_asks_one_thing_at_a_time(
    told: list[tuple[ev.Event, float]],
) -> None:
    machine, now, leads, asked, finished = CandidateMachine(ME), 100.0, False, 0, False
    for event, later_s in told:
        now += later_s
        effects = machine.step(event, now)
        machine.check_invariants()
        assert not (finished and effects), "whoever has ended says nothing"
        for effect in effects:
            match effect:
                case ef.BeginLeading():
                    assert not leads
                    leads = True
                case ef.EndLeading():
                    assert leads
                    leads = False
                case ef.FinishCandidacy():
                    finished = True
                case _:
                    assert effect.number == asked + 1
                    asked = effect.number
        assert leads == (machine.fence_at(now) is not None)
