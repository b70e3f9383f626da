"""Workers that are killed all the time, and works that kill them: who is innocent is not taken for a poison."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import QueryId
from quarterdeck.simulation.faults import Crash, Fault, Poison
from quarterdeck.simulation.hosts import seeded
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.scenario import TROUBLE_S, QueryLoad, Scenario, WorkLoad, generate
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.world import World

_SEEDS = 25


def scenario(seed: int, *, kill_every_s: float | None = None, poisons: int = 0, poisonous_works: int = 1) -> Scenario:
    """One coordinator, some queries of short and long works, and these faults."""
    chance = random.Random(f"frequent kills {seed}")
    crew = replace(generate(seed, ()), coordinators=1, workers=chance.choice((3, 4, 6)), slots=2, queue_places=2)
    queries = tuple(
        QueryLoad(
            round(chance.uniform(0.0, 8.0), 3),
            "c0",
            tuple(
                WorkLoad(round(chance.choice((0.1, 0.5, 2.0)) * chance.uniform(0.5, 1.5), 3))
                for _ in range(chance.choice((1, 4, 16)))
            ),
        )
        for _ in range(6)
    )
    faults: list[Fault] = [
        Poison(round(chance.uniform(0.0, 8.0), 3), "c0", 0.5, poisonous_works) for _ in range(poisons)
    ]
    at_s = 0.5
    while kill_every_s is not None and at_s < TROUBLE_S - 2.0:
        faults.append(Crash(round(at_s, 3), chance.choice(crew.worker_hosts), round(chance.uniform(0.2, 1.5), 3)))
        at_s += chance.uniform(0.3, 1.7) * kill_every_s
    return replace(crew, queries=queries, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def played(scenario: Scenario) -> World:
    loop = SimulatedLoop(seeded(scenario.seed, "order"))
    world = World(scenario, loop, Trace())
    loop.after_callback = world.watcher.stop_if_violated
    try:
        loop.run_until_complete(world.play())
    finally:
        loop.close()
    return world


def is_poisonous(world: World, query_id: QueryId) -> bool:
    return bool(world.watcher.submitted[query_id] & world.watcher.poisonous)


def codes(world: World, *, of_poison: bool) -> Counter[str]:
    ended = world.watcher.ended.items()
    return Counter(
        "" if end.error is None else end.error.code
        for query_id, end in ended
        if is_poisonous(world, query_id) is of_poison
    )


@pytest.mark.parametrize("kill_every_s", [2.5, 1.0])
def test_under_frequent_kills_no_innocent_query_is_quarantined(kill_every_s: float) -> None:
    told: Counter[str] = Counter()
    for seed in range(_SEEDS):
        told += codes(played(scenario(seed, kill_every_s=kill_every_s)), of_poison=False)
    assert set(told) <= {"", ErrorCode.ATTEMPTS_EXHAUSTED}
    assert told[""] > 0.95 * told.total()


@pytest.mark.parametrize("works", [1, 16])
def test_a_poisonous_query_is_quarantined_and_every_other_one_gets_its_answer(works: int) -> None:
    """Also when all its works are poisonous, and run on all workers before the first of these has died."""
    for seed in range(_SEEDS):
        world = played(scenario(seed, poisons=1, poisonous_works=works))
        assert set(codes(world, of_poison=True)) == {ErrorCode.QUARANTINED}
        assert set(codes(world, of_poison=False)) == {""}, seed


def test_a_poison_among_frequent_kills_is_no_more_than_four_tries_and_costs_nobody_else_the_answer() -> None:
    for seed in range(_SEEDS):
        world = played(scenario(seed, kill_every_s=2.5, poisons=1))
        assert set(codes(world, of_poison=True)) <= {ErrorCode.QUARANTINED, ErrorCode.ATTEMPTS_EXHAUSTED}
        assert set(codes(world, of_poison=False)) == {""}, seed
