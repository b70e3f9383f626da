"""What every placement strategy promises, whatever it picks by."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement import (
    MostFree,
    Placement,
    PlacementStrategy,
    Rendezvous,
    RoundRobin,
    make_placement,
)

ADA, BOB, CYD = WorkerId("ada"), WorkerId("bob"), WorkerId("cyd")
CREW = [WorkerId(f"worker-{number}") for number in range(6)]

repeatable = settings(derandomize=True, deadline=None)
all_strategies = pytest.mark.parametrize("strategy", list(PlacementStrategy))


def placement_with(strategy: PlacementStrategy, *worker_ids: WorkerId) -> Placement:
    placement = make_placement(strategy)
    for worker_id in worker_ids:
        placement.add(worker_id, free=1)
    return placement


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        (PlacementStrategy.RENDEZVOUS, Rendezvous),
        (PlacementStrategy.ROUND_ROBIN, RoundRobin),
        (PlacementStrategy.MOST_FREE, MostFree),
    ],
)
def test_a_strategy_is_made_by_its_name(strategy: PlacementStrategy, kind: type[object]) -> None:
    assert type(make_placement(strategy)) is kind


@all_strategies
def test_an_empty_placement_chooses_nobody(strategy: PlacementStrategy) -> None:
    placement = make_placement(strategy)
    assert placement.choose("key") is None
    assert placement.choose("key", {ADA}) is None
    assert len(placement) == 0


@all_strategies
def test_the_only_worker_is_chosen_for_every_key(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    assert {placement.choose(f"key-{number}") for number in range(10)} == {ADA}


@all_strategies
def test_a_worker_is_contained_from_add_to_remove(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA, BOB)
    assert ADA in placement
    assert BOB in placement
    assert CYD not in placement
    assert object() not in placement
    placement.remove(ADA)
    assert ADA not in placement
    assert len(placement) == 1


@all_strategies
def test_adding_a_worker_twice_is_an_error_and_changes_nothing(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    with pytest.raises(ValueError, match="'ada' is already there"):
        placement.add(ADA, free=5)
    assert len(placement) == 1
    placement.remove(ADA)
    assert placement.choose("key") is None


@all_strategies
def test_removing_a_worker_that_is_not_there_is_an_error(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    with pytest.raises(KeyError):
        placement.remove(BOB)
    placement.remove(ADA)
    with pytest.raises(KeyError):
        placement.remove(ADA)


@all_strategies
def test_setting_the_room_of_a_worker_that_is_not_there_is_an_error(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    with pytest.raises(KeyError):
        placement.set_free(BOB, free=1)
    assert BOB not in placement
    assert len(placement) == 1


@all_strategies
def test_a_worker_without_room_is_chosen_when_there_is_no_other(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    placement.set_free(ADA, free=0)
    assert placement.choose("key") == ADA


@all_strategies
def test_an_excluded_worker_is_never_chosen(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA, BOB, CYD)
    assert {placement.choose(f"key-{number}", [ADA, CYD]) for number in range(20)} == {BOB}


@all_strategies
def test_nobody_is_chosen_when_all_are_excluded(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA, BOB)
    assert placement.choose("key", {ADA, BOB, CYD}) is None


@all_strategies
def test_excluding_a_worker_holds_for_one_choice_only(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    assert placement.choose("key", {ADA}) is None
    assert placement.choose("key") == ADA


@all_strategies
def test_excluding_workers_that_are_not_there_has_no_effect(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    assert placement.choose("key", {BOB, CYD}) == ADA


@all_strategies
def test_a_key_that_is_not_valid_unicode_is_a_key_like_any_other(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, ADA)
    assert placement.choose("a/path/\udcff.parquet") == ADA


@all_strategies
def test_every_worker_is_chosen_sooner_or_later(strategy: PlacementStrategy) -> None:
    placement = placement_with(strategy, *CREW)
    assert {placement.choose(f"key-{number}") for number in range(100)} == set(CREW)


@all_strategies
@repeatable
@given(
    steps=st.lists(st.tuples(st.sampled_from(CREW), st.booleans(), st.integers(-1, 3), st.integers(0, 63)), max_size=20)
)
def test_a_choice_is_there_and_not_excluded_and_none_only_when_nobody_is_left(
    strategy: PlacementStrategy, steps: list[tuple[WorkerId, bool, int, int]]
) -> None:
    placement = make_placement(strategy)
    there: set[WorkerId] = set()
    for worker_id, stays, free, excluded_bits in steps:
        if worker_id not in there:
            placement.add(worker_id, free)
            there.add(worker_id)
        elif stays:
            placement.set_free(worker_id, free)
        else:
            placement.remove(worker_id)
            there.remove(worker_id)
        excluded = {one for index, one in enumerate(CREW) if excluded_bits >> index & 1}
        chosen = placement.choose(f"key-{excluded_bits}", excluded)
        if chosen is None:
            assert there <= excluded
        else:
            assert chosen in there - excluded
        assert len(placement) == len(there)
        assert {worker_id for worker_id in CREW if worker_id in placement} == there
