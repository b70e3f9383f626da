"""A scenario: coordinators, workers, what is declared and withdrawn, and what goes wrong, all drawn from one seed."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from quarterdeck.simulation.declared.faults import (
    FAULTS,
    At,
    Breakdown,
    CrashAtCommit,
    CrashAtSend,
    Depose,
    Fault,
    LostReport,
    Moment,
    StoreFails,
    hosts_of,
)
from quarterdeck.simulation.faults import Crash, Cut, Partition, Pause, SlowPeer
from quarterdeck.simulation.scenario_text import scenario_from_json, scenario_to_json
from quarterdeck.simulation.shrink import without

TROUBLE_S = 25.0
"""Virtual time in which things are declared and go wrong; after it everything heals."""

_DEADLY = 0.25
"""The share of scenarios in which a group is deadly."""


@dataclass(frozen=True, slots=True)
class Group:
    """Things that are declared together."""

    at_s: float
    coordinator: str
    things: int
    pinned_to: str | None
    acquire_s: float
    failures: int = 0
    """How often each of them fails for a passing reason."""
    poisoned: bool = False
    """The first of them cannot be held."""
    deadly: bool = False
    """A worker dies whenever it begins to acquire the first of them."""
    withdraw_after_s: float | None = None
    withdrawn_at: str = ""
    """The coordinator that is told so."""


@dataclass(frozen=True, slots=True)
class DeclaredScenario:
    seed: int
    coordinators: int
    workers: int
    groups: tuple[Group, ...]
    faults: tuple[Fault, ...]

    @property
    def coordinator_hosts(self) -> list[str]:
        return [f"c{n}" for n in range(self.coordinators)]

    @property
    def worker_hosts(self) -> list[str]:
        return [f"w{n}" for n in range(self.workers)]

    def headline(self) -> str:
        return f"{self.coordinators} coordinators over one database, {self.workers} workers"

    def parts(self) -> tuple[object, ...]:
        return (*self.groups, *self.faults)

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*self.coordinator_hosts, *self.worker_hosts)

    @property
    def named_hosts(self) -> set[str]:
        named = {host for fault in self.faults for host in hosts_of(fault)}
        for group in self.groups:
            named |= {group.coordinator, group.withdrawn_at, group.pinned_to or ""}
        return named - {""}

    def to_json(self) -> str:
        return scenario_to_json(self, FAULTS)


def from_json(text: str) -> DeclaredScenario:
    """What `to_json` wrote. Raises ValueError, naming what is wrong, for anything else."""
    return scenario_from_json(text, DeclaredScenario, FAULTS)


def generate(seed: int, kinds: Collection[str] = tuple(FAULTS)) -> DeclaredScenario:
    """Draws a scenario. What is declared does not depend on which faults are allowed."""
    chance = random.Random(f"{seed} declared")
    scenario = DeclaredScenario(
        seed, chance.choice((1, 1, 2, 2, 3)), chance.choice((1, 2, 2, 3, 3, 4)), groups=(), faults=()
    )
    groups = tuple(_group(chance, scenario) for _ in range(chance.randint(1, 5)))
    groups = _deadly(random.Random(f"{seed} deadly"), groups)
    number = chance.choice((0, 1, 2, 3, 4, 6, 8))
    faults = tuple(_fault(chance, scenario, chance.choice(sorted(kinds))) for _ in range(number)) if kinds else ()
    return replace(scenario, groups=groups, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def _group(chance: random.Random, scenario: DeclaredScenario) -> Group:
    is_pinned = chance.random() < 0.4
    return Group(
        at_s=_time(chance),
        coordinator=chance.choice(scenario.coordinator_hosts),
        things=chance.choice((1, 1, 2, 3)),
        pinned_to=chance.choice(scenario.worker_hosts) if is_pinned else None,
        acquire_s=round(chance.choice((0.001, 0.05, 0.5, 3.0)) * chance.uniform(0.5, 1.5), 4),
        failures=chance.choice((1, 2, 5)) if chance.random() < 0.15 else 0,
        poisoned=chance.random() < 0.1,
        withdraw_after_s=round(chance.choice((0.01, 1.0, 8.0)) * chance.random(), 4) if chance.random() < 0.5 else None,
        withdrawn_at=chance.choice(scenario.coordinator_hosts),
    )


def _deadly(chance: random.Random, groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Drawn apart, so that without it a seed tells the story that it told before."""
    if chance.random() >= _DEADLY:
        return groups
    number = chance.randrange(len(groups))
    group = replace(groups[number], deadly=True, poisoned=False)
    return (*groups[:number], group, *groups[number + 1 :])


def _time(chance: random.Random) -> float:
    return round(chance.uniform(0.0, TROUBLE_S - 4.0), 4)


def _fault(chance: random.Random, scenario: DeclaredScenario, kind: str) -> Fault:
    coordinator, worker = chance.choice(scenario.coordinator_hosts), chance.choice(scenario.worker_hosts)
    hosts = [coordinator, worker]
    chance.shuffle(hosts)
    host, other = hosts
    at_s = _time(chance)
    short_s = round(chance.choice((0.05, 0.5, 1.5, 4.0, 6.0, 12.0)) * chance.uniform(0.5, 1.5), 4)
    victim = worker if chance.random() < 0.5 else coordinator
    moment = chance.choice(list(Moment))
    match kind:
        case "crash":
            return Crash(at_s, victim, short_s)
        case "pause":
            return Pause(at_s, victim, short_s)
        case "partition":
            return Partition(at_s, host, other, short_s, one_way=chance.random() < 0.5)
        case "cut":
            return Cut(at_s, host, other, half_open=chance.random() < 0.5)
        case "slow-peer":
            return SlowPeer(at_s, victim, short_s, round(chance.uniform(0.02, 0.6), 4))
        case "crash-at-commit":
            return CrashAtCommit(at_s, moment, short_s)
        case "store-fails":
            return StoreFails(at_s, moment)
        case "crash-at-send":
            return CrashAtSend(at_s, short_s)
        case "lost-report":
            return LostReport(at_s, worker)
        case "depose":
            return Depose(at_s, chance.choice(list(At)), round(chance.uniform(0.5, 2.8), 4))
        case "breakdown":
            return Breakdown(at_s, worker)
        case _:
            raise ValueError(f"there is no fault called {kind!r}; there are: {', '.join(FAULTS)}")


def smaller(scenario: DeclaredScenario) -> Iterator[DeclaredScenario]:
    """Scenarios with one thing less, the biggest savings first."""
    for number in range(len(scenario.faults)):
        yield replace(scenario, faults=without(scenario.faults, number))
    for number in range(len(scenario.groups)):
        yield replace(scenario, groups=without(scenario.groups, number))
    used = scenario.named_hosts
    if scenario.coordinators > 1 and scenario.coordinator_hosts[-1] not in used:
        yield replace(scenario, coordinators=scenario.coordinators - 1)
    if scenario.workers > 1 and scenario.worker_hosts[-1] not in used:
        yield replace(scenario, workers=scenario.workers - 1)
    for number, group in enumerate(scenario.groups):
        if group.things > 1:
            fewer = replace(group, things=group.things - 1)
            yield replace(scenario, groups=(*scenario.groups[:number], fewer, *scenario.groups[number + 1 :]))
