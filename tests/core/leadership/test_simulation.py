"""Candidates that pause, crash and end, over a store that is slow and loses requests and answers."""

from collections.abc import Callable, Iterator

import pytest

from quarterdeck.core.leadership.machine import CandidateMachine
from quarterdeck.core.leadership.model import LeaseConfig
from tests.core.leadership.bugs import MACHINES, STORES
from tests.core.leadership.stage import STORM, BrokenPromiseError, Stage, Store, Trouble

SEEDS = 40
SOAK_SEEDS = 2000
SEEDS_FOR_BUGS = 120
UNTIL = 420.0


def stages(
    seeds: int,
    machine: Callable[[LeaseConfig], CandidateMachine] = CandidateMachine,
    store: Callable[[], Store] = Store,
) -> Iterator[Stage]:
    for seed in range(seeds):
        for trouble in (STORM, Trouble()):
            yield Stage(seed, trouble=trouble, machine=machine, store=store)


def play(all_of_them: Iterator[Stage]) -> None:
    for stage in all_of_them:
        stage.play(UNTIL)


@pytest.mark.parametrize(
    "seeds", [SEEDS, pytest.param(SOAK_SEEDS, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_one_leads_at_a_time_and_leadership_comes_back(seeds: int) -> None:
    gains = written = refused = 0
    for stage in stages(seeds):
        stage.play(UNTIL)
        assert len(stage.leaders()) == 1
        gains, written, refused = gains + stage.gains, written + stage.written, refused + stage.refused
    assert gains > 5 * seeds
    assert written > refused > seeds / 4, "the trouble was real"


@pytest.mark.parametrize("bug", MACHINES)
def test_a_candidate_with_a_mistake_is_found(bug: type[CandidateMachine]) -> None:
    with pytest.raises(BrokenPromiseError):
        play(stages(SEEDS_FOR_BUGS, machine=bug))


@pytest.mark.parametrize("bug", STORES)
def test_a_store_with_a_mistake_is_found(bug: type[Store]) -> None:
    with pytest.raises(BrokenPromiseError):
        play(stages(SEEDS_FOR_BUGS, store=bug))
