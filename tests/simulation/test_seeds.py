"""Seeds and faults: all promises are kept, everything is met, and a seed always tells the same story."""

import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from quarterdeck.simulation.faults import FAULTS
from quarterdeck.simulation.runner import Summary, run_seeds
from quarterdeck.simulation.scenario import generate
from quarterdeck.simulation.world import play

_CHUNK = 25
_RETELL = "from tests.simulation.test_seeds import digests; print('\\n'.join(digests(range({0}, {1}))))"


def digests(seeds: Iterable[int]) -> list[str]:
    return [play(generate(seed)).trace.digest() for seed in seeds]


def digests_elsewhere(first: int, after: int, hash_seed: int) -> list[str]:
    """The same from a fresh interpreter in which strings hash differently."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join([".", *sys.path])}
    command = [sys.executable, "-c", _RETELL.format(first, after)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return told.stdout.split()


def no_failures(summary: Summary) -> bool:
    assert summary.failures == []
    return True


@pytest.mark.parametrize("first", range(0, 200, _CHUNK))
def test_all_promises_are_kept_whatever_happens(first: int) -> None:
    summary = run_seeds(range(first, first + _CHUNK), jobs=1)
    assert no_failures(summary)
    assert summary.seeds == _CHUNK
    assert summary.works > _CHUNK
    assert summary.ends["succeeded"] > _CHUNK


@pytest.mark.parametrize("kind", FAULTS)
def test_all_promises_are_kept_with_each_fault_alone(kind: str) -> None:
    summary = run_seeds(range(1000, 1010), (kind,), jobs=1)
    assert no_failures(summary)
    assert set(summary.faults) - {"query asked"} == {kind}


def test_without_faults_nothing_is_lost_and_every_query_ends_as_its_client_and_its_works_say() -> None:
    summary = run_seeds(range(10), (), jobs=1)
    assert no_failures(summary)
    assert set(summary.faults) == {"query asked"}
    assert not [move for move, number in summary.moves.items() if number and "lose worker" in move]


def test_the_first_seeds_dial_both_ways_and_have_one_to_three_coordinators() -> None:
    scenarios = [generate(seed) for seed in range(200)]
    assert {scenario.coordinators_dial for scenario in scenarios} == {False, True}
    assert {scenario.coordinators for scenario in scenarios} == {1, 2, 3}
    assert {scenario.workers for scenario in scenarios} == {1, 2, 3, 4}
    assert {type(fault) for scenario in scenarios for fault in scenario.faults} == set(FAULTS.values())


def test_a_scenario_depends_on_the_faults_allowed_only_in_its_faults() -> None:
    for seed in range(50):
        everything, calm = generate(seed), generate(seed, ())
        assert calm.faults == ()
        assert calm.queries == everything.queries
        assert (calm.workers, calm.slots) == (everything.workers, everything.slots)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no fault called 'earthquake'; there are: crash, pause"):
        [generate(seed, ("earthquake",)) for seed in range(20)]


@pytest.fixture(scope="module")
def told() -> list[str]:
    return digests(range(30))


def test_a_seed_tells_the_same_story_again_here_and_in_another_interpreter(told: list[str]) -> None:
    assert digests(range(30)) == told
    assert digests_elsewhere(0, 30, hash_seed=12345) == told


def test_different_seeds_tell_different_stories(told: list[str]) -> None:
    assert len(set(told)) == 30


@pytest.mark.soak
@pytest.mark.parametrize("kind", FAULTS)
def test_all_promises_are_kept_for_hundreds_of_seeds_with_each_fault_alone(kind: str) -> None:
    assert no_failures(run_seeds(range(20_000, 20_300), (kind,), jobs=1))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 600, 100))
def test_hundreds_of_seeds_tell_the_same_story_in_two_other_interpreters(first: int) -> None:
    here = digests(range(first, first + 100))
    assert digests_elsewhere(first, first + 100, hash_seed=1) == here
    assert digests_elsewhere(first, first + 100, hash_seed=2) == here
