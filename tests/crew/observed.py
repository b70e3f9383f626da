"""Machines that are watched: by the observers of a process, as a driver would have it, and by whoever counts along."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.worker import WorkerConfig, WorkerMachine
from quarterdeck.simulation import hosts
from quarterdeck.simulation.scenario import generate
from quarterdeck.simulation.world import play
from tests.crew.played import now_s

AFTER_ALL_S = 1e9


def observe(machine: Any, *observers: Any) -> None:
    """From now on every step of the machine is seen by the observers, in the order of the steps."""
    step = machine.step

    def observed(event: Any, now: float) -> Any:
        effects = step(event, now)
        for observer in observers:
            observer.stepped(event, list(effects))
        return effects

    vars(machine)["step"] = observed


class LoopOrLaterClock:
    """The time of the simulated loop; after its end, the end of time."""

    def now(self) -> float:
        try:
            return now_s()
        except RuntimeError:
            return AFTER_ALL_S


class Tally:
    """Counts events, effects, and the messages in both, each by the name of its class."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()

    def stepped(self, event: Any, effects: list[Any]) -> None:
        _count(self.events, event)
        for effect in effects:
            _count(self.effects, effect)


def _count(into: Counter[str], thing: Any) -> None:
    into[type(thing).__name__] += 1
    message = getattr(thing, "message", None)
    if message is not None:
        into[type(message).__name__] += 1


def held_by(thing: object, *, apart_from: tuple[str, ...] = ()) -> dict[str, object]:
    """What an observer holds, itself or in its parts: all that can grow and is not empty, by name."""
    held: dict[str, object] = {}
    for name, value in vars(thing).items():
        if name in apart_from or type(value).__module__ not in ("builtins", "collections", type(thing).__module__):
            continue
        if isinstance(value, dict | set | list):
            held |= {name: value} if value else {}
        elif hasattr(value, "__dict__"):
            held |= held_by(value, apart_from=apart_from)
    return held


@contextmanager
def watched_processes(
    on_coordinator: Callable[[CoordinatorMachine], None], on_worker: Callable[[WorkerMachine], None]
) -> Generator[None]:
    """Every machine of a simulated process is shown before its first step."""

    def make_coordinator(config: CoordinatorConfig) -> CoordinatorMachine:
        machine = CoordinatorMachine(config)
        on_coordinator(machine)
        return machine

    def make_worker(config: WorkerConfig) -> WorkerMachine:
        machine = WorkerMachine(config)
        on_worker(machine)
        return machine

    with (
        patch.object(hosts, "CoordinatorMachine", make_coordinator),
        patch.object(hosts, "WorkerMachine", make_worker),
    ):
        yield


def play_seeds(seeds: range) -> None:
    """Plays worlds full of trouble, each to its end."""
    for seed in seeds:
        assert play(generate(seed)).violation is None
