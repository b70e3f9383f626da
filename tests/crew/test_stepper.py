"""The stepper: one event at a time, effects in order, and a timer that comes neither early nor never."""

import asyncio
from collections.abc import Callable

import pytest

from quarterdeck.crew.driver import Stepper, company
from tests.crew.played import now_s, played
from tests.patience import PATIENCE_S


class Clock:
    """The loop's time, and a leap."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return now_s() + self.ahead_s


class Recorder:
    """A machine that answers as it is told and writes down what it saw; `tick` is its time that passed."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.seen: list[str] = []
        self.at_s: list[float] = []
        self.done: list[str] = []
        self.observed: list[tuple[str, list[str]]] = []
        self.answers: dict[str, list[str]] = {}
        self.deadlines: list[float] = []
        self.on_effect: Callable[[str], None] = self.done.append
        self.stepper: Stepper[str, str] = Stepper(self, self.clock, self.execute, "tick", self)

    def step(self, event: str, now: float) -> list[str]:
        self.seen.append(event)
        self.at_s.append(now)
        if event == "tick":
            self.deadlines.pop(0)
        if event == "boom":
            raise LookupError(event)
        return self.answers.get(event, [])

    def execute(self, effect: str) -> None:
        self.on_effect(effect)

    def next_deadline(self) -> float | None:
        return self.deadlines[0] if self.deadlines else None

    def stepped(self, event: str, effects: list[str]) -> None:
        self.observed.append((event, effects))


@played
async def test_effects_are_executed_in_order_after_the_observer_saw_them() -> None:
    machine = Recorder()
    machine.answers = {"a": ["1", "2"]}
    machine.on_effect = lambda effect: machine.done.append(f"{effect} after {machine.observed}")
    machine.stepper.apply("a")
    assert machine.done == ["1 after [('a', ['1', '2'])]", "2 after [('a', ['1', '2'])]"]


@played
async def test_an_event_that_an_effect_causes_waits_until_the_step_is_over() -> None:
    machine = Recorder()
    machine.answers = {"a": ["1", "2"], "b": ["3"]}

    def execute(effect: str) -> None:
        if effect == "1":
            machine.stepper.apply("b")
            assert machine.seen == ["a"]
        machine.done.append(effect)

    machine.on_effect = execute
    machine.stepper.apply("a")
    assert machine.seen == ["a", "b"]
    assert machine.done == ["1", "2", "3"]


@played
async def test_it_wakes_the_machine_once_for_each_deadline() -> None:
    machine = Recorder()
    machine.deadlines = [2.0, 2.0, 5.0]
    machine.stepper.apply("a")
    await asyncio.sleep(10.0)
    assert machine.seen == ["a", "tick", "tick", "tick"]
    assert machine.at_s == pytest.approx([0.0, 2.0, 2.0, 5.0], abs=0.001)
    assert all(now >= deadline for now, deadline in zip(machine.at_s, [0.0, 2.0, 2.0, 5.0], strict=True))


@played
async def test_much_that_is_due_at_once_is_handled_in_a_few_turns_of_the_loop() -> None:
    machine = Recorder()
    machine.deadlines = [1.0] * 200
    turns: list[int] = []

    def turn() -> None:
        if len(turns) < 10:
            turns.append(len(machine.seen))
            asyncio.get_running_loop().call_soon(turn)

    machine.stepper.apply("a")
    await asyncio.sleep(0.9)
    asyncio.get_running_loop().call_at(1.000_1, turn)
    await asyncio.sleep(1.0)
    assert machine.seen == ["a", *["tick"] * 200]
    assert len({seen for seen in turns if 1 < seen < 201}) >= 1, "others had no turn meanwhile"


@played
async def test_nothing_more_that_is_due_is_handled_after_the_stop() -> None:
    machine = Recorder()
    machine.deadlines = [1.0] * 3
    machine.answers = {"tick": ["stop"]}
    machine.on_effect = lambda _: machine.stepper.stop()
    machine.stepper.apply("a")
    await asyncio.sleep(2.0)
    assert machine.seen == ["a", "tick"]


def test_an_error_on_waking_is_not_the_end_of_it() -> None:
    broken: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context["exception"]))
        machine = Recorder()
        machine.deadlines = [now_s() + after_s for after_s in (0.01, 0.02, 0.03)]
        machine.answers = {"tick": ["break"]}

        def execute(effect: str) -> None:
            raise LookupError(effect)

        machine.on_effect = execute
        machine.stepper.apply("a")
        async with asyncio.timeout(PATIENCE_S):
            while machine.seen != ["a", "tick", "tick", "tick"]:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)

    asyncio.run(main())
    assert [type(error) for error in broken] == [LookupError] * 3


@pytest.mark.parametrize(
    "outstanding, slots, together", [(1, 1, 0), (3, 1, 0), (6, 1, 0), (7, 1, 1), (11, 1, 2), (64, 1, 15), (48, 16, 0)]
)
def test_works_go_one_by_one_until_there_are_many(outstanding: int, slots: int, together: int) -> None:
    assert max(0, company(outstanding, slots)) == together


@played
async def test_a_deadline_that_comes_closer_is_met_and_one_that_moves_away_costs_no_step() -> None:
    machine = Recorder()
    machine.deadlines = [8.0]
    machine.stepper.apply("a")
    machine.deadlines = [3.0]
    machine.stepper.apply("b")
    await asyncio.sleep(1.0)
    machine.deadlines = [6.0]
    machine.stepper.apply("c")
    await asyncio.sleep(9.0)
    assert machine.seen == ["a", "b", "c", "tick"]
    assert machine.at_s[-1] == pytest.approx(6.0, abs=0.001)


@played
async def test_a_deadline_that_is_over_already_is_met_at_once() -> None:
    machine = Recorder()
    machine.clock.ahead_s = 100.0
    machine.deadlines = [50.0]
    machine.stepper.apply("a")
    await asyncio.sleep(0.001)
    assert machine.seen == ["a", "tick"]


@played
async def test_a_deadline_that_went_away_wakes_nobody() -> None:
    machine = Recorder()
    machine.deadlines = [1.0]
    machine.stepper.apply("a")
    machine.deadlines = []
    await asyncio.sleep(5.0)
    assert machine.seen == ["a"]


@played
async def test_an_error_of_the_machine_reaches_the_caller_and_the_next_event_is_taken() -> None:
    machine = Recorder()
    with pytest.raises(LookupError, match="boom"):
        machine.stepper.apply("boom")
    machine.stepper.apply("a")
    assert machine.seen == ["boom", "a"]


@played
async def test_nothing_wakes_after_the_stop() -> None:
    machine = Recorder()
    machine.stepper.stop()
    machine.deadlines = [1.0]
    machine.stepper.apply("a")
    machine.stepper.stop()
    await asyncio.sleep(5.0)
    assert machine.seen == ["a"]


@played
async def test_an_event_after_the_stop_is_taken_and_sets_no_timer() -> None:
    machine = Recorder()
    machine.deadlines = [1.0]
    machine.stepper.apply("a")
    machine.stepper.stop()
    machine.stepper.apply("b")
    await asyncio.sleep(5.0)
    assert machine.seen == ["a", "b"]


@played
async def test_an_effect_that_breaks_keeps_no_other_from_being_executed_nor_the_timer_from_being_set() -> None:
    machine = Recorder()
    machine.answers = {"a": ["1", "broken", "broken too", "2"]}
    machine.deadlines = [1.0]

    def execute(effect: str) -> None:
        if "broken" in effect:
            raise LookupError(effect)
        machine.done.append(effect)

    machine.on_effect = execute
    with pytest.raises(LookupError, match=r"^broken$"):
        machine.stepper.apply("a")
    assert machine.done == ["1", "2"]
    await asyncio.sleep(1.1)
    assert machine.seen == ["a", "tick"]
