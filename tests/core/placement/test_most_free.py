"""Most free: room decides, then turn."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement import MostFree

ADA, BOB, CYD = WorkerId("ada"), WorkerId("bob"), WorkerId("cyd")
CREW = [WorkerId(f"worker-{number}") for number in range(6)]
repeatable = settings(derandomize=True, deadline=None)


def most_free_of(free_of: dict[WorkerId, int]) -> MostFree:
    most_free = MostFree()
    for worker_id, free in free_of.items():
        most_free.add(worker_id, free)
    return most_free


def test_the_worker_with_most_room_is_chosen() -> None:
    assert most_free_of({ADA: 1, BOB: 3, CYD: 2}).choose("key") == BOB


def test_the_next_fullest_is_chosen_when_the_emptiest_is_excluded() -> None:
    assert most_free_of({ADA: 1, BOB: 3, CYD: 2}).choose("key", {BOB}) == CYD


def test_a_worker_without_room_is_chosen_only_when_the_others_are_excluded() -> None:
    most_free = most_free_of({ADA: 0, BOB: 1})
    assert [most_free.choose("key") for _ in range(3)] == [BOB, BOB, BOB]
    assert most_free.choose("key", {BOB}) == ADA


def test_a_worker_with_less_than_no_room_comes_last() -> None:
    most_free = most_free_of({ADA: -1, BOB: 0})
    assert [most_free.choose("key") for _ in range(2)] == [BOB, BOB]
    assert most_free.choose("key", {BOB}) == ADA


def test_a_change_of_room_counts_at_once() -> None:
    most_free = most_free_of({ADA: 1, BOB: 2})
    most_free.set_free(BOB, free=0)
    assert most_free.choose("key") == ADA
    most_free.set_free(BOB, free=2)
    assert most_free.choose("key") == BOB


def test_saying_the_same_room_again_does_not_cost_a_worker_its_turn() -> None:
    most_free = most_free_of({ADA: 1, BOB: 1})
    most_free.set_free(ADA, free=1)
    assert [most_free.choose("key") for _ in range(3)] == [ADA, BOB, ADA]


def test_a_removed_worker_takes_its_room_with_it() -> None:
    most_free = most_free_of({ADA: 1, BOB: 9})
    most_free.remove(BOB)
    assert most_free.choose("key") == ADA
    most_free.add(BOB, free=0)
    assert most_free.choose("key") == ADA


def test_a_number_of_places_that_nobody_has_any_more_leaves_nothing_behind() -> None:
    most_free = most_free_of({ADA: 0, BOB: 7})
    for free in range(1, 100):
        most_free.set_free(ADA, free)
    most_free.remove(BOB)
    assert most_free._numbers == list(most_free._line_of) == [99]  # pyright: ignore[reportPrivateUsage]


def test_unequal_workers_fill_up_to_the_same_level_and_then_take_turns() -> None:
    free_of = {ADA: 4, BOB: 2, CYD: 2}
    most_free = most_free_of(free_of)
    chosen: list[WorkerId] = []
    for _ in range(8):
        worker_id = most_free.choose("key")
        assert worker_id is not None
        chosen.append(worker_id)
        free_of[worker_id] -= 1
        most_free.set_free(worker_id, free_of[worker_id])
    assert chosen[:2] == [ADA, ADA]
    assert [set(chosen[2:5]), set(chosen[5:8])] == [{ADA, BOB, CYD}] * 2


@repeatable
@given(size=st.integers(1, 6), number=st.integers(0, 40))
def test_equal_workers_share_evenly(size: int, number: int) -> None:
    most_free = most_free_of(dict.fromkeys(CREW[:size], 3))
    counts = Counter(most_free.choose("same key") for _ in range(number))
    times = [counts[worker_id] for worker_id in CREW[:size]]
    assert sum(times) == number
    assert max(times) - min(times) <= 1


@repeatable
@given(
    steps=st.lists(st.tuples(st.sampled_from(CREW), st.booleans(), st.integers(-2, 4), st.integers(0, 63)), max_size=30)
)
def test_a_fuller_worker_is_never_picked(steps: list[tuple[WorkerId, bool, int, int]]) -> None:
    most_free = MostFree()
    free_of: dict[WorkerId, int] = {}
    for worker_id, stays, free, excluded_bits in steps:
        if worker_id not in free_of:
            most_free.add(worker_id, free)
            free_of[worker_id] = free
        elif stays:
            most_free.set_free(worker_id, free)
            free_of[worker_id] = free
        else:
            most_free.remove(worker_id)
            del free_of[worker_id]
        excluded = {one for index, one in enumerate(CREW) if excluded_bits >> index & 1}
        chosen = most_free.choose("key", excluded)
        rooms = [room for other, room in free_of.items() if other not in excluded]
        assert (None if chosen is None else free_of[chosen]) == max(rooms, default=None)
