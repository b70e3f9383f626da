"""A work that ends whatever runs it: it is found after two workers, and nobody beside it pays for that."""

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import SessionId
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
from tests.core.workcoord.harness import DRAINING, PASSING, PAUSED, Bridge, epoch, leaf, of

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


def test_a_work_that_was_alone_on_two_workers_that_died_is_quarantined_with_an_error_of_its_own() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, poison="runs")
    second = join(bridge, "w2")
    join(bridge, "w3")
    assert ends(bridge.loses(first)) == {}
    poison = works["poison"]
    bridge.loses(bridge.session_of(poison))
    assert poison.state is W.FAILED
    (error,) = [end.error for end in of(ce.EndQuery, bridge.log)]
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.QUARANTINED, False)
    assert "2 workers died" in error.message
    assert "while they ran work poison (w1, w" in error.message
    assert second


def test_an_innocent_that_only_waited_beside_a_poisonous_work_keeps_all_its_attempts_while_two_workers_die() -> None:
    bridge = Bridge()
    session, works = give(bridge, "w1", slots=1, poison="runs", innocent="waits")
    poison, innocent = works["poison"], works["innocent"]
    for name in ("w2", "w3"):
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
    assert code_of(ends(bridge.log)["query of poison"]) == ErrorCode.QUARANTINED
    assert (beside.failures, beside.deaths) == (0, ())


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
    bridge.loses(bridge.session_of(poison))
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
    second = join(bridge, "w2")
    bridge.accepts(works["a"])
    bridge.loses(second)
    assert bool(ends(bridge.log)) is found


def test_a_worker_that_fell_silent_counts_even_when_the_same_process_is_back() -> None:
    bridge = Bridge()
    first, works = give(bridge, "w1", slots=1, a="runs")
    bridge.advance(4, silent=[first])
    assert len(works["a"].deaths) == 1
    bridge.joins("w1", status=PAUSED)
    second = join(bridge, "w2")
    bridge.accepts(works["a"])
    bridge.advance(4, silent=[second])
    assert code_of(ends(bridge.log)["query of a"]) == ErrorCode.QUARANTINED


def test_a_new_process_in_the_place_of_a_worker_is_the_death_of_the_old_one() -> None:
    bridge = Bridge()
    for incarnation in (1, 2, 3):
        join(bridge, "w1", incarnation=incarnation)
        if incarnation == 1:
            bridge.submit(leaf())
        if incarnation < 3:
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


def test_durable_work_is_never_blamed() -> None:
    bridge = Bridge(fence=1)
    session = join(bridge, "w1")
    work = bridge.submit(epoch())
    for _ in range(3):
        bridge.accepts(work)
        bridge.says(session, WorkFailed(work.current_id, ENGINE_DIED))
    bridge.accepts(work)
    bridge.loses(session)
    assert (work.deaths, work.state) == ((), W.UNREACHABLE)


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
