"""Spreading over nodes: always as many as there are, as evenly as the nodes allow."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement import spread_over_nodes

repeatable = settings(derandomize=True, deadline=None)
node_sizes = st.lists(st.integers(0, 4), max_size=4)


def pool(*sizes: int) -> dict[str, list[WorkerId]]:
    return {f"n{node}": [WorkerId(f"n{node}/{index}") for index in range(size)] for node, size in enumerate(sizes)}


def taken_by_node(workers: list[WorkerId], nodes: int) -> list[int]:
    owners = [worker_id.partition("/")[0] for worker_id in workers]
    return [owners.count(f"n{node}") for node in range(nodes)]


def most_even_split(sizes: list[int], number: int) -> list[int]:
    """Try all splits. The most even one gives the poorest node the most, then the next poorest, and so on."""
    total = min(number, sum(sizes))
    splits = product(*(range(size + 1) for size in sizes))
    return max(sorted(split) for split in splits if sum(split) == total)


@pytest.mark.parametrize("number", [0, -1])
def test_asking_for_less_than_one_worker_is_an_error(number: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        spread_over_nodes(pool(1), number)


def test_an_empty_pool_gives_nobody() -> None:
    assert spread_over_nodes({}, 3) == []
    assert spread_over_nodes(pool(0, 0), 3) == []


def test_a_small_node_does_not_keep_a_big_one_from_giving_the_rest() -> None:
    assert taken_by_node(spread_over_nodes(pool(1, 5), 4), 2) == [1, 3]


def test_asking_for_more_than_there_are_gives_all() -> None:
    assert sorted(spread_over_nodes(pool(2, 3), 9)) == ["n0/0", "n0/1", "n1/0", "n1/1", "n1/2"]


def test_each_node_gives_one_before_any_gives_two() -> None:
    assert spread_over_nodes(pool(2, 2, 2), 4) == ["n0/0", "n1/0", "n2/0", "n0/1"]


def test_what_is_left_over_comes_from_the_nodes_with_most_workers() -> None:
    assert spread_over_nodes(pool(1, 3, 2), 2) == ["n1/0", "n2/0"]


def test_sixteen_nodes_of_twenty_give_a_small_search_no_siblings() -> None:
    assert taken_by_node(spread_over_nodes(pool(*[20] * 16), 16), 16) == [1] * 16


def test_taking_again_and_again_empties_equal_nodes_evenly() -> None:
    free = pool(*[20] * 16)
    for _ in range(40):
        taken = spread_over_nodes(free, 3)
        assert max(taken_by_node(taken, 16)) == 1
        free = {node: [one for one in workers if one not in taken] for node, workers in free.items()}
    sizes = [len(workers) for workers in free.values()]
    assert max(sizes) - min(sizes) <= 1


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_the_spread_is_as_even_as_the_most_even_of_all_splits(sizes: list[int], number: int) -> None:
    taken = taken_by_node(spread_over_nodes(pool(*sizes), number), len(sizes))
    assert sorted(taken) == most_even_split(sizes, number)


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_no_node_gives_two_more_than_one_that_has_workers_left(sizes: list[int], number: int) -> None:
    taken = taken_by_node(spread_over_nodes(pool(*sizes), number), len(sizes))
    with_workers_left = [got for got, size in zip(taken, sizes, strict=True) if got < size]
    assert all(max(taken) - got <= 1 for got in with_workers_left)


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_there_are_always_as_many_as_asked_for_or_all_and_nobody_twice(sizes: list[int], number: int) -> None:
    workers = spread_over_nodes(pool(*sizes), number)
    assert len(workers) == len(set(workers)) == min(number, sum(sizes))


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_within_a_node_the_first_come_is_the_first_given_and_the_pool_is_left_as_it_was(
    sizes: list[int], number: int
) -> None:
    free = pool(*sizes)
    workers = spread_over_nodes(free, number)
    assert free == pool(*sizes)
    for node, there in free.items():
        given_away = [worker_id for worker_id in workers if worker_id.startswith(f"{node}/")]
        assert given_away == there[: len(given_away)]


@repeatable
@given(sizes=node_sizes, number=st.integers(2, 18))
def test_asking_for_fewer_gives_the_beginning_of_the_same_answer(sizes: list[int], number: int) -> None:
    assert spread_over_nodes(pool(*sizes), number - 1) == spread_over_nodes(pool(*sizes), number)[: number - 1]
