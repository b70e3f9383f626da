"""A failing scenario is made small, written down, and read again, and fails in the same way."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.simulation.faults import Crash, Cut, Drain, Fault
from quarterdeck.simulation.scenario import QueryLoad, Scenario, WorkLoad, from_json, generate
from quarterdeck.simulation.shrink import shrink
from quarterdeck.simulation.trace import Trace
from quarterdeck.simulation.world import Outcome, play
from tests.simulation.bugs import a_draining_worker_keeps_its_line


@pytest.fixture(scope="module")
def failing() -> Iterator[Outcome]:
    """A run that fails by a bug, with faults it needs and faults it does not; the bug stays in."""
    with a_draining_worker_keeps_its_line():
        for scenario in map(generate, range(40, 540)):  # the bug is known to show there
            outcome = play(scenario) if len(scenario.faults) > 2 else None
            if outcome is not None and outcome.violation is not None:
                yield outcome
                return
        raise AssertionError("the bug is not found")


@pytest.fixture(scope="module")
def smallest(failing: Outcome) -> Outcome:
    return shrink(failing, max_plays=10_000)


def test_the_smallest_scenario_fails_with_no_more_than_the_original(failing: Outcome, smallest: Outcome) -> None:
    original = failing.scenario
    assert smallest.violation is not None
    assert set(smallest.scenario.faults) <= set(original.faults)
    assert len(smallest.scenario.faults) < len(original.faults)
    assert len(smallest.scenario.queries) <= len(original.queries)
    assert smallest.scenario.workers <= original.workers
    assert smallest.scenario.coordinators <= original.coordinators


def test_the_smallest_scenario_needs_each_of_its_faults_and_queries(smallest: Outcome) -> None:
    scenario = smallest.scenario
    assert scenario.faults
    for fault in scenario.faults:
        assert play(replace(scenario, faults=tuple(f for f in scenario.faults if f is not fault))).violation is None
    for query in scenario.queries:
        assert play(replace(scenario, queries=tuple(q for q in scenario.queries if q is not query))).violation is None


def test_shrinking_stops_at_its_limit_with_what_it_has(failing: Outcome) -> None:
    plays: list[Scenario] = []

    def counted(scenario: Scenario) -> Outcome:
        plays.append(scenario)
        return play(scenario)

    few = shrink(failing, counted, max_plays=3)
    assert len(plays) == 3
    assert few.violation is not None
    assert shrink(failing, counted, max_plays=0) is failing


def test_a_replayed_scenario_fails_in_the_same_way(failing: Outcome) -> None:
    again = play(from_json(failing.scenario.to_json()))
    assert again.violation == failing.violation
    assert again.work_id == failing.work_id
    assert again.trace.digest() == failing.trace.digest()


# What shrinking does, told by a rule instead of a run


def _scenario(*faults: Fault, queries: int = 3) -> Scenario:
    load = QueryLoad(1.0, "c0", (WorkLoad(0.1), WorkLoad(0.2), WorkLoad(0.3)))
    return replace(
        generate(0),
        coordinators=3,
        workers=4,
        queries=(load,) * queries,
        faults=faults,
    )


def test_everything_that_the_failure_does_not_need_goes() -> None:
    crash = Crash(1.0, "w1", 1.0)

    def fails_with_the_crash(scenario: Scenario) -> Outcome:
        return Outcome(scenario, Trace(), violation="boom" if crash in scenario.faults else None)

    original = _scenario(Drain(0.5, "w3", "c2", 1.0), crash, Cut(2.0, "c1", "w2", half_open=True))
    smallest = shrink(fails_with_the_crash(original), fails_with_the_crash).scenario
    assert smallest.faults == (crash,)
    assert smallest.queries == ()
    assert (smallest.coordinators, smallest.workers) == (1, 2)  # w1 has to be there


def test_hosts_that_a_fault_or_query_names_stay() -> None:
    cut, drain = Cut(1.0, "c1", "w2", half_open=False), Drain(1.0, "w0", "c2", 1.0)

    def fails_with_both(scenario: Scenario) -> Outcome:
        failing = {cut, drain} <= set(scenario.faults)
        return Outcome(scenario, Trace(), violation="boom" if failing else None)

    smallest = shrink(fails_with_both(_scenario(cut, drain)), fails_with_both).scenario
    assert (smallest.coordinators, smallest.workers) == (3, 3)


def test_works_go_one_by_one_until_a_query_has_one_left() -> None:
    def fails_with_a_query(scenario: Scenario) -> Outcome:
        return Outcome(scenario, Trace(), violation="boom" if scenario.queries else None)

    smallest = shrink(fails_with_a_query(_scenario()), fails_with_a_query).scenario
    assert [len(query.works) for query in smallest.queries] == [1]


# Writing down


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_a_scenario_is_read_as_it_was_written(seed: int) -> None:
    scenario = generate(seed)
    assert from_json(scenario.to_json()) == scenario


def _changed(**changes: object) -> str:
    return json.dumps(json.loads(generate(3).to_json()) | changes)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "not a scenario"),
        ("{", "not a scenario"),
        ("[]", "not a scenario"),
        ("null", "not a scenario"),
        ("{}", "a scenario lacks seed, coordinators, workers, slots, queue_places, coordinators_dial, queries"),
        (_changed(queries=3), "not a scenario"),
        (_changed(queries=[{"at_s": 1}]), "one of queries of a scenario lacks coordinator, works"),
        (_changed(queries=[{"at_s": 1, "coordinator": "c0", "works": [{"speed": 1}]}]), "has no speed"),
        (_changed(faults=[{"fault": "earthquake"}]), "'earthquake' is no kind of fault; there are: crash, pause"),
        (_changed(faults=[{"at_s": 1.0}]), "None is no kind of fault"),
        (_changed(faults=[{"fault": "crash", "at_s": 1.0}]), "host"),
        (_changed(faults=[{"fault": "lost-reply", "at_s": 1.0, "host": "w0", "reply": "hello"}]), "hello"),
        (_changed(faults=[{"fault": "eviction", "at_s": 1.0, "host": "w99"}]), "it has no host w99"),
        (_changed(colour="red"), "a scenario has no colour"),
        (_changed(slots="2"), "slots of a scenario is '2', and not a whole number"),
        (_changed(slots=True), "slots of a scenario is True, and not a whole number"),
        (_changed(coordinators_dial=1), "coordinators_dial of a scenario is 1, and not true or false"),
        (_changed(faults=[{"fault": "crash", "at_s": "soon", "host": "w0", "down_s": 1}]), "'soon', and not a number"),
        (_changed(faults={}), "faults is {}, and not a list"),
        ("[" * 100_000, "not a scenario"),
    ],
)
def test_anything_else_is_no_scenario_and_the_error_says_why(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_json(text)
