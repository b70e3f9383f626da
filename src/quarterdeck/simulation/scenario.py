"""A scenario: a crew, what it is asked, and what goes wrong, all drawn from one seed. Data only; the world plays it."""

import random
from collections.abc import Collection
from dataclasses import dataclass, replace

from quarterdeck.simulation.faults import (
    FAULTS,
    ClockJump,
    Corruption,
    Crash,
    Cut,
    Drain,
    Eviction,
    Fault,
    LostReply,
    NotAccepting,
    Partition,
    Pause,
    Poison,
    Pressure,
    Reply,
    Shutdown,
    SlowPeer,
    hosts_of,
)
from quarterdeck.simulation.scenario_text import scenario_from_json, scenario_to_json

TROUBLE_S = 12.0
"""Virtual time in which queries are asked and things go wrong; after it everything heals."""


@dataclass(frozen=True, slots=True)
class WorkLoad:
    duration_s: float
    failures: int = 0
    """How many attempts fail before one succeeds."""
    fatal: bool = False
    """The first attempt fails with an error that retrying cannot cure."""
    poison_s: float | None = None
    """It ends the process that runs it, which starts again after so long."""
    leaves_nothing: bool = False
    """It ends without an artifact."""


@dataclass(frozen=True, slots=True)
class QueryLoad:
    at_s: float
    coordinator: str
    works: tuple[WorkLoad, ...]
    wait_limit_s: float | None = None
    cancel_after_s: float | None = None
    cancel_work_after_s: float | None = None
    """One of its works is withdrawn."""


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    coordinators: int
    workers: int
    slots: int
    queue_places: int
    coordinators_dial: bool
    """Who dials whom; the conversation is the same."""
    queries: tuple[QueryLoad, ...]
    faults: tuple[Fault, ...]

    @property
    def coordinator_hosts(self) -> list[str]:
        return [f"c{n}" for n in range(self.coordinators)]

    @property
    def worker_hosts(self) -> list[str]:
        return [f"w{n}" for n in range(self.workers)]

    def headline(self) -> str:
        dialling = "coordinators dial" if self.coordinators_dial else "workers dial"
        return (
            f"{self.coordinators} coordinators, {self.workers} workers with {self.slots} slots and "
            f"{self.queue_places} queue places, {dialling}"
        )

    def parts(self) -> tuple[object, ...]:
        return (*self.queries, *self.faults)

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*self.coordinator_hosts, *self.worker_hosts)

    @property
    def named_hosts(self) -> set[str]:
        return {query.coordinator for query in self.queries} | {h for fault in self.faults for h in hosts_of(fault)}

    def to_json(self) -> str:
        return scenario_to_json(self, FAULTS)


def from_json(text: str) -> Scenario:
    """What `to_json` wrote. Raises ValueError, naming what is wrong, for anything else."""
    return scenario_from_json(text, Scenario, FAULTS)


def generate(seed: int, kinds: Collection[str] = tuple(FAULTS)) -> Scenario:
    """Draws a scenario. The crew and what it is asked do not depend on which faults are allowed."""
    chance = random.Random(seed)
    scenario = Scenario(
        seed=seed,
        coordinators=chance.choice((1, 1, 2, 2, 3)),
        workers=chance.choice((1, 2, 2, 3, 3, 4)),
        slots=chance.choice((1, 1, 2, 3)),
        queue_places=chance.choice((0, 1, 2, 3)),
        coordinators_dial=chance.random() < 0.5,
        queries=(),
        faults=(),
    )
    queries = tuple(_query(chance, scenario) for _ in range(chance.randint(1, 7)))
    ends = random.Random(f"{seed} ends")
    queries = tuple(replace(query, works=tuple(_ending(ends, work) for work in query.works)) for query in queries)
    number = chance.choice((0, 1, 2, 3, 4, 6, 8))
    faults = tuple(_fault(chance, scenario, chance.choice(sorted(kinds))) for _ in range(number)) if kinds else ()
    return replace(scenario, queries=queries, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def _query(chance: random.Random, scenario: Scenario) -> QueryLoad:
    works = tuple(_work(chance) for _ in range(chance.choice((1, 1, 2, 3, 5, 8))))
    cancel_after_s = round(chance.uniform(0.001, 2.0), 4) if chance.random() < 0.25 else None
    cancel_work_after_s = round(chance.uniform(0.001, 1.0), 4) if chance.random() < 0.15 else None
    if cancel_after_s is not None and chance.random() < 0.3:
        cancel_work_after_s = round(max(0.0005, cancel_after_s - 0.01), 4)  # canceled again while it is being stopped
    return QueryLoad(
        at_s=_time(chance),
        coordinator=chance.choice(scenario.coordinator_hosts),
        works=works,
        wait_limit_s=chance.choice((None, None, None, 0.5, 3.0)),
        cancel_after_s=cancel_after_s,
        cancel_work_after_s=cancel_work_after_s,
    )


def _work(chance: random.Random) -> WorkLoad:
    duration_s = round(chance.choice((0.01, 0.1, 0.5, 3.0)) * chance.uniform(0.5, 1.5), 4)
    failures = chance.choice((1, 1, 2, 5)) if chance.random() < 0.12 else 0
    return WorkLoad(duration_s, failures, fatal=chance.random() < 0.02)


def _ending(chance: random.Random, work: WorkLoad) -> WorkLoad:
    return replace(work, leaves_nothing=chance.random() < 0.25)


def _time(chance: random.Random) -> float:
    return round(chance.uniform(0.0, TROUBLE_S - 2.0), 4)


def _fault(chance: random.Random, scenario: Scenario, kind: str) -> Fault:
    coordinator, worker = chance.choice(scenario.coordinator_hosts), chance.choice(scenario.worker_hosts)
    hosts = [coordinator, worker]
    chance.shuffle(hosts)
    host, other = hosts
    at_s = _time(chance)
    short_s = round(chance.choice((0.05, 0.5, 1.5, 2.5, 4.0, 6.0)) * chance.uniform(0.5, 1.5), 4)
    victim = worker if chance.random() < 0.75 else coordinator
    match kind:
        case "crash":
            return Crash(at_s, victim, short_s)
        case "pause":
            return Pause(at_s, victim, short_s)
        case "partition":
            return Partition(at_s, host, other, short_s, one_way=chance.random() < 0.5)
        case "cut":
            return Cut(at_s, host, other, half_open=chance.random() < 0.5)
        case "lost-reply":
            return LostReply(at_s, worker, chance.choice(list(Reply)))
        case "slow-peer":
            return SlowPeer(at_s, victim, short_s, round(chance.uniform(0.02, 0.6), 4))
        case "clock-jump":
            return ClockJump(at_s, victim, round(chance.choice((-4.0, -0.5, 0.5, 4.0, 30.0)) * chance.random(), 4))
        case "drain":
            return Drain(at_s, worker, chance.choice((None, coordinator)), short_s)
        case "shutdown":
            return Shutdown(at_s, coordinator, short_s)
        case "not-accepting":
            return NotAccepting(at_s, worker, short_s)
        case "pressure":
            return Pressure(at_s, worker, short_s)
        case "eviction":
            return Eviction(at_s, worker)
        case "corruption":
            return Corruption(at_s, worker)
        case "poison":
            return Poison(at_s, coordinator, short_s, chance.choice((1, 1, 1, 6)))
        case _:
            raise ValueError(f"there is no fault called {kind!r}; there are: {', '.join(FAULTS)}")
