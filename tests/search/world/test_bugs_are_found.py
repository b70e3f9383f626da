"""The simulation of recruiting is worth its time: a bug put in on purpose is found soon, and told in fitting words."""

import pytest

from quarterdeck.search.world.scenario import generate
from quarterdeck.search.world.world import Outcome, play
from tests.search.world.bugs import BUGS, Bug

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
    with bug.make():
        found = find(bug)
    print(f"{bug.name}: seed {found.scenario.seed}: {found.violation}")
    assert found.violation is not None
    assert any(words in found.violation for words in bug.words), found.violation
    assert play(found.scenario).violation is None
