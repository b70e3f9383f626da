"""What both drivers do: give a machine one event at a time, execute what it answers, wake it when its time comes."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Generic, Protocol, TypeVar

from quarterdeck.crew.ports import Clock

EventT = TypeVar("EventT")
EffectT = TypeVar("EffectT")
EventT_contra = TypeVar("EventT_contra", contravariant=True)


_GRAIN_S = 0.0001
"""A timer aims this much behind its deadline: one that fires a hair too early, by rounding, would spin."""
_DUE_AT_ONCE = 64
"""Timers handled before others have their turn on the loop."""


class Machine(Protocol[EventT_contra, EffectT]):
    def step(self, event: EventT_contra, now: float) -> list[EffectT]: ...

    def next_deadline(self) -> float | None: ...


class Observer(Protocol[EventT_contra, EffectT]):
    """Sees every step: for logs, metrics, and the simulator's invariants."""

    def stepped(self, event: EventT_contra, effects: list[EffectT]) -> None: ...


class Observers(Generic[EventT, EffectT]):
    """Several observers as one."""

    def __init__(self, *observers: Observer[EventT, EffectT]) -> None:
        self._observers = observers

    def stepped(self, event: EventT, effects: list[EffectT]) -> None:
        for observer in self._observers:
            observer.stepped(event, effects)


class Trouble(Protocol):
    """Hears what went wrong with a peer and is no event for the machine: for the log."""

    def __call__(self, peer: str, what: str) -> None: ...


def ignore_trouble(peer: str, what: str) -> None:
    """Where nobody reads the log."""


class Stepper(Generic[EventT, EffectT]):
    """Runs a machine on a clock. Not thread-safe: all of it happens on one event loop."""

    def __init__(
        self,
        machine: Machine[EventT, EffectT],
        clock: Clock,
        execute: Callable[[EffectT], None],
        time_passed: EventT,
        observer: Observer[EventT, EffectT] | None,
    ) -> None:
        self._machine = machine
        self._clock = clock
        self._execute = execute
        self._time_passed = time_passed
        self._observer = observer
        self._events: deque[EventT] = deque()
        self._stepping = False
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = float("inf")
        self._waking = False
        self._stopped = False

    def apply(self, event: EventT) -> None:
        """Steps the machine and executes the effects, in order. Events that effects cause wait for their turn."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                event = self._events.popleft()
                effects = self._machine.step(event, self._clock.now())
                if self._observer is not None:
                    self._observer.stepped(event, effects)
                self._execute_all(effects)
        finally:
            self._stepping = False
            self._arm()

    def _execute_all(self, effects: list[EffectT]) -> None:
        """All of them, also if one breaks: the machine reckons with every one. What broke first is raised then."""
        broken: Exception | None = None
        for effect in effects:
            try:
                self._execute(effect)
            except Exception as error:  # noqa: BLE001 - raised below
                broken = broken or error
        if broken is not None:
            raise broken

    def stop(self) -> None:
        """No more waking up, whatever is still applied."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Makes sure to wake in time. A timer that turns out too early finds nothing due, which is cheap."""
        if self._stopped or self._waking:
            return
        deadline = self._machine.next_deadline()
        if deadline is None or (self._timer is not None and self._armed_for <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        left_s = deadline - self._clock.now()
        delay_s = left_s + _GRAIN_S if left_s > 0 else 0.0
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._woken)

    def _woken(self) -> None:
        """Handles what is due, and leaves the loop to others now and then if that is much."""
        self._timer = None
        self._waking = True
        try:
            for _ in range(_DUE_AT_ONCE):
                deadline = self._machine.next_deadline()
                if self._stopped or deadline is None or deadline > self._clock.now():
                    break
                self.apply(self._time_passed)
        finally:
            self._waking = False
            self._arm()


def company(outstanding: int, slots: int) -> int:
    """How many works go in one envelope to or from a worker that has so many, from assigned to acknowledged: one by one
    as long as they fill its slots and the line it has by default, then a quarter of the surplus. An envelope costs as
    much as a small work, and what stands in a long line can wait."""
    return (outstanding - 3 * slots) // 4


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancels tasks and waits until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
