"""Round robin: everyone in turn, whoever joins, leaves or is passed over."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement import RoundRobin

ADA, BOB, CYD = WorkerId("ada"), WorkerId("bob"), WorkerId("cyd")
repeatable = settings(derandomize=True, deadline=None)


def round_robin_of(*crew: WorkerId) -> RoundRobin:
    round_robin = RoundRobin()
    for worker_id in crew:
        round_robin.add(worker_id, free=1)
    return round_robin


def turns(round_robin: RoundRobin, number: int) -> list[WorkerId | None]:
    return [round_robin.choose("key") for _ in range(number)]


def test_workers_are_chosen_in_turn() -> None:
    assert turns(round_robin_of(ADA, BOB, CYD), 7) == [ADA, BOB, CYD, ADA, BOB, CYD, ADA]


def test_a_new_worker_waits_for_those_who_were_there_before() -> None:
    round_robin = round_robin_of(ADA, BOB)
    assert turns(round_robin, 1) == [ADA]
    round_robin.add(CYD, free=1)
    assert turns(round_robin, 4) == [BOB, ADA, CYD, BOB]


def test_a_worker_that_leaves_does_not_cost_another_its_turn() -> None:
    round_robin = round_robin_of(ADA, BOB, CYD)
    assert turns(round_robin, 1) == [ADA]
    round_robin.remove(BOB)
    assert turns(round_robin, 3) == [CYD, ADA, CYD]


def test_a_worker_passed_over_is_next_once_and_does_not_catch_up() -> None:
    round_robin = round_robin_of(ADA, BOB, CYD)
    assert [round_robin.choose("key", {ADA}) for _ in range(4)] == [BOB, CYD, BOB, CYD]
    assert turns(round_robin, 4) == [ADA, BOB, CYD, ADA]


def test_room_has_no_influence_on_the_turn() -> None:
    round_robin = round_robin_of(ADA, BOB)
    round_robin.set_free(ADA, free=0)
    round_robin.set_free(BOB, free=99)
    assert turns(round_robin, 3) == [ADA, BOB, ADA]


@repeatable
@given(size=st.integers(1, 12), number=st.integers(0, 60))
def test_counts_differ_by_one_at_most(size: int, number: int) -> None:
    crew = [WorkerId(str(index)) for index in range(size)]
    counts = Counter(turns(round_robin_of(*crew), number))
    times = [counts[worker_id] for worker_id in crew]
    assert sum(times) == number
    assert max(times) - min(times) <= 1


@repeatable
@given(data=st.data())
def test_counts_of_those_who_stay_differ_by_one_at_most_while_others_come_and_go(data: st.DataObject) -> None:
    stayers, others = [ADA, BOB, CYD], [WorkerId(str(index)) for index in range(4)]
    round_robin = round_robin_of(*data.draw(st.permutations(stayers)))
    counts: Counter[WorkerId | None] = Counter()
    for other in data.draw(st.lists(st.sampled_from(others), max_size=20)):
        if other in round_robin:
            round_robin.remove(other)
        else:
            round_robin.add(other, free=1)
        counts.update(turns(round_robin, data.draw(st.integers(0, 5))))
        times = [counts[worker_id] for worker_id in stayers]
        assert max(times) - min(times) <= 1
