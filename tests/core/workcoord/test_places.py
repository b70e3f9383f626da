"""Shares of slots and of credit: no kind takes the last place from the others, and queries take turns."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.load import Load
from quarterdeck.core.workcoord.messages import CreditChanged
from quarterdeck.core.workcoord.worker import effects as we
from quarterdeck.core.workcoord.worker.tables import AttemptState
from tests.core.workcoord.harness import ALL_KINDS, LEAF, SCAN, Bridge, Mate, leaf, of

A = AttemptState
TWO = frozenset({LEAF, SCAN})


def running(mate: Mate) -> list[str]:
    return [a.attempt_id.key.work_id for a in mate.machine.attempts() if a.state is A.RUNNING]


def test_a_leaf_starts_at_once_beside_a_scan_that_has_the_only_slot() -> None:
    mate = Mate(slots=1, queue_places=2, kinds=TWO)
    session = mate.opens()
    mate.assigned(leaf("scan", "long", kind=SCAN), session)
    mate.assigned(leaf("second scan", "long", kind=SCAN), session)
    mate.assigned(leaf("leaf", "light"), session)
    assert running(mate) == ["scan", "leaf"]


def test_no_more_run_than_there_are_slots_and_one_for_each_further_kind() -> None:
    mate = Mate(slots=3, queue_places=20, kinds=TWO)
    session = mate.opens()
    for number in range(6):
        mate.assigned(leaf(f"scan {number}", "scans", kind=SCAN), session)
    assert len(running(mate)) == 3  # alone, a kind has all slots
    for number in range(6):
        mate.assigned(leaf(f"leaf {number}", "leaves"), session)
    assert Counter(name.split()[0] for name in running(mate)) == {"scan": 3, "leaf": 1}
    assert mate.machine.busy_slots == 4


def test_a_slot_that_gets_free_goes_to_the_kinds_in_turn() -> None:
    mate = Mate(slots=2, queue_places=20, kinds=TWO)
    session = mate.opens()
    scans = [mate.assigned(leaf(f"scan {number}", "scans", kind=SCAN), session) for number in range(4)]
    for number in range(4):
        mate.assigned(leaf(f"leaf {number}", "leaves"), session)
    assert sorted(running(mate)) == ["leaf 0", "scan 0", "scan 1"]
    mate.succeeds(scans[0])
    mate.succeeds(scans[1])
    assert sorted(running(mate)) == ["leaf 0", "leaf 1", "scan 2"]


def test_a_light_query_does_not_stand_behind_thirty_works_of_a_heavy_one() -> None:
    mate = Mate(slots=1, queue_places=60)
    session = mate.opens()
    heavy = [mate.assigned(leaf(f"{number}", "heavy"), session) for number in range(30)]
    light = mate.assigned(leaf("light", "light"), session)
    mate.succeeds(heavy[0])
    mate.succeeds(heavy[1])
    assert light.state is A.RUNNING
    mate.succeeds(light)
    assert heavy[2].state is A.RUNNING


def test_light_works_begin_before_heavy_ones_that_came_first_but_not_all_of_them() -> None:
    mate = Mate(slots=1, queue_places=60)
    session = mate.opens()
    mate.assigned(leaf("first", "q0"), session)
    heavy = [mate.assigned(leaf(f"heavy {number}", f"q{number}"), session) for number in range(3)]
    light = [mate.assigned(leaf(f"light {number}", f"l{number}", light=True), session) for number in range(6)]
    order: list[str] = []
    while now := [each for each in mate.machine.attempts() if each.state is A.RUNNING]:
        order.append(now[0].attempt_id.key.work_id)
        mate.succeeds(now[0])
    assert order == [
        "first", *(f"light {number}" for number in range(4)), "heavy 0", "light 4", "light 5", "heavy 1", "heavy 2",
    ]  # fmt: skip
    assert len(heavy) + len(light) + 1 == len(order)


def test_works_that_leave_the_line_leave_no_trace_in_it() -> None:
    mate = Mate(slots=1, queue_places=9)
    session = mate.opens()
    first = mate.assigned(leaf("first"), session)
    others = [mate.assigned(leaf(f"{number}", f"q{number % 2}"), session) for number in range(4)]
    for attempt in others:
        mate.cancels(attempt, session)
    assert (list(mate.machine.places.waiting()), mate.machine.queued) == ([], 0)
    assert of(we.StartExecution, mate.succeeds(first)) == []


def test_a_scan_that_takes_all_credit_leaves_room_for_a_leaf() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=3, kinds=TWO)
    scans = [bridge.submit(leaf(f"scan {number}", "scans", kind=SCAN)) for number in range(5)]
    assert sum(work.state == "assigned" for work in scans) == 3
    first, second = bridge.submit(leaf("first", "light")), bridge.submit(leaf("second", "light"))
    assert bridge.session_of(first) == session
    assert second.state == "pending"
    assert (bridge.session(session).outstanding, bridge.session(session).free) == (4, 0)
    bridge.done(first)
    assert bridge.session_of(second) == session


def test_both_sides_reckon_with_the_same_credit() -> None:
    mate = Mate(slots=1, queue_places=1, kinds=TWO)
    session = mate.opens()
    mate.assigned(leaf("scan 0", kind=SCAN), session)
    mate.assigned(leaf("scan 1", kind=SCAN), session)
    mate.assigned(leaf("leaf"), session)
    assert mate.machine.counters["protocol_errors"] == 0
    with pytest.raises(StopIteration):
        mate.assigned(leaf("leaf 1"), session)
    assert mate.machine.counters["protocol_errors"] == 1


def test_without_credit_no_kind_has_a_place() -> None:
    bridge = Bridge()
    session = bridge.joins(credit=0, kinds=TWO)
    work = bridge.submit(leaf())
    assert work.state == "pending"
    bridge.says(session, CreditChanged(1))
    assert bridge.session_of(work) == session


@given(
    limit=st.integers(1, 6),
    moves=st.lists(st.tuples(st.sampled_from(sorted(ALL_KINDS)), st.booleans()), max_size=60),
)
def test_what_a_limit_lets_in(limit: int, moves: list[tuple[WorkKind, bool]]) -> None:
    load, held = Load(), Counter[WorkKind]()
    for kind, comes in moves:
        if comes and load.has_room(kind, limit):
            load.add(kind)
            held[kind] += 1
        elif comes:
            assert held[kind] > 0  # a kind that has none is never kept out
        elif held[kind]:
            load.remove(kind)
            held[kind] -= 1
        assert load.total == held.total()
        assert load.total <= limit + len(ALL_KINDS) - 1
        assert max(held.values(), default=0) <= limit
        assert load.charged == (1 + sum(number - 1 for number in held.values() if number) if load.total else 0)
        assert [load.of_kind(each) for each in ALL_KINDS] == [held[each] for each in ALL_KINDS]
