"""Spreading over nodes: always as many as there are, as evenly as the nodes allow, at the cost of what is chosen."""

from collections import Counter
from collections.abc import Collection
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.core.placement import SpreadPool, choose_from

repeatable = settings(derandomize=True, deadline=None)
node_sizes = st.lists(st.integers(0, 4), max_size=4)


def pool(*sizes: int, mark: str = "") -> SpreadPool[str]:
    """So many workers on each node, named by node and number; nodes and workers take turns in coming."""
    filled: SpreadPool[str] = SpreadPool()
    for index in range(max(sizes, default=0)):
        for node, size in enumerate(sizes):
            if index < size:
                filled.add(f"n{node}/{mark}{index}", f"n{node}")
    return filled


def node_of(worker: str) -> str:
    return worker.partition("/")[0]


def taken_by_node(workers: list[str], nodes: int) -> list[int]:
    owners = Counter(map(node_of, workers))
    return [owners[f"n{node}"] for node in range(nodes)]


def most_even_split(sizes: list[int], number: int) -> list[int]:
    """Try all splits. The most even one gives the poorest node the most, then the next poorest, and so on."""
    total = min(number, sum(sizes))
    splits = product(*(range(size + 1) for size in sizes))
    return max(sorted(split) for split in splits if sum(split) == total)


def take(free: SpreadPool[str], number: int) -> list[str]:
    chosen = free.choose(number)
    for worker in chosen:
        free.remove(worker)
    return chosen


@pytest.mark.parametrize("number", [0, -1])
def test_asking_for_less_than_one_worker_is_an_error(number: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        pool(1).choose(number)


def test_an_empty_pool_gives_nobody() -> None:
    assert pool().choose(3) == []
    assert choose_from((), 3) == []


def test_a_worker_is_added_once_and_removed_once() -> None:
    free = pool(1)
    assert "n0/0" in free
    with pytest.raises(ValueError, match="'n0/0' is already there"):
        free.add("n0/0", "elsewhere")
    free.remove("n0/0")
    assert "n0/0" not in free
    assert (len(free), free.node_count, list(free.nodes())) == (0, 0, [])
    with pytest.raises(KeyError):
        free.remove("n0/0")
    free.add("n0/0", "elsewhere")
    assert list(free.workers_on("elsewhere")) == ["n0/0"]
    assert list(free.workers_on("n0")) == []


def test_a_small_node_does_not_keep_a_big_one_from_giving_the_rest() -> None:
    assert taken_by_node(pool(1, 5).choose(4), 2) == [1, 3]


def test_asking_for_more_than_there_are_gives_all() -> None:
    assert sorted(pool(2, 3).choose(10**30)) == ["n0/0", "n0/1", "n1/0", "n1/1", "n1/2"]


def test_each_node_gives_one_before_any_gives_two() -> None:
    assert pool(2, 2, 2).choose(4) == ["n0/0", "n1/0", "n2/0", "n0/1"]


def test_what_is_left_over_comes_from_the_nodes_with_most_workers() -> None:
    assert pool(1, 3, 2).choose(2) == ["n1/0", "n2/0"]
    assert pool(2, 3, 1, 4).choose(5) == ["n3/0", "n1/0", "n0/0", "n2/0", "n3/1"]


def test_nodes_with_equally_many_take_turns() -> None:
    free = pool(1, 1, 1)
    turns: list[str] = []
    for _ in range(6):
        (worker,) = take(free, 1)
        turns.append(node_of(worker))
        free.add(worker, node_of(worker))
    assert turns == ["n0", "n1", "n2", "n0", "n1", "n2"]


def test_within_a_node_whoever_comes_back_stands_at_the_end() -> None:
    free = pool(3)
    free.remove("n0/1")
    free.add("n0/1", "n0")
    assert free.choose(3) == ["n0/0", "n0/2", "n0/1"]


def test_siblings_are_rare_on_sixteen_nodes_of_twenty_while_searches_come_and_go() -> None:
    """The figure that the original was judged by: siblings of a worker on its node, on average, for small searches."""
    chance, free = Random(1), pool(*[20] * 16)
    running: list[list[str]] = []
    siblings = recruited = 0
    for _ in range(2000):
        chosen = take(free, chance.randint(1, 8))
        running.append(chosen)
        recruited += len(chosen)
        siblings += sum(count * (count - 1) for count in Counter(map(node_of, chosen)).values())
        while len(running) > 20:
            for worker in running.pop(chance.randrange(len(running))):
                free.add(worker, node_of(worker))
    assert recruited > 8000
    assert siblings / recruited < 0.1


def test_taking_again_and_again_empties_equal_nodes_evenly() -> None:
    free = pool(*[20] * 16)
    for _ in range(40):
        assert max(taken_by_node(take(free, 3), 16)) == 1
    sizes = [len(free.workers_on(f"n{node}")) for node in range(16)]
    assert max(sizes) - min(sizes) <= 1


class CountingPool(SpreadPool[str]):
    """Counts how often somebody looks at a node."""

    looks = 0

    def workers_on(self, node: str) -> Collection[str]:
        self.looks += 1
        return super().workers_on(node)


def test_a_choice_looks_at_no_more_nodes_than_it_takes_workers() -> None:
    free = CountingPool()
    for node in range(5000):
        free.add(f"n{node}/0", f"n{node}")
    assert len(free.choose(10)) == 10
    assert free.looks <= 20


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_the_spread_is_as_even_as_the_most_even_of_all_splits(sizes: list[int], number: int) -> None:
    taken = taken_by_node(pool(*sizes).choose(number), len(sizes))
    assert sorted(taken) == most_even_split(sizes, number)


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_no_node_gives_two_more_than_one_that_has_workers_left(sizes: list[int], number: int) -> None:
    taken = taken_by_node(pool(*sizes).choose(number), len(sizes))
    with_workers_left = [got for got, size in zip(taken, sizes, strict=True) if got < size]
    assert all(max(taken) - got <= 1 for got in with_workers_left)


@repeatable
@given(sizes=node_sizes, number=st.integers(1, 18))
def test_within_a_node_the_first_come_is_the_first_chosen_and_nobody_is_taken_out(
    sizes: list[int], number: int
) -> None:
    free = pool(*sizes)
    workers = free.choose(number)
    assert len(workers) == len(set(workers)) == min(number, sum(sizes))
    assert len(free) == sum(sizes)
    for node in range(len(sizes)):
        there = list(free.workers_on(f"n{node}"))
        chosen = [worker for worker in workers if node_of(worker) == f"n{node}"]
        assert chosen == there[: len(chosen)]


@repeatable
@given(sizes=node_sizes, number=st.integers(2, 18))
def test_asking_for_fewer_gives_a_beginning_that_is_as_even(sizes: list[int], number: int) -> None:
    fewer = pool(*sizes).choose(number)[: number - 1]
    assert sorted(taken_by_node(fewer, len(sizes))) == most_even_split(sizes, number - 1)


@repeatable
@given(sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4), number=st.integers(1, 20))
def test_two_pools_together_are_spread_as_evenly_as_one(sizes: list[tuple[int, int]], number: int) -> None:
    first, second = (pool(*(size[one] for size in sizes), mark="ab"[one]) for one in (0, 1))
    workers = choose_from((first, second), number)
    assert len(workers) == len(set(workers))
    together = [sum(size) for size in sizes]
    assert sorted(taken_by_node(workers, len(sizes))) == most_even_split(together, number)
    for node, (of_first, _) in enumerate(sizes):
        chosen = [worker for worker in workers if node_of(worker) == f"n{node}"]
        assert sum("a" in worker for worker in chosen) == min(of_first, len(chosen)), "the earlier pool gives first"


@repeatable
@given(steps=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), max_size=60), number=st.integers(1, 15))
def test_whatever_came_and_went_the_spread_is_that_of_who_is_there(steps: list[tuple[int, int]], number: int) -> None:
    free: SpreadPool[str] = SpreadPool()
    there: dict[str, str] = {}
    for worker, node in steps:
        name = f"w{worker}"
        if name in there:
            free.remove(name)
            del there[name]
        else:
            free.add(name, f"n{node}")
            there[name] = f"n{node}"
    sizes = Counter(there.values())
    assert (len(free), free.node_count) == (len(there), len(sizes))
    assert [sizes[node] for node in free.nodes()] == sorted(sizes.values(), reverse=True)
    counts = Counter(there[worker] for worker in free.choose(number))
    assert sorted(counts[node] for node in sizes) == most_even_split(list(sizes.values()), number)
