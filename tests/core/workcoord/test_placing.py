"""Who gets which work, and when: affinity, spilling over, fairness, the backlog, and what churn leaves."""

from collections import Counter

import pytest

from quarterdeck.core.ids import SessionId
from quarterdeck.core.placement import PlacementStrategy
from quarterdeck.core.workcoord.coordinator import effects as ce
from quarterdeck.core.workcoord.coordinator import events as cv
from quarterdeck.core.workcoord.coordinator.lane import Lane
from quarterdeck.core.workcoord.coordinator.tables import WorkState
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import (
    CreditChanged,
    WorkAccepted,
    WorkCanceled,
    WorkerBeat,
)
from tests.core.workcoord.harness import (
    LEAF,
    PAUSED,
    SCAN,
    Bridge,
    key,
    leaf,
    of,
)

W = WorkState
LEAVES = frozenset({LEAF})


def home_and_other(bridge: Bridge) -> tuple[SessionId, SessionId]:
    """Two workers with one credit each: the one that works with the empty affinity key go to, and the other."""
    sessions = [bridge.joins("w1", credit=1), bridge.joins("w2", credit=1)]
    probe = bridge.submit(leaf("probe", "probe"))
    home = bridge.session_of(probe)
    bridge.done(probe)
    sessions.remove(home)
    bridge.cancel("probe")
    return home, sessions[0]


def lane(bridge: Bridge, kind: WorkKind = LEAF) -> Lane:
    return next(lane for lane in bridge.machine.ledger.dispatch.lanes() if lane.key == ("default", kind))


# Affinity


def test_works_with_one_affinity_key_go_to_one_worker_and_other_keys_are_spread() -> None:
    bridge = Bridge()
    for name in ("w1", "w2", "w3"):
        bridge.joins(name, credit=100)
    same = {bridge.worker_of(bridge.submit(leaf(f"same {n}", affinity="file 1"))) for n in range(20)}
    spread = {bridge.worker_of(bridge.submit(leaf(f"spread {n}", affinity=f"file {n}"))) for n in range(20)}
    assert len(same) == 1
    assert len(spread) == 3
    assert bridge.machine.counters["assigned_at_home"] == 40


def test_a_work_waits_for_its_busy_home_and_spills_over_to_an_idle_worker() -> None:
    bridge = Bridge(spill_after_s=0.25)
    home, other = home_and_other(bridge)
    bridge.submit(leaf("a"))
    waits = bridge.submit(leaf("b"))
    assert waits.state is W.PENDING
    bridge.advance(0.2)
    assert waits.state is W.PENDING
    bridge.advance(0.1)
    assert bridge.session_of(waits) == other != home
    assert bridge.machine.counters["assigned_spilled"] == 1


def test_a_work_goes_home_when_its_home_is_free_in_time() -> None:
    bridge = Bridge(spill_after_s=0.25)
    home, _ = home_and_other(bridge)
    first = bridge.submit(leaf("a"), leaf("b"))
    bridge.advance(0.2)
    bridge.done(first)
    assert bridge.session_of(bridge.work(key("b"))) == home
    assert bridge.machine.counters["assigned_spilled"] == 0


def test_a_worker_that_becomes_idle_later_takes_what_has_waited_long_enough_and_nothing_else() -> None:
    bridge = Bridge(spill_after_s=0.25)
    home, other = home_and_other(bridge)
    bridge.says(other, CreditChanged(0))
    bridge.submit(leaf("a"), leaf("old"))
    bridge.advance(0.2)
    bridge.submit(leaf("young"))
    bridge.advance(0.1)
    effects = bridge.says(other, CreditChanged(5))
    assert bridge.assigned(effects, other) == ["old"]
    assert bridge.machine.counters["assigned_spilled"] == 1
    effects = bridge.advance(0.14)
    assert bridge.assigned(effects) == []
    effects = bridge.advance(0.02)
    assert bridge.assigned(effects, other) == ["young"]
    assert bridge.session(home).free == 0


def test_idle_workers_share_what_spills_over() -> None:
    bridge = Bridge()
    sessions = [bridge.joins(f"w{n}", credit=5) for n in range(4)]
    works = [bridge.submit(leaf(f"{n}")) for n in range(11)]
    bridge.advance(1)
    counts = Counter(bridge.session_of(work) for work in works)
    assert sorted(counts.values()) == [2, 2, 2, 5]
    assert set(counts) == set(sessions)


@pytest.mark.parametrize("submitted_at", [1023.9499999999998, 1023.9299618089697, 2047.9499999999998])
def test_a_work_spills_over_at_a_time_that_cannot_be_subtracted_exactly(submitted_at: float) -> None:
    """Here the sum with 0.1 is rounded down: who subtracts 0.1 from it again finds that the time has not come, ever."""
    bridge = Bridge(spill_after_s=0.1)
    home, other = home_and_other(bridge)
    bridge.advance_to(submitted_at)
    bridge.submit(leaf("a"))
    waits = bridge.submit(leaf("b"))
    bridge.advance(0.15)
    assert bridge.session_of(waits) == other != home


def test_what_stood_in_the_line_of_a_worker_that_left_moves_on() -> None:
    bridge = Bridge(spill_after_s=100)
    home, other = home_and_other(bridge)
    bridge.submit(leaf("a"))
    waits = bridge.submit(leaf("b"))
    bridge.says(home, WorkerBeat(PAUSED))
    bridge.settle()
    assert bridge.session_of(waits) == other


def test_placement_is_chosen_by_the_work() -> None:
    bridge = Bridge()
    sessions = [bridge.joins(f"w{n}", credit=10 + n) for n in range(3)]
    turns = [bridge.submit(leaf(f"turn {n}", placement=PlacementStrategy.ROUND_ROBIN)) for n in range(6)]
    assert sorted(Counter(bridge.session_of(work) for work in turns).values()) == [2, 2, 2]
    most_free = [bridge.submit(leaf(f"free {n}", placement=PlacementStrategy.MOST_FREE)) for n in range(3)]
    assert [bridge.session(session).free for session in sessions] == [8, 8, 8]
    assert {bridge.session_of(work) for work in most_free} == set(sessions[1:])


def test_a_strategy_that_is_first_asked_for_later_knows_who_is_there() -> None:
    bridge = Bridge()
    full, roomy = bridge.joins("w1", credit=2), bridge.joins("w2", credit=9)
    work = bridge.submit(leaf("a", placement=PlacementStrategy.MOST_FREE))
    assert bridge.session_of(work) == roomy
    bridge.says(roomy, CreditChanged(1))
    assert bridge.session_of(bridge.submit(leaf("b", placement=PlacementStrategy.MOST_FREE))) == full
    third = bridge.joins("w3", credit=5)
    assert bridge.session_of(bridge.submit(leaf("c", placement=PlacementStrategy.MOST_FREE))) == third
    bridge.loses(third)
    assert bridge.session_of(bridge.work(key("c"))) == full


def test_a_work_does_not_spill_over_before_its_own_time() -> None:
    bridge = Bridge(spill_after_s=0.25)
    _, other = home_and_other(bridge)
    bridge.says(other, CreditChanged(5))
    bridge.submit(leaf("busy"), leaf("old"))
    bridge.advance(0.1)
    bridge.submit(leaf("young"))
    assert bridge.assigned(bridge.advance(0.16), other) == ["old"]
    assert bridge.assigned(bridge.advance(0.08), other) == []
    assert bridge.assigned(bridge.advance(0.02), other) == ["young"]
    assert bridge.machine.counters["assigned_spilled"] == 2


def test_nothing_spills_over_to_a_worker_that_has_left() -> None:
    bridge = Bridge()
    _, other = home_and_other(bridge)
    bridge.submit(leaf("busy"))
    waits = bridge.submit(leaf("waits"))
    bridge.says(other, WorkerBeat(PAUSED))
    bridge.advance(5)
    assert waits.state is W.PENDING


# Fairness


def test_lanes_take_turns_for_the_credit_of_a_worker() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=0)
    for n in range(4):
        bridge.submit(leaf(f"leaf {n}", "leaves"))
        bridge.submit(leaf(f"search {n}", "searches", kind=SCAN))
    effects = bridge.says(session, CreditChanged(5))
    kinds = [name.split()[0] for name in bridge.assigned(effects)]
    assert Counter(kinds[:2]) == Counter(kinds[2:4]) == Counter(kinds[4:]) == Counter(["leaf", "search"])


def test_a_worker_is_only_given_what_it_takes() -> None:
    bridge = Bridge()
    bridge.joins("w1", kinds=frozenset({SCAN}))
    bridge.joins("w2", tenant="acme")
    work = bridge.submit(leaf())
    bridge.advance(5)
    assert work.state is W.PENDING
    session = bridge.joins("w3", kinds=LEAVES)
    assert bridge.session_of(work) == session


# The backlog


def test_a_long_backlog_is_placed_in_several_steps() -> None:
    bridge = Bridge()
    bridge.open_query()
    for n in range(600):
        bridge.step(cv.WorkSubmitted(leaf(f"{n}")))
    session = bridge.joins(credit=None)
    bridge.says(session, CreditChanged(2000))
    placed = [sum(w.state is W.ASSIGNED for w in bridge.work(key("0")).query.works.values())]
    while bridge.machine.next_deadline() == bridge.now:
        bridge.step(cv.TimePassed())
        placed.append(sum(w.state is W.ASSIGNED for w in bridge.work(key("0")).query.works.values()))
    assert placed == [256, 512, 600]
    assert bridge.machine.pending == 0
    order = [int(name) for name in bridge.assigned(bridge.log)]
    assert order == list(range(600))


def test_many_works_that_spill_over_do_so_in_several_steps() -> None:
    bridge = Bridge()
    home, other = home_and_other(bridge)
    bridge.accepts(bridge.submit(leaf("first")))
    bridge.says(other, CreditChanged(0))
    for n in range(600):
        bridge.step(cv.WorkSubmitted(leaf(f"{n}")))
    bridge.says(other, CreditChanged(2000))
    bridge.advance(0.09)
    assert bridge.session(other).outstanding == 0
    bridge.now += 0.02
    placed: list[int] = []
    while (at := bridge.machine.next_deadline()) is not None and at <= bridge.now:
        bridge.step(cv.TimePassed())
        placed.append(bridge.session(other).outstanding)
    assert [number for number in placed if number] == [256, 512, 600]
    assert bridge.session(home).outstanding == 1


def test_works_of_a_backlog_stay_in_order_when_workers_come_and_go() -> None:
    bridge = Bridge()
    bridge.open_query()
    for n in range(20):
        bridge.step(cv.WorkSubmitted(leaf(f"{n}")))
    for _ in range(3):
        bridge.loses(bridge.joins("w1", credit=None))
    bridge.log.clear()
    bridge.joins("w1", credit=20)
    bridge.settle()
    assert bridge.assigned(bridge.log) == [str(n) for n in range(20)]


# Churn leaves nothing behind


def places(bridge: Bridge) -> int:
    """How many places in line are kept, valid or not."""
    found = lane(bridge)
    lines = [found.common, *found.homes.values(), *found.backlog]
    return sum(len(line) for line in lines)


def test_works_that_are_canceled_in_line_leave_no_growth_behind() -> None:
    bridge = Bridge()
    bridge.joins(credit=0)
    bridge.open_query()
    stays = bridge.submit(leaf("stays"))
    for n in range(200):
        bridge.cancel_work(bridge.submit(leaf(f"{n}")))
        assert places(bridge) < 150
    assert stays.state is W.PENDING
    (session,) = bridge.machine.roster.sessions()
    assert bridge.assigned(bridge.says(session.session_id, CreditChanged(1))) == ["stays"]


def test_a_long_line_that_is_left_by_all_but_one_is_forgotten() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=0)
    works = [bridge.submit(leaf(f"{n}")) for n in range(150)]
    for work in works[1:]:
        bridge.cancel_work(work)
    assert places(bridge) <= 2 * (64 + 2)
    assert bridge.assigned(bridge.says(session, CreditChanged(9))) == ["0"]


def test_queries_that_are_canceled_in_line_leave_no_growth_behind() -> None:
    bridge = Bridge()
    bridge.joins(credit=0)
    stays = bridge.submit(leaf("stays", "stays"))
    for n in range(100):
        bridge.submit(*[leaf(f"{each}", f"q{n}") for each in range(5)])
        bridge.cancel(f"q{n}")
        assert places(bridge) < 300
    assert stays.state is W.PENDING
    assert bridge.machine.pending == 1
    (session,) = bridge.machine.roster.sessions()
    assert bridge.assigned(bridge.says(session.session_id, CreditChanged(9))) == ["stays"]


def test_the_works_of_an_ended_query_are_passed_over() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=0)
    bridge.submit(leaf("a", "gone"), leaf("b", "gone"), leaf("c", "here"), leaf("d", "gone"), leaf("e", "here"))
    bridge.cancel("gone")
    assert bridge.machine.pending == 2
    assert bridge.assigned(bridge.says(session, CreditChanged(9))) == ["c", "e"]


def test_a_lane_goes_with_its_last_worker_and_work() -> None:
    bridge = Bridge()
    session = bridge.joins(kinds=LEAVES)
    bridge.done(bridge.submit(leaf()))
    bridge.submit(leaf("b", kind=SCAN))
    bridge.cancel()
    bridge.loses(session)
    assert list(bridge.machine.ledger.dispatch.lanes()) == []
    assert bridge.machine.next_deadline() is None


def test_hundreds_of_queries_leave_nothing_behind() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=2)
    for n in range(300):
        query = f"q{n}"
        bridge.open_query(query, wait_limit_s=10)
        works = [bridge.submit(leaf(f"{each}", query)) for each in range(4)]
        bridge.advance(0.05)
        bridge.done(works[0])
        bridge.accepts(works[1])
        bridge.cancel(query)
        for work in works:
            if work.number:
                continue
            assert work.state is W.PENDING
        for attempt_id in list(bridge.session(session).closing):
            bridge.says(session, WorkAccepted(attempt_id), WorkCanceled(attempt_id))
    desk_timers = bridge.machine._desk.deadlines  # pyright: ignore[reportPrivateUsage]
    assert len(desk_timers) == 1
    assert len(desk_timers._heap) < 100  # pyright: ignore[reportPrivateUsage]
    assert bridge.session(session).free == 2
    assert list(bridge.machine.ledger.queries()) == []
    assert places(bridge) < 300
    assert not of(ce.RefuseWork, bridge.log)
