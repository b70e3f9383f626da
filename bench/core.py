"""How fast the core is, and whether it stays as fast when works and workers become many.

What is timed is `step`, and the `next_deadline` that a driver asks for after each one. What peers would answer is made
from the effects of earlier steps, outside of the timed section; so are all events. No loop, no socket, no worker's
machine takes part in the coordinator's figures, and the garbage collector rests.

The peer is the cheapest thing that a coordinator in Python could do for a work: start an asyncio task that does
nothing, and await it. It is measured in the same run, and figures are given as multiples of it. The simulator's figure,
at the end, is of everything together, with the garbage collector at work.
"""

import asyncio
import gc
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Generic, Protocol, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from quarterdeck.core.ids import CoordinatorId, Incarnation, LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.workcoord import messages as msg
from quarterdeck.core.workcoord.coordinator import effects as coordinator_fx
from quarterdeck.core.workcoord.coordinator import events as coordinator_ev
from quarterdeck.core.workcoord.coordinator.machine import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    LivenessPolicy,
    WorkerInfo,
    WorkerStatus,
    WorkKey,
    WorkSpec,
)
from quarterdeck.core.workcoord.peer import LossReason
from quarterdeck.core.workcoord.worker import effects as worker_fx
from quarterdeck.core.workcoord.worker import events as worker_ev
from quarterdeck.core.workcoord.worker.machine import WorkerConfig, WorkerMachine
from quarterdeck.simulation.scenario import generate
from quarterdeck.simulation.world import play

CREDIT = 8
"""Attempts a worker takes at once: four slots and four places in its queue."""
WORKS_OF_A_QUERY = 1_000
BEAT_S = LivenessPolicy().interval_s
NEXT_DEADLINE = "next_deadline, after each step"
LINES_MOVE = "time passed, up to 256 works move"
STEPS_OF_LOSS = ("worker lost", "worker joined", LINES_MOVE)
ROUNDS = 3
WIDTH = 110

# Losing workers on purpose must not use up a work's failures.
MAX_FAILURES = 1_000_000
LEAF = WorkKind("leaf")
ACCEPTING = WorkerStatus(accepting_work=True)
ARTIFACT = Artifact("http://worker/artifact", 4096, "0" * 32, 100, 0, 1, 1)

Samples: TypeAlias = dict[str, "array[int]"]
"""Nanoseconds of every step, by kind of step."""

EventT_contra = TypeVar("EventT_contra", contravariant=True)
EventT = TypeVar("EventT")
EffectT = TypeVar("EffectT")


class Machine(Protocol[EventT_contra, EffectT]):
    def step(self, event: EventT_contra, now: float, /) -> list[EffectT]: ...
    def next_deadline(self) -> float | None: ...


class Stopwatch(Generic[EventT, EffectT]):
    """Steps a machine and keeps how long each step took."""

    def __init__(self, machine: Machine[EventT, EffectT]) -> None:
        self._step = machine.step
        self._next_deadline = machine.next_deadline
        self.now = 0.0
        self.next_at: float | None = None
        self.last_ns = 0
        self.samples: Samples = defaultdict(lambda: array("q"))

    def step(self, event: EventT) -> list[EffectT]:
        """Takes a step; the caller, who sees what came of it, knows its kind."""
        now = self.now
        begin = time.perf_counter_ns()
        effects = self._step(event, now)
        middle = time.perf_counter_ns()
        self.next_at = self._next_deadline()
        end = time.perf_counter_ns()
        self.last_ns = middle - begin
        self.samples[NEXT_DEADLINE].append(end - middle)
        return effects

    def keep(self, kind: str) -> None:
        self.samples[kind].append(self.last_ns)

    @property
    def is_due(self) -> bool:
        return self.next_at is not None and self.next_at <= self.now


@contextmanager
def quiet() -> Generator[None]:
    """Keeps the garbage collector out of the figures."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def make_info(worker: int, slots: int = CREDIT // 2, queue_places: int = CREDIT // 2) -> WorkerInfo:
    return WorkerInfo(WorkerId(f"worker-{worker}"), Incarnation(1), frozenset({LEAF}), slots, queue_places)


def make_specs(works: int, query: str | None = None, key: Callable[[int], str] = "segment-{}".format) -> list[WorkSpec]:
    """Works of a query that is named, or of as many queries as it takes."""
    return [
        WorkSpec(
            WorkKey(QueryId(query or f"query-{n // WORKS_OF_A_QUERY}"), LeafId(f"leaf-{n}"), WorkId(f"work-{n}")),
            LEAF,
            affinity_key=key(n),
        )
        for n in range(works)
    ]


class Drill:
    """A coordinator's machine, and a crew that is nothing but the events it would send."""

    def __init__(self) -> None:
        self.watch = Stopwatch(
            CoordinatorMachine(CoordinatorConfig(CoordinatorId("coordinator"), max_failures=MAX_FAILURES))
        )
        self.sessions: list[tuple[WorkerInfo, SessionId]] = []
        self.assigned: list[tuple[SessionId, AttemptId]] = []
        self.fetched: list[AttemptId] = []

    def run(self, kind: str, events: Iterable[coordinator_ev.Event], kind_if_assigned: str | None = None) -> None:
        """Takes the events; a step that gave somebody a work may count as another kind."""
        for event in events:
            before = len(self.assigned)
            effects = self.watch.step(event)
            self._take(effects)
            gave_work = kind_if_assigned is not None and len(self.assigned) > before
            self.watch.keep(kind_if_assigned if gave_work and kind_if_assigned else kind)

    def _take(self, effects: list[coordinator_fx.Effect]) -> None:
        for effect in effects:
            match effect:
                case coordinator_fx.SendToWorker(session_id, msg.AssignWork(spec, number)):
                    self.assigned.append((session_id, AttemptId(spec.key, number)))
                case coordinator_fx.FetchArtifact(attempt, _, _):
                    self.fetched.append(attempt)
                case _:
                    pass

    def say(self, kind: str, messages: Iterable[tuple[SessionId, msg.WorkerMessage]], gave: str | None = None) -> None:
        self.run(kind, [coordinator_ev.MessageReceived(*each) for each in messages], gave)

    def join(self, worker: int, generation: int = 0) -> None:
        info, session_id = make_info(worker), SessionId(f"session-{worker}-{generation}")
        self.sessions.append((info, session_id))
        self.run("worker joined", [coordinator_ev.SessionOpened(session_id, msg.Register(info, ACCEPTING))])
        self.say("credit granted", [(session_id, msg.CreditChanged(CREDIT))])

    def open_queries(self, specs: Iterable[WorkSpec], wait_limit_s: float | None = None) -> None:
        names = dict.fromkeys(spec.key.query_id for spec in specs)
        self.run("query opened", [coordinator_ev.QueryOpened(name, wait_limit_s) for name in names])

    def submit(self, specs: Iterable[WorkSpec]) -> None:
        events = [coordinator_ev.WorkSubmitted(spec) for spec in specs]
        self.run("submitted, queued", events, "submitted, given at once")

    def answer(self) -> None:
        """One wave: all that was assigned is accepted, made ready, fetched, committed; more is assigned meanwhile."""
        wave, self.assigned = self.assigned, []
        self.say("accepted", [(session, msg.WorkAccepted(attempt)) for session, attempt in wave])
        self.say("ready", [(session, msg.WorkReady(attempt, ARTIFACT)) for session, attempt in wave])
        fetched, self.fetched = self.fetched, []
        events = [coordinator_ev.FetchSucceeded(attempt) for attempt in fetched]
        self.run("fetched, nothing waits", events, "fetched, next work given")

    def beat(self) -> None:
        """A second passes: every worker beats, every worker is sent a beat, what waited too long goes elsewhere."""
        self.watch.now += BEAT_S
        self.say("heartbeat", [(session_id, msg.WorkerBeat(ACCEPTING)) for _, session_id in self.sessions])
        self.pass_time("time passed, a beat is due", "time passed, works spill over")

    def pass_time(self, kind: str, kind_if_assigned: str | None = None) -> None:
        while self.watch.is_due:
            self.run(kind, [coordinator_ev.TimePassed()], kind_if_assigned)

    def lose(self, place: int) -> int:
        """The session of the worker at this place is gone."""
        info, session_id = self.sessions.pop(place)
        self.assigned = [each for each in self.assigned if each[0] != session_id]
        self.run(
            "worker lost", [coordinator_ev.SessionLost(session_id, LossReason.CONNECTION_LOST, "connection reset")]
        )
        return int(info.worker_id.removeprefix("worker-"))


# The coordinator's machine: kinds of steps


def whole_life(workers: int, works: int) -> Samples:
    """Every work from submission to commit, with everybody's heartbeats once a wave."""
    specs = make_specs(works)
    drill = Drill()
    for worker in range(workers):
        drill.join(worker)
    drill.open_queries(specs)
    drill.submit(specs)
    while drill.assigned:
        drill.answer()
        drill.beat()
    drill.run(
        "query sealed", [coordinator_ev.QuerySealed(each) for each in {spec.key.query_id: None for spec in specs}]
    )
    return drill.watch.samples


def coming_and_going(workers: int, works: int) -> Samples:
    """Workers are lost with what they have and what waits for them, and come back, one after the other."""
    specs = make_specs(works)
    drill = Drill()
    for worker in range(workers):
        drill.join(worker)
    drill.open_queries(specs)
    drill.submit(specs)
    drill.watch.samples.clear()
    for _ in range(min(50, workers)):
        worker = drill.lose(0)
        drill.pass_time(LINES_MOVE)
        drill.join(worker, generation=1)
        drill.pass_time(LINES_MOVE)
    samples = drill.watch.samples
    return {kind: samples[kind] for kind in STEPS_OF_LOSS if kind in samples}


@dataclass(frozen=True, slots=True)
class Best:
    """The best of several rounds, because a pause of the computer is no step's fault."""

    samples: Samples
    """Of each kind of step, the round with the lowest mean."""
    longest: dict[str, int]
    """Of each kind of step, the longest one, in the round where that was shortest."""


def best_of(rounds: int, scenario: Callable[[], Samples]) -> Best:
    best = Best({}, {})
    for _ in range(rounds):
        with quiet():
            for kind, times in scenario().items():
                if kind not in best.samples or mean(times) < mean(best.samples[kind]):
                    best.samples[kind] = times
                best.longest[kind] = min(best.longest.get(kind, max(times)), max(times))
    return best


def life_and_loss(workers: int, works: int, rounds: int) -> Best:
    life = best_of(rounds, lambda: whole_life(workers, works))
    loss = best_of(rounds, lambda: coming_and_going(workers, works))
    return Best(life.samples | loss.samples, life.longest | loss.longest)


# The coordinator's machine: where a single step could be long


def _crowd(works: int, workers: int = 10, wait_limit_s: float | None = None, favourite: int = 0) -> Drill:
    """One query with all works. One in `favourite` of them, or all if it is 1, prefer one worker."""
    specs = make_specs(works, "query", lambda n: "hot" if favourite and n % favourite == 0 else f"segment-{n}")
    drill = Drill()
    for worker in range(workers):
        drill.join(worker)
    drill.open_queries(specs, wait_limit_s)
    drill.submit(specs)
    drill.watch.samples.clear()
    return drill


def lose_the_favourite(works: int) -> Samples:
    drill = _crowd(works, favourite=2)
    favourite, _ = drill.assigned[0]  # the first work has the hot key, and found its worker free
    drill.lose([session_id for _, session_id in drill.sessions].index(favourite))
    _rename(drill, "worker lost", "worker lost, half of all works in its line")
    drill.pass_time("  then: worst step moving its line")
    return drill.watch.samples


def first_worker_joins(works: int) -> Samples:
    drill = _crowd(works, workers=0)
    drill.join(0)
    _rename(drill, "worker joined", "first worker joins, all works wait")
    drill.pass_time("  then: worst step placing the rest")
    return drill.watch.samples


def cancel_all_pending(works: int) -> Samples:
    drill = _crowd(works)
    drill.run("query canceled, all works pending", [coordinator_ev.QueryCancelRequested(QueryId("query"), "bench")])
    session_id, attempt = drill.assigned[0]
    drill.say("  then: first attempt's end is heard", [(session_id, msg.WorkCanceled(attempt))])
    return drill.watch.samples


def cancel_on_a_full_crew(works: int) -> Samples:
    drill = _crowd(works, workers=1_000)
    drill.run("query canceled, on 1,000 workers", [coordinator_ev.QueryCancelRequested(QueryId("query"), "bench")])
    return drill.watch.samples


def wait_limit_ends(works: int) -> Samples:
    drill = _crowd(works, workers=0, wait_limit_s=1.0)
    drill.watch.now += 1.0
    drill.pass_time("wait limit of a query ends, all works pending")
    return drill.watch.samples


def spill_over(works: int) -> Samples:
    drill = _crowd(works, workers=1_000, favourite=1)
    drill.watch.now += 0.5
    drill.pass_time("all works prefer one of 1,000: worst spill")
    return drill.watch.samples


def _rename(drill: Drill, kind: str, name: str) -> None:
    drill.watch.samples[name] = drill.watch.samples.pop(kind)


# The worker's machine


class WorkerDrill:
    """A worker's machine, with coordinators and executors that are nothing but the events they would send."""

    def __init__(self, sessions: int) -> None:
        self.watch = Stopwatch(WorkerMachine(WorkerConfig(make_info(0, slots=8, queue_places=8))))
        self.credit: dict[SessionId, int] = {}
        for n in range(sessions):
            registered = msg.Registered(SessionId(f"session-{n}"), CoordinatorId(f"coordinator-{n}"), LivenessPolicy())
            self._confirm_credit(self.watch.step(worker_ev.SessionOpened(registered)))
        self.watch.samples.clear()

    def _confirm_credit(self, effects: list[worker_fx.Effect]) -> None:
        while effects:
            match effects.pop(0):
                case worker_fx.SendToCoordinator(session_id, msg.CreditChanged(credit)):
                    self.credit[session_id] = credit
                    effects += self.watch.step(worker_ev.MessageReceived(session_id, msg.CreditConfirmed(credit)))
                case _:
                    pass

    def run(self, kind: str, events: Iterable[worker_ev.Event]) -> list[worker_fx.Effect]:
        effects: list[worker_fx.Effect] = []
        for event in events:
            effects += self.watch.step(event)
            self.watch.keep(kind)
        return effects

    def hear(self, kind: str, heard: Iterable[tuple[SessionId, msg.CoordinatorMessage]]) -> list[worker_fx.Effect]:
        return self.run(kind, [worker_ev.MessageReceived(*each) for each in heard])

    def take_wave(self, specs: Iterator[WorkSpec]) -> bool:
        """All that credit allows is assigned, runs, and is acknowledged. False when there is nothing left to do."""
        wave = [(to, spec) for to, credit in self.credit.items() for spec in islice(specs, credit)]
        effects = self.hear("assigned", [(to, msg.AssignWork(spec, 1)) for to, spec in wave])
        while running := [effect.attempt for effect in effects if isinstance(effect, worker_fx.StartExecution)]:
            effects = self.run("succeeded", [worker_ev.ExecutionSucceeded(attempt, ARTIFACT) for attempt in running])
        self.hear("acknowledged", [(to, msg.ArtifactAck(AttemptId(spec.key, 1))) for to, spec in wave])
        return bool(wave)

    def beat(self) -> None:
        self.watch.now += BEAT_S
        self.hear("heartbeat", [(to, msg.CoordinatorBeat()) for to in self.credit])
        while self.watch.is_due:
            self.run("time passed", [worker_ev.TimePassed()])


def worker_life(sessions: int, works: int) -> Samples:
    """Every work from assignment to acknowledgement, with heartbeats and the end of kept artifacts."""
    drill, specs = WorkerDrill(sessions), iter(make_specs(works))
    while drill.take_wave(specs):
        drill.beat()
    return drill.watch.samples


def artifacts_linger(works: int) -> Samples:
    """A tenth of the works was acknowledged within half a minute by one worker, so that their artifacts are kept."""
    drill, specs = WorkerDrill(2), iter(make_specs(works // 10))
    while drill.take_wave(specs):
        pass
    drill.watch.samples.clear()
    drill.run(
        "worker: session lost, artifacts of a tenth linger",
        [worker_ev.SessionLost(SessionId("session-0"), LossReason.CONNECTION_LOST)],
    )
    drill.run("worker: drain requested, the same", [worker_ev.DrainRequested()])
    return drill.watch.samples


# The worst cases of both


WORST_CASES: tuple[Callable[[int], Samples], ...] = (
    lose_the_favourite,
    first_worker_joins,
    cancel_all_pending,
    cancel_on_a_full_crew,
    wait_limit_ends,
    spill_over,
    artifacts_linger,
)


def worst_steps(works: int, rounds: int) -> dict[str, int]:
    """What was looked for in each of the worst cases."""
    worst: dict[str, int] = {}
    for scenario in WORST_CASES:
        longest = best_of(rounds, partial(scenario, works)).longest
        worst |= {kind: ns for kind, ns in longest.items() if kind not in (NEXT_DEADLINE, "credit granted")}
    return worst


def collection_ns(works: int) -> int:
    """What a full garbage collection costs while a query with so many works is alive. Not a step, but a pause."""
    gc.collect()
    drill = _crowd(works)
    begin = time.perf_counter_ns()
    gc.collect()
    end = time.perf_counter_ns()
    del drill
    return end - begin


# The simulator


def simulated_events(console: Console, seeds: int) -> None:
    """How fast whole worlds are played: drivers, network, faults and the checks of invariants after each callback."""
    begin = time.perf_counter()
    outcomes = [play(generate(seed)) for seed in range(seeds)]
    spent_s = time.perf_counter() - begin
    events = sum(outcome.steps for outcome in outcomes)
    virtual_s = sum(outcome.virtual_s for outcome in outcomes)
    broken = sum(outcome.violation is not None for outcome in outcomes)
    console.print(
        f"[bold]5. Simulation[/bold]: {seeds:,} seeds, {events:,} events: {events / spent_s:,.0f} events a second, "
        f"{seeds / spent_s:,.0f} seeds a second, {virtual_s / spent_s:,.0f} virtual seconds a second; "
        f"seeds that broke a promise, and ended early: {broken}"
    )


# The peer


def task_round_trip_ns(rounds: int = 20_000) -> float:
    """The cost of one asyncio task that does nothing."""

    async def nothing() -> None:
        pass

    async def round_trips() -> int:
        begin = time.perf_counter_ns()
        for _ in range(rounds):
            await asyncio.create_task(nothing())
        return time.perf_counter_ns() - begin

    with quiet():
        return min(asyncio.run(round_trips()) for _ in range(ROUNDS)) / rounds


# What is printed


def mean(times: Sequence[int]) -> float:
    return sum(times) / len(times)


def share(times: Sequence[int], part: float) -> int:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def us(ns: float) -> str:
    return f"{ns / 1e3:,.1f}"


@dataclass(frozen=True, slots=True)
class Report:
    console: Console
    task_ns: float

    def steps(self, title: str, samples: Samples) -> None:
        """Each kind of step, and all of them as a rate."""
        table = self._table(title, "kind of step", "steps", "mean µs", "p50", "p99", "max", "x task")
        for kind, times in samples.items():
            numbers = (mean(times), share(times, 0.5), share(times, 0.99), max(times))
            table.add_row(kind, f"{len(times):,}", *map(us, numbers), f"{mean(times) / self.task_ns:.2f}")
        self.console.print(table)

    def rate(self, samples: Samples, works: int, per_work: Iterable[str]) -> None:
        """Of the life of works; the loss of workers is not in it."""
        of_life = {kind: times for kind, times in samples.items() if kind not in STEPS_OF_LOSS}
        steps = sum(len(times) for kind, times in of_life.items() if kind != NEXT_DEADLINE)
        spent_ns = sum(sum(times) for times in of_life.values())
        of_a_work = sum(sum(samples[kind]) for kind in per_work if kind in samples) / works
        self.console.print(
            f"{steps / spent_ns * 1e9:,.0f} steps a second, next_deadline included; the steps of one work together "
            f"take {us(of_a_work)} µs, as much as {of_a_work / self.task_ns:.1f} asyncio tasks: "
            f"{1e9 / of_a_work:,.0f} works a second\n"
        )

    def growth(self, title: str, unit: str, by_size: Mapping[int, Best]) -> None:
        """The mean of each kind of step at each size."""
        sizes = sorted(by_size)
        table = self._table(title, "mean µs of a step", *(f"{size:,} {unit}" for size in sizes), "ratio")
        for kind in dict.fromkeys(kind for size in reversed(sizes) for kind in by_size[size].samples):
            found = [by_size[size].samples.get(kind) for size in sizes]
            means = [mean(times) if times else None for times in found]
            known = [each for each in means if each is not None]
            cells = ["-" if each is None else us(each) for each in means]
            table.add_row(kind, *cells, f"{known[-1] / known[0]:.2f}" if len(known) > 1 else "-")
        self.console.print(table)
        self.console.print(
            "ratio: the largest size against the smallest that has such steps; 1 is flat. With few works a worker that "
            f"is lost or joins has less than its {CREDIT} works to move, and a batch of 256 is not full.\n"
        )

    def worst(self, title: str, fewer: tuple[int, Mapping[str, int]], more: tuple[int, Mapping[str, int]]) -> None:
        table = self._table(title, "longest single step, µs", f"{fewer[0]:,} works", f"{more[0]:,} works", "ratio")
        for kind, longest in more[1].items():
            before = fewer[1].get(kind)
            cells = ("-", "-") if before is None else (us(before), f"{longest / before:.2f}")
            table.add_row(kind, cells[0], us(longest), cells[1])
        self.console.print(table)
        self.console.print(f"ratio: 1 is flat, {more[0] / fewer[0]:.0f} is linear in the works\n")

    def _table(self, title: str, first: str, *rest: str) -> Table:
        table = Table(title=title, title_justify="left", title_style="bold")
        table.add_column(first, no_wrap=True)
        for name in rest:
            table.add_column(name, justify="right")
        return table


COORDINATOR_STEPS_OF_A_WORK = (
    "submitted, given at once",
    "submitted, queued",
    "accepted",
    "ready",
    "fetched, nothing waits",
    "fetched, next work given",
)
WORKER_STEPS_OF_A_WORK = ("assigned", "succeeded", "acknowledged")


def main(
    quick: Annotated[
        bool, typer.Option(help="A smoke run of a few seconds: a tenth of the works and workers, one round.")
    ] = False,
) -> None:
    """Measure the machines of work coordination: cost of each kind of step, how it grows, the worst single steps.

    Figures are microseconds, and multiples of one asyncio task that does nothing. Nothing is asserted:
    compare runs on one computer with nothing else running. The full run takes about two minutes.
    """
    scale = 10 if quick else 1
    many, some, few = 100_000 // scale, 10_000 // scale, 1_000 // scale
    crew = 1_000 // scale
    rounds = 1 if quick else ROUNDS
    console = Console()
    console.width = max(console.width, WIDTH)  # into a file as well, with no figure cut off
    report = Report(console, task_round_trip_ns())
    console.print(f"the peer: one asyncio task, created and awaited: {us(report.task_ns)} µs\n")

    def measure(workers: int, works: int) -> Best:
        with console.status(f"{workers:,} workers, {works:,} works"):
            return life_and_loss(workers, works, rounds)

    life_and_loss(10, few, 1)  # warms up the interpreter
    by_works = {works: measure(crew, works) for works in (few, some, many)}
    report.steps(f"1. Coordinator: {crew:,} workers, {many:,} works", by_works[many].samples)
    report.rate(by_works[many].samples, many, COORDINATOR_STEPS_OF_A_WORK)

    report.growth(f"2. Growth with the works, at {crew:,} workers", "works", by_works)
    report.growth("   and at 10 workers", "works", {works: measure(10, works) for works in (few, some, many)})
    by_workers = {workers: measure(workers, some) for workers in (1, 10, 100, crew) if workers < crew}
    by_workers[crew] = by_works[some]
    report.growth(f"   Growth with the workers, at {some:,} works", "workers", by_workers)

    with console.status("worst cases"):
        worst = {works: worst_steps(works, rounds) for works in (some, many)}
    for works in worst:
        worst[works] |= {f"{crew:,} workers: {kind}": ns for kind, ns in by_works[works].longest.items()}
    report.worst("3. Worst single steps", (some, worst[some]), (many, worst[many]))
    console.print(f"a full garbage collection with {many:,} works alive: {collection_ns(many) / 1e6:,.0f} ms\n")

    for sessions in (1, 8):
        samples = best_of(rounds, partial(worker_life, sessions, some)).samples
        report.steps(f"4. Worker: 8 slots, 8 places, sessions: {sessions}", samples)
        report.rate(samples, some, WORKER_STEPS_OF_A_WORK)

    simulated_events(console, 500 // scale)


if __name__ == "__main__":
    typer.run(main)
