"""A scenario of recruiting: recruiters, workers, roots, what they are asked and what goes wrong, drawn from one seed.

Data only; the world plays it.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from quarterdeck.search.world.faults import (
    FAULTS,
    Busy,
    Drain,
    Fault,
    LostReply,
    Reply,
    SlowScan,
    Wedge,
    hosts_of,
)
from quarterdeck.simulation.faults import ClockJump, Crash, Cut, Partition, Pause, Shutdown, SlowPeer
from quarterdeck.simulation.scenario_text import scenario_from_json, scenario_to_json
from quarterdeck.simulation.shrink import without

TROUBLE_S = 12.0
"""Virtual time in which searches are asked and things go wrong; after it everything heals."""

_APART_S = 3.5
_OUTAGE_S = 1.5
"""An outage that is no longer, and so far from the next, is over for everybody before that."""


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A worker, and where it is."""

    node: str
    slots: int = 1
    label: str = ""
    """What it is for, if not for everybody."""
    leaves: bool = False
    """Whether its process ends when its root has left it alone."""


@dataclass(frozen=True, slots=True)
class SearchLoad:
    at_s: float
    root: str
    chunks: tuple[float, ...]
    """How long each takes, in seconds."""
    max_workers: int
    label: str = ""
    refused: int | None = None
    """A chunk that nobody can search."""
    deadly: int | None = None
    """A chunk that kills the worker that searches it."""
    cancel_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    recruiters: int
    workers: tuple[WorkerLoad, ...]
    roots: int
    poll_s: float
    """How long a registration is held."""
    searches: tuple[SearchLoad, ...]
    faults: tuple[Fault, ...]

    @property
    def recruiter_hosts(self) -> list[str]:
        return [f"r{n}" for n in range(self.recruiters)]

    @property
    def worker_hosts(self) -> list[str]:
        return [f"w{n}" for n in range(len(self.workers))]

    @property
    def root_hosts(self) -> list[str]:
        return [f"s{n}" for n in range(self.roots)]

    def headline(self) -> str:
        nodes = len({worker.node for worker in self.workers})
        return (
            f"{self.recruiters} recruiters that hold registrations for {self.poll_s:g} s, {len(self.workers)} workers "
            f"on {nodes} nodes, {self.roots} roots"
        )

    def parts(self) -> tuple[object, ...]:
        return (*self.workers, *self.searches, *self.faults)

    @property
    def hosts(self) -> tuple[str, ...]:
        return (*self.recruiter_hosts, *self.worker_hosts, *self.root_hosts)

    @property
    def named_hosts(self) -> set[str]:
        return {search.root for search in self.searches} | {h for fault in self.faults for h in hosts_of(fault)}

    def to_json(self) -> str:
        return scenario_to_json(self, FAULTS)


def from_json(text: str) -> Scenario:
    """What `to_json` wrote. Raises ValueError, naming what is wrong, for anything else."""
    return scenario_from_json(text, Scenario, FAULTS)


# Drawing


def generate(seed: int, kinds: Collection[str] = tuple(FAULTS)) -> Scenario:
    """Draws a scenario. Who takes part and what is asked do not depend on which faults are allowed."""
    chance = random.Random(f"{seed} recruiting")
    nodes = chance.choice((1, 2, 2, 3))
    scenario = Scenario(
        seed=seed,
        recruiters=chance.choice((1, 1, 2)),
        workers=tuple(_worker(chance, nodes) for _ in range(chance.choice((1, 2, 3, 3, 4, 6)))),
        roots=chance.choice((1, 1, 2, 3)),
        poll_s=chance.choice((1.0, 4.0, 4.0, 30.0)),
        searches=(),
        faults=(),
    )
    searches = tuple(_search(chance, scenario) for _ in range(chance.choice((1, 2, 3, 4, 6))))
    number = chance.choice((0, 1, 2, 3, 4, 6, 8))
    if chance.random() < 0.15 and {"crash", "shutdown"} <= set(kinds):
        faults = tuple(_outages(chance, scenario))
    else:
        scenario = replace(scenario, searches=searches)
        faults = tuple(_fault(chance, scenario, chance.choice(sorted(kinds))) for _ in range(number)) if kinds else ()
    return replace(scenario, searches=searches, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def _worker(chance: random.Random, nodes: int) -> WorkerLoad:
    return WorkerLoad(
        node=f"node{chance.randrange(nodes)}",
        slots=chance.choice((1, 1, 2, 3)),
        label=chance.choice(("", "", "", "", "big")),
        leaves=chance.random() < 0.3,
    )


def _search(chance: random.Random, scenario: Scenario) -> SearchLoad:
    chunks = tuple(_duration_s(chance) for _ in range(chance.choice((1, 2, 3, 4, 6, 8, 12))))
    return SearchLoad(
        at_s=_time(chance),
        root=chance.choice(scenario.root_hosts),
        chunks=chunks,
        max_workers=chance.choice((1, 2, 3, 6, 16)),
        label=chance.choice(("", "", "", "big", "small")),
        refused=chance.randrange(len(chunks)) if chance.random() < 0.05 else None,
        deadly=chance.randrange(len(chunks)) if chance.random() < 0.04 else None,
        cancel_after_s=round(chance.uniform(0.001, 3.0), 4) if chance.random() < 0.2 else None,
    )


def _duration_s(chance: random.Random) -> float:
    return round(chance.choice((0.01, 0.1, 0.5, 2.5)) * chance.uniform(0.5, 1.5), 4)


def _time(chance: random.Random) -> float:
    return round(chance.uniform(0.0, TROUBLE_S - 2.0), 4)


def _outages(chance: random.Random, scenario: Scenario) -> Iterator[Fault]:
    """Recruiters that are away for a moment, one after the other, and nothing else."""
    at_s = 0.0
    while True:
        at_s += chance.uniform(_APART_S, 6.0)
        down_s = round(chance.choice((0.45, 0.45, _OUTAGE_S)) * chance.uniform(0.1, 1.0), 4)
        if at_s > TROUBLE_S - _APART_S:
            return
        outage = chance.choice((Crash, Shutdown))
        yield outage(round(at_s, 4), chance.choice(scenario.recruiter_hosts), down_s)


def only_outages(scenario: Scenario) -> bool:
    """Whether recruiters are away for a moment, each time long after the one before, and nothing else goes wrong."""
    at_s = 0.0
    for fault in scenario.faults:
        if not isinstance(fault, Crash | Shutdown) or fault.host not in scenario.recruiter_hosts:
            return False
        if fault.down_s > _OUTAGE_S or fault.at_s < at_s + _APART_S:
            return False
        at_s = fault.at_s
    return all(search.deadly is None for search in scenario.searches)


def _fault(chance: random.Random, scenario: Scenario, kind: str) -> Fault:
    recruiter, worker, root = (
        chance.choice(hosts) for hosts in (scenario.recruiter_hosts, scenario.worker_hosts, scenario.root_hosts)
    )
    hosts = chance.choice(([recruiter, worker], [recruiter, worker], [root, worker], [root, worker], [root, recruiter]))
    chance.shuffle(hosts)
    host, other = hosts
    at_s = _time(chance)
    if chance.random() < 0.4:  # while somebody is being recruited
        at_s = round(chance.choice(scenario.searches).at_s + chance.uniform(0.0, 0.02), 4)
    short_s = round(chance.choice((0.05, 0.5, 1.5, 2.5, 4.0, 6.0)) * chance.uniform(0.5, 1.5), 4)
    victim = chance.choice((worker, worker, recruiter, root))
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
            reply = chance.choice(list(Reply))
            server = worker if reply in (Reply.CHUNK, Reply.RELEASED) else recruiter
            return LostReply(at_s, server, reply, silently=chance.random() < 0.4)
        case "slow-peer":
            return SlowPeer(at_s, victim, short_s, round(chance.uniform(0.02, 0.6), 4))
        case "clock-jump":
            return ClockJump(at_s, victim, round(chance.choice((-4.0, -0.5, 0.5, 4.0, 30.0)) * chance.random(), 4))
        case "drain":
            return Drain(at_s, worker, short_s)
        case "shutdown":
            return Shutdown(at_s, recruiter, short_s)
        case "busy":
            return Busy(at_s, worker, chance.choice((short_s, short_s, 0.0)), when_reserved=chance.random() < 0.3)
        case "wedge":
            return Wedge(at_s, root)
        case "slow-scan":
            return SlowScan(at_s, worker, short_s)
        case _:
            raise ValueError(f"there is no fault called {kind!r}; there are: {', '.join(FAULTS)}")


# Making smaller


def smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with one thing less, the biggest savings first."""
    for number in range(len(scenario.faults)):
        yield replace(scenario, faults=without(scenario.faults, number))
    for number in range(len(scenario.searches)):
        yield replace(scenario, searches=without(scenario.searches, number))
    used = scenario.named_hosts
    if scenario.recruiters > 1 and scenario.recruiter_hosts[-1] not in used:
        yield replace(scenario, recruiters=scenario.recruiters - 1)
    if scenario.roots > 1 and scenario.root_hosts[-1] not in used:
        yield replace(scenario, roots=scenario.roots - 1)
    if len(scenario.workers) > 1 and scenario.worker_hosts[-1] not in used:
        yield replace(scenario, workers=scenario.workers[:-1])
    for number, search in enumerate(scenario.searches):
        for place in range(len(search.chunks) if len(search.chunks) > 1 else 0):
            fewer = replace(search, chunks=without(search.chunks, place))
            yield replace(scenario, searches=(*scenario.searches[:number], fewer, *scenario.searches[number + 1 :]))
