"""The simulator is worth its time: a bug put in on purpose is found soon, and told in words that fit."""

import pytest

from quarterdeck.simulation.scenario import generate
from quarterdeck.simulation.world import Outcome, play
from tests.simulation.bugs import BUGS, Bug

_SEEDS = 500


def find(bug: Bug) -> Outcome:
    """The first seed, in order from where the bug is known to show, that shows it."""
    for seed in range(bug.first, bug.first + _SEEDS):
        outcome = play(generate(seed, bug.kinds))
        if outcome.violation is not None:
            return outcome
    raise AssertionError(f"{bug.name} is not found in {_SEEDS} seeds")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_bug_is_found(bug: Bug) -> None:
    with bug.setting():
        with bug.make():
            found = find(bug)
        seed, violation = found.scenario.seed, found.violation
        print(f"{bug.name}: seed {seed}: {violation}")
        assert violation is not None
        assert any(words in violation for words in bug.words), violation
        assert play(found.scenario).violation is None
