"""Making a failing scenario small: leave out what it does not need to fail, one thing at a time, again and again."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from quarterdeck.simulation.faults import hosts_of
from quarterdeck.simulation.outcome import AnyScenario, PlayOutcome
from quarterdeck.simulation.scenario import Scenario
from quarterdeck.simulation.world import Outcome, play

_T = TypeVar("_T")
_ScenarioT = TypeVar("_ScenarioT", bound=AnyScenario)
_MAX_PLAYS = 400


def shrink_with(
    outcome: PlayOutcome[_ScenarioT],
    play: Callable[[_ScenarioT], PlayOutcome[_ScenarioT]],
    smaller: Callable[[_ScenarioT], Iterator[_ScenarioT]],
    max_plays: int = _MAX_PLAYS,
) -> PlayOutcome[_ScenarioT]:
    """A failing run of the smallest scenario that was found; itself if none was. `smaller` gives scenarios with one
    thing less, the biggest savings first."""
    smallest, plays = outcome, 0
    progress = True
    while progress:
        progress = False
        for candidate in smaller(smallest.scenario):
            if plays >= max_plays:
                return smallest
            plays += 1
            played = play(candidate)
            if played.violation is not None:
                smallest, progress = played, True
                break
    return smallest


def shrink(outcome: Outcome, play: Callable[[Scenario], Outcome] = play, max_plays: int = _MAX_PLAYS) -> Outcome:
    """A failing run with as few faults, queries, works and hosts as were found to be enough."""
    return shrink_with(outcome, play, smaller, max_plays)


def smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with one thing less, the biggest savings first."""
    for number in range(len(scenario.faults)):
        yield replace(scenario, faults=without(scenario.faults, number))
    for number in range(len(scenario.queries)):
        yield replace(scenario, queries=without(scenario.queries, number))
    used = {host for fault in scenario.faults for host in hosts_of(fault)}
    used |= {query.coordinator for query in scenario.queries}
    if scenario.coordinators > 1 and scenario.coordinator_hosts[-1] not in used:
        yield replace(scenario, coordinators=scenario.coordinators - 1)
    if scenario.workers > 1 and scenario.worker_hosts[-1] not in used:
        yield replace(scenario, workers=scenario.workers - 1)
    for number, query in enumerate(scenario.queries):
        for place in range(len(query.works) if len(query.works) > 1 else 0):
            fewer = replace(query, works=without(query.works, place))
            queries = (*scenario.queries[:number], fewer, *scenario.queries[number + 1 :])
            yield replace(scenario, queries=queries)


def without(things: "tuple[_T, ...]", place: int) -> "tuple[_T, ...]":
    return things[:place] + things[place + 1 :]
