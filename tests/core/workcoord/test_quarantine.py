"""A work that ends whatever runs it is found after three workers; nobody beside it pays, nor who was only unlucky."""

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import QueryId, SessionId
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator.records import Work
from quarterdeck.core.workcoord.coordinator.tables import WorkState
from quarterdeck.core.workcoord.messages import (
    CreditChanged,
    Goodbye,
    WorkCanceled,
    WorkerBeat,
    WorkFailed,
    WorkReturned,
)
from quarterdeck.core.workcoord.model import WorkError
from tests.core.workcoord.harness import DRAINING, PASSING, PAUSED, Bridge, leaf, of

W = WorkState
ENGINE_DIED = WorkError("unavailable", "its engine has died", culprit=True)


def join(bridge: Bridge, name: str, *, slots: int = 1, incarnation: int = 1) -> SessionId:
    return bridge.joins(name, credit=8, slots=slots, incarnation=incarnation)


def give(bridge: Bridge, name: str, *, slots: int, **works: str) -> tuple[SessionId, dict[str, Work]]:
    """A new worker gets all of these works, each of a query of its own; those that "run" have begun."""
    session = join(bridge, name, slots=slots)
    given = {work: bridge.submit(leaf(work, f"query of {work}", affinity="same")) for work in works}
    for work, state in works.items():
        assert bridge.session_of(given[work]) == session
        if state == "runs":
            bridge.accepts(given[work])
    return session, given


def ends(effects: list[ce.Effect]) -> dict[str, WorkError | None]:
    return {end.query_id: end.error for end in of(ce.EndQuery, effects)}


def code_of(error: WorkError | None) -> str:
    assert error is not None
    return error.code


def kill_with(bridge: Bridge, work: Work, *, times: int) -> None:
    """Each worker that begins it dies, and a new one comes."""
    for _ in range(times):
        if work.state is W.ASSIGNED:
            bridge.accepts(work)
        lost = bridge.session_of(work)
        bridge.loses(lost)
        join(bridge, f"after {lost}", slots=2)


def test_a_work_that_was_alone_on_three_workers_that_died_is_quarantined_with_an_error_of_its_own() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, poison="runs")
    for name in ("w2", "w3", "w4"):
        join(bridge, name)
    assert ends(bridge.loses(first)) == {}
    poison = works["poison"]
    assert ends(bridge.loses(bridge.session_of(poison))) == {}
    bridge.loses(bridge.session_of(poison))
    assert poison.state is W.FAILED
    (error,) = [end.error for end in of(ce.EndQuery, bridge.log)]
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.QUARANTINED, False)
    assert "3 workers died" in error.message
    assert "while they ran work poison (w1, w" in error.message


def test_whoever_stops_two_workers_in_the_middle_of_a_query_costs_it_two_tries_and_not_its_answer() -> None:
    bridge = Bridge()
    works = [bridge.submit(leaf(f"{number}")) for number in range(6)]
    sessions = [join(bridge, f"w{number}", slots=2) for number in range(3)]
    for work in works:
        bridge.accepts(work)
    for session in sessions[:2]:
        bridge.loses(session)  # what ran on the first has moved to the second, where it is hit again
    assert max(len(work.deaths) for work in works) == 2
    assert ends(bridge.log) == {}
    bridge.seal()
    while (query := bridge.machine.ledger.query(QueryId("q"))) is not None:
        bridge.done(next(work for work in query.works.values() if work.current is not None))
    assert ends(bridge.log) == {"q": None}


@pytest.mark.parametrize("ago_s, found", [(30, False), (90, True)])
def test_while_workers_die_that_had_nothing_to_do_with_a_work_it_has_all_its_attempts(
    ago_s: float, found: bool
) -> None:
    bridge = Bridge()
    bridge.loses(join(bridge, "idle"))
    bridge.advance(ago_s)
    join(bridge, "w1")
    work = bridge.submit(leaf())
    kill_with(bridge, work, times=3)
    if not found:
        assert ends(bridge.log) == {}
        kill_with(bridge, work, times=1)
    code = ErrorCode.QUARANTINED if found else ErrorCode.ATTEMPTS_EXHAUSTED
    assert code_of(ends(bridge.log)["q"]) == code


@pytest.mark.parametrize("has_result", [False, True])
def test_a_worker_that_ran_another_work_of_the_query_is_one_more_death_of_it_unless_the_query_has_a_result(
    has_result: bool,
) -> None:
    """Works of one query have one text. While none has come to its end, each may kill as the others do."""
    bridge = Bridge()
    other_session = bridge.joins("w1", credit=1)
    other = bridge.submit(leaf("0"))
    join(bridge, "w2")
    work = bridge.submit(leaf("1"), leaf("2"))
    bridge.advance(1)
    if has_result:
        bridge.done(bridge.work(leaf("2").key))
    bridge.accepts(other)
    bridge.loses(other_session)
    session, attempt = bridge.session_of(other), other.current_id
    bridge.cancel_work(other)
    bridge.says(session, WorkCanceled(attempt))
    kill_with(bridge, work, times=3)
    assert bool(ends(bridge.log)) is not has_result


def test_of_a_query_without_a_result_only_the_one_that_was_on_two_dead_workers_is_tried() -> None:
    """All its works may be poisonous: else they would end worker after worker, side by side."""
    bridge = Bridge()
    works = [bridge.submit(leaf(f"{number}")) for number in range(40)]
    join(bridge, "w1", slots=4)
    bridge.loses(bridge.session_of(works[0]))
    join(bridge, "w2", slots=4)
    query = works[0].query
    (accused,) = [work for work in works if work.deaths and work.current is not None]
    assert query.accused is None
    bridge.loses(bridge.session_of(accused))
    assert query.accused is accused
    sessions = [bridge.joins(f"w{number}", credit=8, slots=4) for number in (3, 4)]
    assert [work for work in works if work.current is not None] == [accused]
    bystander = bridge.submit(leaf("bystander", "other"))
    assert bystander.current is not None
    bridge.advance(1)
    assert [work for work in works if work.current is not None] == [accused]
    bridge.ready(accused)
    assert query.accused is None
    bridge.advance(1)
    assert sum(bridge.session(session).outstanding for session in sessions) == 16
    bridge.fetched(accused.current_id)
    bridge.seal()
    while bridge.machine.ledger.query(query.query_id) is not None:
        bridge.done(next(work for work in query.works.values() if work.current is not None))
        bridge.advance(0)
    assert ends(bridge.log)["q"] is None


def test_when_the_accused_work_is_withdrawn_the_others_of_its_query_go_on() -> None:
    bridge = Bridge()
    works = [bridge.submit(leaf(f"{number}")) for number in range(3)]
    join(bridge, "w1")
    kill_with(bridge, works[0], times=2)
    query = works[0].query
    assert query.accused is works[0]
    assert [work.current is not None for work in works] == [True, False, False]
    bridge.cancel_work(works[0])
    bridge.advance(1)
    assert query.accused is None
    assert [work.current is not None for work in works[1:]] == [True, True]


def test_a_result_of_another_work_lets_the_query_go_on_beside_the_accused() -> None:
    bridge = Bridge()
    bridge.joins("w1", credit=1)
    lucky = bridge.submit(leaf("0"))
    bridge.accepts(lucky)
    join(bridge, "w2")
    unlucky = bridge.submit(leaf("1"), leaf("2"), leaf("3"))
    bridge.advance(1)
    kill_with(bridge, unlucky, times=2)
    query = unlucky.query
    assert query.accused is unlucky
    assert [work.current is not None for work in query.works.values()] == [True, True, False, False]
    bridge.ready(lucky)
    bridge.advance(1)
    assert (query.accused, len(unlucky.deaths)) == (None, 2)
    assert all(work.current is not None for work in query.works.values())


def test_a_poison_does_not_hide_behind_one_that_was_unlucky_before() -> None:
    """Who ran beside a suspect pays nothing, and is a suspect from then on: the two are not put together again."""
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=2, unlucky="runs")
    bridge.loses(first)
    second = join(bridge, "w2", slots=2)
    poison = bridge.submit(leaf("poison", "other"))
    bridge.accepts(works["unlucky"])
    bridge.accepts(poison)
    bridge.loses(second)
    assert (poison.failures, len(poison.deaths)) == (0, 1)
    sessions = {join(bridge, "w3", slots=2), join(bridge, "w4", slots=2)}
    assert {bridge.session_of(poison), bridge.session_of(works["unlucky"])} == sessions


def test_nobody_is_quarantined_while_a_work_of_another_suspect_query_ran_beside_it() -> None:
    """It follows a poisonous query around, whose works were given out before anybody knew."""
    bridge = Bridge()
    join(bridge, "w1")
    unlucky = bridge.submit(leaf("unlucky", "innocent"))
    kill_with(bridge, unlucky, times=2)
    poison = bridge.submit(leaf("0", "poison"), leaf("1", "poison"))
    bridge.accepts(poison)
    bridge.says(bridge.session_of(poison), WorkFailed(poison.current_id, ENGINE_DIED))
    beside = bridge.work(leaf("1", "poison").key)
    assert bridge.session_of(beside) == bridge.session_of(unlucky)
    bridge.accepts(beside)
    kill_with(bridge, unlucky, times=1)
    assert (ends(bridge.log), len(unlucky.deaths)) == ({}, 3)


def test_an_innocent_that_only_waited_beside_a_poisonous_work_keeps_all_its_attempts_while_three_workers_die() -> None:
    bridge = Bridge()
    session, works = give(bridge, "w1", slots=1, poison="runs", innocent="waits")
    poison, innocent = works["poison"], works["innocent"]
    for name in ("w2", "w3", "w4"):
        bridge.loses(session)
        assert (innocent.failures, innocent.avoid) == (0, ())
        session = join(bridge, name)
        if poison.state is not W.FAILED:
            bridge.accepts(poison)
    assert code_of(ends(bridge.log)["query of poison"]) == ErrorCode.QUARANTINED
    assert innocent.failures == 0
    assert bridge.session_of(innocent) == session
    bridge.done(innocent)
    bridge.seal("query of innocent")
    assert ends(bridge.log)["query of innocent"] is None


def test_who_ran_beside_a_suspect_that_is_there_again_keeps_its_attempts() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=2, poison="runs")
    bridge.loses(first)
    second = join(bridge, "w2", slots=2)
    beside = bridge.submit(leaf("beside", "other"))
    bridge.accepts(works["poison"])
    bridge.accepts(beside)
    bridge.loses(second)
    assert (works["poison"].failures, beside.failures) == (2, 0)


def test_two_that_ran_together_are_not_put_together_again_so_that_the_second_death_tells_them_apart() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=2, poison="runs", innocent="runs")
    bridge.loses(first)
    poison, innocent = works["poison"], works["innocent"]
    assert (poison.failures, innocent.failures) == (1, 1)
    second = join(bridge, "w2", slots=2)
    on_second = [work for work in works.values() if work.current is not None]
    assert len(on_second) == 1  # the other one waits, although there is a slot and credit
    third = join(bridge, "w3", slots=2)
    assert {bridge.session_of(poison), bridge.session_of(innocent)} == {second, third}
    kill_with(bridge, poison, times=2)
    assert code_of(ends(bridge.log)["query of poison"]) == ErrorCode.QUARANTINED
    assert innocent.failures == 1
    bridge.done(innocent)


def test_a_suspect_that_waits_for_a_quiet_worker_gets_it_before_others_when_the_other_suspect_is_done() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=2, a="runs", b="runs")
    bridge.loses(first)
    session = bridge.joins("w2", credit=1)
    for number in range(5):
        bridge.submit(leaf(f"{number}", "others"))
    (on_it,) = [work for work in works.values() if work.current is not None]
    (waits,) = [work for work in works.values() if work is not on_it]
    assert waits.state is W.PENDING
    bridge.done(on_it)
    assert bridge.session_of(waits) == session
    assert waits.state is W.ASSIGNED


def test_who_has_finished_is_no_suspect_any_more() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    bridge.loses(first)
    work = works["a"]
    second = join(bridge, "w2")
    bridge.ready(work)
    assert work.deaths == ()
    bridge.loses(second)  # before it was fetched
    third = join(bridge, "w3")
    bridge.accepts(work)
    bridge.loses(third)
    assert ends(bridge.log) == {}
    assert len(work.deaths) == 1


def test_what_was_assigned_and_had_a_place_counts_as_running_although_no_word_of_it_came() -> None:
    bridge = Bridge()
    session, works = give(bridge, "w1", slots=2, a="was sent", b="was sent", c="waits")
    bridge.loses(session)
    assert [len(works[name].deaths) for name in "abc"] == [1, 1, 0]
    assert [works[name].failures for name in "abc"] == [1, 1, 0]


def test_who_was_given_to_workers_that_never_spoke_again_is_not_taken_for_a_poison() -> None:
    """They may have been out of reach before they got it."""
    bridge = Bridge()
    work = None
    for number in range(4):
        session = join(bridge, f"w{number}")
        work = work or bridge.submit(leaf())
        assert work.state is W.ASSIGNED
        bridge.loses(session)
    assert code_of(ends(bridge.log)["q"]) == ErrorCode.ATTEMPTS_EXHAUSTED


def test_one_word_that_it_had_begun_is_enough() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, poison="was sent")
    bridge.loses(first)
    second = join(bridge, "w2")
    bridge.accepts(works["poison"])
    bridge.loses(second)
    bridge.loses(join(bridge, "w3"))
    assert code_of(ends(bridge.log)["query of poison"]) == ErrorCode.QUARANTINED


@pytest.mark.parametrize("how", ["goodbye", "drained", "protocol", "same process again"])
def test_the_orderly_end_of_a_session_is_no_death(how: str) -> None:
    bridge = Bridge()
    for name in ("w1", "w2", "w3"):
        session = join(bridge, name)
        work = bridge.submit(leaf()) if name == "w1" else bridge.work(leaf().key)
        bridge.accepts(work)
        match how:
            case "goodbye":
                bridge.says(session, Goodbye("bye"))
            case "drained":
                bridge.says(session, WorkerBeat(DRAINING), Goodbye("the time for draining ran out"))
            case "protocol":
                bridge.says(session, CreditChanged(-1))
            case _:
                bridge.joins(name, status=PAUSED)
        assert (work.deaths, work.failures) == ((), int(name[1]))
    assert ends(bridge.log) == {}


@pytest.mark.parametrize("incarnation, found", [(1, False), (2, True)])
def test_a_cut_connection_is_no_death_once_the_same_process_is_back(incarnation: int, found: bool) -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    bridge.loses(first)
    bridge.joins("w1", incarnation=incarnation, status=PAUSED)
    for name in ("w2", "w3"):
        session = join(bridge, name)
        bridge.accepts(works["a"])
        bridge.loses(session)
    assert bool(ends(bridge.log)) is found


def test_a_worker_that_fell_silent_counts_even_when_the_same_process_is_back() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    bridge.joins("bystander", status=PAUSED)
    bridge.advance(4, silent=[first])
    assert len(works["a"].deaths) == 1
    bridge.joins("w1", status=PAUSED)
    for name in ("w2", "w3"):
        session = join(bridge, name)
        bridge.accepts(works["a"])
        bridge.advance(4, silent=[session])
    assert code_of(ends(bridge.log)["query of a"]) == ErrorCode.QUARANTINED


def test_a_connection_that_is_cut_again_and_again_is_no_death_of_its_worker() -> None:
    bridge = Bridge()
    session, works = give(bridge, "w1", slots=1, a="runs")
    for _ in range(3):
        bridge.loses(session)
        assert len(works["a"].deaths) == 1
        session = join(bridge, "w1")
        bridge.accepts(works["a"])
    assert ends(bridge.log) == {}


@pytest.mark.parametrize("others", [0, 2])
def test_when_all_workers_are_silent_at_once_it_may_be_our_network_and_those_that_come_back_did_not_die(
    others: int,
) -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    everybody = [first, *(bridge.joins(f"other {number}", status=PAUSED) for number in range(others))]
    for _ in range(3):
        bridge.advance(4, silent=everybody)
        assert not len(bridge.machine.roster)
        everybody = [join(bridge, "w1"), *(bridge.joins(f"other {number}", status=PAUSED) for number in range(others))]
        bridge.accepts(works["a"])
    assert (ends(bridge.log), len(works["a"].deaths)) == ({}, 1)


def test_a_new_process_in_the_place_of_a_worker_is_the_death_of_the_old_one() -> None:
    bridge = Bridge()
    for incarnation in (1, 2, 3, 4):
        join(bridge, "w1", incarnation=incarnation)
        if incarnation == 1:
            bridge.submit(leaf())
        if incarnation < 4:
            bridge.accepts(bridge.work(leaf().key))
    assert code_of(ends(bridge.log)["q"]) == ErrorCode.QUARANTINED


def test_nobody_is_blamed_while_something_that_was_given_up_may_still_run_beside_it() -> None:
    bridge = Bridge()
    session, works = give(bridge, "w1", slots=2, a="runs", canceled="runs")
    bridge.cancel("query of canceled")
    bridge.loses(session)
    assert (works["a"].deaths, works["a"].failures) == ((), 1)


def test_a_suspect_that_is_canceled_makes_room_for_another_when_it_has_stopped() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=2, a="runs", b="runs")
    bridge.loses(first)
    session = join(bridge, "w2")
    (on_it,) = [work for work in works.values() if work.current is not None]
    (waits,) = [work for work in works.values() if work is not on_it]
    attempt = on_it.current_id
    bridge.cancel_work(on_it)
    bridge.says(session, WorkCanceled(attempt))
    assert bridge.session_of(waits) == session


def test_a_suspect_waits_while_there_is_nobody_and_goes_with_its_query() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    bridge.loses(first)
    assert (works["a"].state, bridge.machine.pending) == (W.PENDING, 1)
    bridge.cancel("query of a")
    assert bridge.machine.pending == 0


def test_what_was_beside_many_deaths_pays_in_the_end_although_it_never_seemed_to_run() -> None:
    """Something may kill faster than it can be told that it runs."""
    bridge = Bridge()
    paid: list[int] = []
    while "q" not in ends(bridge.log):
        session = join(bridge, f"w{len(paid)}")
        runner = bridge.submit(leaf(f"runner {len(paid)}", f"runners {len(paid)}"))
        work = bridge.work(leaf().key) if paid else bridge.submit(leaf())
        bridge.accepts(runner)
        assert work.state is W.ASSIGNED
        bridge.loses(session)
        bridge.cancel(f"runners {len(paid)}")
        paid.append(work.failures)
    assert paid == [0, 0, 0, 0, 1, 2, 3, 4]
    assert code_of(ends(bridge.log)["q"]) == ErrorCode.ATTEMPTS_EXHAUSTED


def test_a_work_that_ends_its_engine_on_two_workers_is_quarantined_and_the_workers_live() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=2, poison="runs", beside="runs")
    join(bridge, "w2")
    poison = works["poison"]
    bridge.says(first, WorkFailed(poison.current_id, ENGINE_DIED))
    assert bridge.worker_of(poison) == "w2"
    bridge.accepts(poison)
    bridge.says(bridge.session_of(poison), WorkFailed(poison.current_id, ENGINE_DIED))
    error = ends(bridge.log)["query of poison"]
    assert code_of(error) == ErrorCode.QUARANTINED
    assert error is not None
    assert "(w1, w2)" in error.message
    assert "its engine has died" in error.message
    assert works["beside"].failures == 0
    assert len(bridge.machine.roster) == 2


def test_a_failure_that_says_nothing_of_an_engine_is_none() -> None:
    bridge = Bridge()
    join(bridge, "w1")
    work = bridge.submit(leaf())
    for _ in range(3):
        bridge.accepts(work)
        bridge.says(bridge.session_of(work), WorkFailed(work.current_id, PASSING))
    assert (work.failures, work.deaths) == (3, ())


def test_a_suspect_goes_to_a_worker_that_is_idle_when_its_home_has_another_suspect() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=3, a="runs", b="runs", c="runs")
    sessions = [join(bridge, f"w{number}") for number in (2, 3, 4)]
    bridge.loses(first)
    assert {bridge.session_of(work) for work in works.values()} == set(sessions)


def test_a_suspect_that_is_handed_back_is_a_suspect_still() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    bridge.loses(first)
    work = works["a"]
    second = join(bridge, "w2")
    bridge.says(second, WorkerBeat(DRAINING), WorkReturned(work.current_id))
    assert work.state is W.PENDING
    third = join(bridge, "w3")
    suspect = bridge.session(third).suspect
    assert suspect is not None
    assert suspect.work is work
    bridge.done(work)
    assert bridge.session(third).suspect is None
