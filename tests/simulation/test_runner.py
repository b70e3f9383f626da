"""Many seeds: what they met adds up, and the run stops when something breaks or the time is over."""

import multiprocessing.resource_tracker
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

import pytest

from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WORKER_TABLE, WorkState, WorkTrigger
from quarterdeck.core.workcoord.worker.tables import ATTEMPT_TABLE, AttemptState, AttemptTrigger
from quarterdeck.simulation import runner
from quarterdeck.simulation.dramas import CREW
from quarterdeck.simulation.runner import Failure, Summary, run_seeds
from quarterdeck.simulation.scenario import Scenario, generate
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.world import Outcome
from tests.simulation.bugs import results_are_not_acknowledged


def outcome_of(scenario: Scenario, violation: str | None = None) -> Outcome:
    return Outcome(
        scenario,
        Trace(),
        violation,
        steps=100,
        virtual_s=20.0,
        works=3,
        moves=Counter({(WorkState.PENDING, WorkTrigger.ASSIGN): 2, (AttemptState.QUEUED, AttemptTrigger.START): 1}),
        faults=Counter({"crash": 1}),
        ends=Counter({"succeeded": 2}),
    )


@pytest.fixture
def broken_seeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nothing is really played; the seeds put into this list break a promise."""
    broken: list[int] = []

    def play(scenario: Scenario) -> Outcome:
        return outcome_of(scenario, "boom" if scenario.seed in broken else None)

    monkeypatch.setattr(runner, "CREW", replace(CREW, play=play))
    return broken


@pytest.fixture(scope="module")
def tracker() -> None:
    """Processes that are spawned share a helper process, which stays: it is not what a test leaves behind."""
    multiprocessing.resource_tracker.ensure_running()


def test_summaries_add_up() -> None:
    total, other = Summary(), Summary()
    total.add(outcome_of(generate(1)))
    other.add(outcome_of(generate(2), "boom"))
    other.add(outcome_of(generate(3)))
    total.merge(other)
    assert (total.seeds, total.steps, total.works, total.virtual_s) == (3, 300, 9, 60.0)
    assert total.failures == [Failure(2, "boom")]
    assert total.moves == {"work: pending, assign": 6, "attempt: queued, start": 3}
    assert total.faults == {"crash": 3}
    assert total.ends == {"succeeded": 6}


def test_what_was_not_met_is_named() -> None:
    summary = Summary()
    assert summary.unmet_moves() == CREW.moves()
    summary.add(outcome_of(generate(1)))
    met = {"work: pending, assign", "attempt: queued, start"}
    assert set(CREW.moves()) - set(summary.unmet_moves()) == met
    assert summary.unmet_faults(("crash", "pause")) == ["pause"]


def test_every_entry_of_the_tables_has_a_name_of_its_own() -> None:
    names = CREW.moves()
    assert len(names) == len(set(names)) == len(list(WORK_TABLE)) + len(list(WORKER_TABLE)) + len(list(ATTEMPT_TABLE))


def test_it_plays_each_seed_once_and_tells_how_far_it_is(broken_seeds: list[int]) -> None:
    seen: list[int] = []
    summary = run_seeds(range(5, 55), jobs=1, on_progress=lambda part: seen.append(part.seeds))
    assert summary.seeds == 50
    assert seen == [20, 40, 50]
    assert summary.wall_s > 0
    assert summary.failures == []


def test_it_stops_after_the_chunk_in_which_a_seed_breaks_a_promise(broken_seeds: list[int]) -> None:
    broken_seeds.extend([35, 27, 90])
    summary = run_seeds(count(), jobs=1)
    assert summary.seeds == 40
    assert [failure.seed for failure in summary.failures] == [27, 35]


def test_it_stops_when_the_minutes_are_over_but_not_before_the_first_chunk(broken_seeds: list[int]) -> None:
    assert run_seeds(count(), jobs=1, minutes=0.0).seeds == 20


def test_the_minutes_are_a_limit_not_a_goal(broken_seeds: list[int]) -> None:
    assert run_seeds(range(45), jobs=1, minutes=10.0).seeds == 45


def test_no_seeds_are_no_failure() -> None:
    assert run_seeds((), jobs=1).seeds == 0


def test_it_takes_as_many_processes_as_there_are_cores_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def parts(seeds: Iterator[int], kinds: Collection[str], jobs: int, drama: object) -> Iterator[Summary]:
        asked.append(jobs)
        return iter(())

    monkeypatch.setattr(runner, "_parts", parts)
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    run_seeds(range(3))
    run_seeds(range(3), jobs=2)
    monkeypatch.setattr("os.cpu_count", lambda: None)
    run_seeds(range(3))
    assert asked == [7, 2, 1]


@pytest.mark.usefixtures("tracker")
def test_two_processes_meet_the_same_as_one() -> None:
    one, two = run_seeds(range(30), jobs=1), run_seeds(range(30), jobs=2)
    one.wall_s = two.wall_s = 0.0
    one.virtual_s, two.virtual_s = round(one.virtual_s, 6), round(two.virtual_s, 6)
    assert one == two
    assert one.seeds == 30


def test_a_real_violation_is_a_failure_of_its_seed() -> None:
    with results_are_not_acknowledged():
        summary = run_seeds(range(3), jobs=1)
    assert summary.failures
    assert "protocol" in summary.failures[0].violation
