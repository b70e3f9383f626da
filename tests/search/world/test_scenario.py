"""A scenario of recruiting is written down, read again, and made small."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.search.world.faults import Wedge
from quarterdeck.search.world.scenario import Scenario, from_json, generate, smaller
from quarterdeck.search.world.world import Outcome, play
from quarterdeck.simulation.shrink import shrink_with
from quarterdeck.simulation.trace import Trace
from tests.search.world.bugs import a_root_that_hangs_keeps_its_worker


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_a_scenario_is_read_as_it_was_written(seed: int) -> None:
    scenario = generate(seed)
    assert from_json(scenario.to_json()) == scenario


def changed(**changes: object) -> str:
    return json.dumps(json.loads(generate(3).to_json()) | changes)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "not a scenario"),
        ("[]", "not a scenario"),
        ("{}", "a scenario lacks seed, recruiters, workers"),
        (changed(searches=3), "not a scenario"),
        (changed(searches=[{"at_s": 1}]), "one of searches of a scenario lacks root, chunks, max_workers"),
        (changed(workers=[{"colour": "red"}]), "colour"),
        (changed(faults=[{"fault": "earthquake"}]), "'earthquake' is no kind of fault"),
        (
            changed(faults=[{"fault": "lost-reply", "at_s": 1.0, "host": "w0", "reply": "hello", "silently": True}]),
            "hello",
        ),
        (changed(faults=[{"fault": "wedge", "at_s": 1.0, "host": "s99"}]), "it has no host s99"),
        (changed(colour="red"), "colour"),
    ],
)
def test_anything_else_is_no_scenario_and_the_error_says_why(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_json(text)


def test_everything_that_the_failure_does_not_need_goes() -> None:
    wedge = Wedge(1.0, "s0")
    original = next(s for s in map(generate, range(500)) if s.roots == 3 and s.recruiters == 2 and len(s.faults) > 3)

    def fails_with_a_search(scenario: Scenario) -> Outcome:
        return Outcome(
            scenario, Trace(), violation="boom" if scenario.searches and wedge not in scenario.faults else None
        )

    smallest = shrink_with(fails_with_a_search(original), fails_with_a_search, smaller).scenario
    assert smallest.faults == ()
    assert [len(search.chunks) for search in smallest.searches] == [1]
    assert (smallest.recruiters, len(smallest.workers)) == (1, 1)


def test_a_failing_run_is_made_small_and_fails_in_the_same_way_when_it_is_replayed() -> None:
    with a_root_that_hangs_keeps_its_worker():
        failing = next(
            o for o in (play(generate(seed, ("wedge", "busy", "cut"))) for seed in range(100)) if o.violation
        )
        smallest = shrink_with(failing, play, smaller, max_plays=40)
        again = play(from_json(smallest.scenario.to_json()))
    assert smallest.violation is not None
    assert len(smallest.scenario.faults) <= len(failing.scenario.faults)
    assert any(isinstance(fault, Wedge) for fault in smallest.scenario.faults)
    assert again.violation == smallest.violation
    assert again.trace.digest() == smallest.trace.digest()
