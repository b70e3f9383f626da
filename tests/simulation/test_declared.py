"""Declared things in the simulator: all promises are kept, everything is met, and bugs put in on purpose are found."""

import pytest

from quarterdeck.simulation.declared.drama import DECLARED
from quarterdeck.simulation.declared.faults import FAULTS
from quarterdeck.simulation.declared.scenario import from_json, generate, smaller
from quarterdeck.simulation.declared.world import ENDED_BY_A_THING, Outcome, play
from quarterdeck.simulation.runner import run_seeds
from tests.simulation.declared_bugs import BUGS, Bug

_SEEDS = 60
"""So many from the first that is known to show a bug: drawing scenarios otherwise moves it."""


def test_all_promises_are_kept_whatever_happens() -> None:
    summary = run_seeds(range(24), drama=DECLARED, jobs=1)
    assert summary.failures == []
    assert summary.works > 50
    assert summary.ends["held"] > 15
    assert summary.ends["gone"] > 15
    assert summary.faults[ENDED_BY_A_THING] > 10


@pytest.mark.parametrize("kind", FAULTS)
def test_all_promises_are_kept_with_each_fault_alone(kind: str) -> None:
    summary = run_seeds(range(1000, 1002), (kind,), drama=DECLARED, jobs=1)
    assert summary.failures == []
    assert set(summary.faults) - {"group declared", ENDED_BY_A_THING} == {kind}


def test_a_seed_always_tells_the_same_story() -> None:
    for seed in range(2):
        assert play(generate(seed)).trace.digest() == play(generate(seed)).trace.digest()


def test_a_scenario_can_be_kept_and_made_smaller() -> None:
    for seed in range(30):
        scenario = generate(seed)
        assert from_json(scenario.to_json()) == scenario
        for one in smaller(scenario):
            assert from_json(one.to_json()) == one != scenario
    with pytest.raises(ValueError, match="this is not a scenario"):
        from_json('{"seed": 1}')
    with pytest.raises(ValueError, match="no host"):
        from_json(generate(0).to_json().replace('"c0"', '"c9"'))


def find(bug: Bug) -> Outcome:
    for seed in range(bug.first, bug.first + _SEEDS):
        outcome = play(generate(seed, bug.kinds))
        if outcome.violation is not None:
            return outcome
    raise AssertionError(f"{bug.name} is not found")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_bug_is_found(bug: Bug) -> None:
    with bug.make():
        found = find(bug)
    assert found.violation is not None
    assert any(words in found.violation for words in bug.words), found.violation
    assert play(found.scenario).violation is None
