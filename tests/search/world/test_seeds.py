"""Recruiting under faults: all promises are kept, everything is met, and a seed always tells the same story."""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace

import pytest

from quarterdeck.search.world.drama import RECRUITING
from quarterdeck.search.world.faults import FAULTS, Wedge
from quarterdeck.search.world.scenario import generate, only_outages
from quarterdeck.search.world.world import play
from quarterdeck.simulation.faults import Crash, Shutdown
from quarterdeck.simulation.runner import Summary, run_seeds

_CHUNK = 25
_RETELL = "from tests.search.world.test_seeds import digests; print('\\n'.join(digests(range({0}, {1}))))"


def digests(seeds: Iterable[int]) -> list[str]:
    return [play(generate(seed)).trace.digest() for seed in seeds]


def digests_elsewhere(first: int, after: int, hash_seed: int) -> list[str]:
    """The same from a fresh interpreter in which strings hash differently."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join([".", *sys.path])}
    command = [sys.executable, "-c", _RETELL.format(first, after)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return told.stdout.split()


def run(seeds: range, kinds: Iterable[str] | None = None) -> Summary:
    """All of them, and no promise was broken."""
    summary = run_seeds(seeds, None if kinds is None else tuple(kinds), drama=RECRUITING, jobs=1)
    assert summary.failures == []
    assert summary.seeds == len(seeds)
    return summary


@pytest.mark.parametrize("first", range(0, 100, _CHUNK))
def test_all_promises_are_kept_whatever_happens(first: int) -> None:
    summary = run(range(first, first + _CHUNK))
    assert summary.works > 10 * _CHUNK
    assert summary.ends["done"] > _CHUNK
    assert summary.faults["reservations"] > _CHUNK


@pytest.mark.parametrize("kind", FAULTS)
def test_all_promises_are_kept_with_each_fault_alone(kind: str) -> None:
    summary = run(range(1000, 1003), (kind,))
    assert set(summary.faults) & set(FAULTS) == {kind}


def test_without_faults_nobody_is_lost_or_refused_and_each_chunk_is_searched_once() -> None:
    for seed in range(10):
        scenario = generate(seed, ())
        searches = tuple(replace(search, deadly=None, refused=None) for search in scenario.searches)
        outcome = play(replace(scenario, searches=searches))
        assert outcome.violation is None
        assert not {"workers lost", "searches refused", "chunks given up", *FAULTS} & set(outcome.faults)
        assert set(outcome.ends) <= {"done", "canceled"}


def test_workers_are_back_within_a_second_of_a_short_outage_of_their_recruiter() -> None:
    seen = 0
    for seed in range(400):
        scenario = generate(seed)
        if (
            scenario.faults
            and only_outages(scenario)
            and all(isinstance(fault, Crash | Shutdown) and fault.down_s < 0.5 for fault in scenario.faults)
        ):
            outcome = play(scenario)
            assert outcome.violation is None
            assert outcome.faults["back in time"] == len(scenario.faults)
            seen += 1
            if seen == 5:
                return
    raise AssertionError("there are too few of them")


def test_a_root_that_hangs_for_ever_does_not_keep_its_workers() -> None:
    hung = [scenario for scenario in (generate(seed, ("wedge",)) for seed in range(12)) if scenario.faults]
    assert all(isinstance(fault, Wedge) for scenario in hung for fault in scenario.faults)
    for scenario in hung:
        assert play(scenario).violation is None


def test_the_first_seeds_have_everything() -> None:
    scenarios = [generate(seed) for seed in range(200)]
    assert {scenario.recruiters for scenario in scenarios} == {1, 2}
    assert {scenario.roots for scenario in scenarios} == {1, 2, 3}
    assert {len(scenario.workers) for scenario in scenarios} == {1, 2, 3, 4, 6}
    assert {type(fault) for scenario in scenarios for fault in scenario.faults} == set(FAULTS.values())
    assert any(only_outages(scenario) and scenario.faults for scenario in scenarios)


def test_a_scenario_depends_on_the_faults_allowed_only_in_its_faults() -> None:
    for seed in range(50):
        everything, calm = generate(seed), generate(seed, ())
        assert calm.faults == ()
        assert replace(everything, faults=()) == calm


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no fault called 'earthquake'; there are: crash, pause"):
        [generate(seed, ("earthquake",)) for seed in range(20)]


def test_a_seed_tells_the_same_story_again_here_and_in_another_interpreter() -> None:
    first = digests(range(6))
    assert len(set(first)) == 6
    assert digests(range(6)) == first
    assert digests_elsewhere(0, 6, hash_seed=12345) == first


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_all_promises_are_kept_for_a_thousand_seeds(first: int) -> None:
    run(range(first, first + 250))


@pytest.mark.soak
def test_a_thousand_seeds_meet_every_transition_and_every_fault() -> None:
    summary = run_seeds(range(1000), drama=RECRUITING)
    assert summary.failures == []
    assert summary.unmet_moves(RECRUITING) == []
    assert summary.unmet_faults(tuple(FAULTS)) == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", FAULTS)
def test_all_promises_are_kept_for_a_hundred_seeds_with_each_fault_alone(kind: str) -> None:
    run(range(20_000, 20_100), (kind,))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_hundreds_of_seeds_tell_the_same_story_in_two_other_interpreters(first: int) -> None:
    here = digests(range(first, first + 100))
    assert digests_elsewhere(first, first + 100, hash_seed=1) == here
    assert digests_elsewhere(first, first + 100, hash_seed=2) == here
