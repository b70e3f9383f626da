"""Queries in line: in the order in which they came, not for ever, and no place is lost or given twice."""

import asyncio
import random

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.crew.admission import Admission, ClosedError, LineFullError, QueuedTooLongError
from tests.crew.played import LoopClock, now_s, played, settle
from tests.each_seed import each_seed


class Line:
    """Queries that run until they are told to end."""

    def __init__(self, at_once: int) -> None:
        self.admission = Admission(at_once, LoopClock(), what="query", setting="queries_at_once")
        self.at_once = at_once
        self.begun: list[str] = []
        self.waited_s: dict[str, float] = {}
        self.inside = 0
        self.most_inside = 0
        self._ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str, wait_limit_s: float = 100.0) -> "asyncio.Task[None]":
        self._ends[name] = asyncio.Event()
        return asyncio.create_task(self._run(name, wait_limit_s))

    async def _run(self, name: str, wait_limit_s: float) -> None:
        async with self.admission.admitted(wait_limit_s) as waited_s:
            self.begun.append(name)
            self.waited_s[name] = waited_s
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            try:
                await self._ends[name].wait()
            finally:
                self.inside -= 1

    def end(self, name: str) -> None:
        self._ends[name].set()

    async def check_whole(self) -> None:
        """All places can be had, and not one more."""
        await settle()
        assert (self.admission.running, self.admission.depth) == (0, 0)
        tasks = [self.ask(f"check {number}") for number in range(self.at_once + 1)]
        await settle()
        assert self.inside == self.at_once
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def canceled(task: "asyncio.Task[None]") -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


@played
async def test_they_run_in_the_order_in_which_they_came_and_no_more_than_allowed() -> None:
    line = Line(2)
    tasks: list[asyncio.Task[None]] = []
    for name in "abcde":
        tasks.append(line.ask(name))
        await settle()
    assert (line.begun, line.admission.running, line.admission.depth) == (["a", "b"], 2, 3)
    for name in "baedc":
        line.end(name)
        await settle()
    assert line.begun == list("abcde")
    assert line.most_inside == 2
    await asyncio.gather(*tasks)
    await line.check_whole()


@played
async def test_who_comes_when_a_place_gets_free_does_not_overtake_those_who_wait() -> None:
    line = Line(1)
    tasks = [line.ask("a")]
    await settle()
    tasks.append(line.ask("b"))
    await settle()
    line.end("a")
    tasks.append(line.ask("c"))
    await settle()
    assert line.begun == ["a", "b"]
    line.end("b")
    line.end("c")
    await asyncio.gather(*tasks)
    await line.check_whole()


@played
async def test_how_long_they_waited_is_told() -> None:
    line = Line(1)
    first = line.ask("a")
    await settle()
    second = line.ask("b")
    await settle()
    began_s = now_s()
    await asyncio.sleep(3.0)
    assert line.admission.oldest_s == pytest.approx(now_s() - began_s, abs=0.01)
    line.end("a")
    await settle()
    assert line.admission.oldest_s == 0.0
    line.end("b")
    await asyncio.gather(first, second)
    assert line.waited_s["a"] == pytest.approx(0.0, abs=0.01)
    assert line.waited_s["b"] == pytest.approx(3.0, abs=0.01)


@played
async def test_whose_time_is_over_is_told_so_and_the_next_one_moves_up() -> None:
    line = Line(1)
    first = line.ask("a")
    await settle()
    impatient, patient = line.ask("b", 2.0), line.ask("c")
    await settle()
    with pytest.raises(QueuedTooLongError, match="waited 2 s while 1 others ran") as caught:
        await impatient
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.DEADLINE_EXCEEDED, True)
    assert line.admission.depth == 1
    line.end("a")
    await settle()
    assert line.begun == ["a", "c"]
    line.end("c")
    await asyncio.gather(first, patient)
    await line.check_whole()


@played
async def test_who_is_canceled_while_waiting_leaves_the_line() -> None:
    line = Line(1)
    first = line.ask("a")
    await settle()
    second, third = line.ask("b"), line.ask("c")
    await settle()
    second.cancel()
    await canceled(second)
    assert line.admission.depth == 1
    line.end("a")
    await settle()
    assert line.begun == ["a", "c"]
    line.end("c")
    await asyncio.gather(first, third)
    await line.check_whole()


@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.parametrize("others", [0, 1])
def test_a_cancel_in_the_moment_in_which_the_turn_comes_neither_loses_nor_makes_a_place(
    cancel_first: bool, others: int
) -> None:
    @played
    async def test() -> None:
        line = Line(1)
        first = line.ask("a")
        await settle()
        second = line.ask("b")
        await settle()
        rest = [line.ask(f"c{number}") for number in range(others)]
        await settle()
        if cancel_first:
            second.cancel()
            first.cancel()  # gives its place back in the same tick
        else:
            first.cancel()
            second.cancel()
        await canceled(second)
        await settle()
        assert (line.admission.running, line.inside) == (others, others)
        for number, task in enumerate(rest):
            line.end(f"c{number}")
            await task
        await line.check_whole()

    test()


@played
async def test_errors_name_what_waits_and_the_setting_for_it() -> None:
    admission = Admission(1, LoopClock(), what="scan", setting="scans_at_once", waiting_for_each=1)
    async with admission.admitted(1.0):
        waits = asyncio.create_task(admission.admitted(2.0).__aenter__())
        await settle()
        with pytest.raises(LineFullError, match="the scan was not run: 1 others wait already, and 1 run") as refused:
            await admission.admitted(1.0).__aenter__()
        with pytest.raises(QueuedTooLongError, match=r"the scan was not run: it waited 2 s.*scans_at_once"):
            await waits
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.RESOURCE_EXHAUSTED, True)
    assert "scans_at_once" in refused.value.next_step
    assert (admission.running, admission.depth) == (0, 0)


@played
async def test_a_place_is_given_back_by_who_fails() -> None:
    admission = Admission(1, LoopClock(), what="query", setting="queries_at_once")
    for _ in range(3):
        with pytest.raises(KeyError):
            async with admission.admitted(1.0):
                raise KeyError
    assert admission.running == 0


@each_seed(range(30))
def test_whatever_happens_in_whichever_order_all_places_are_there_in_the_end(seed: int) -> None:
    @played
    async def test() -> None:
        chance = random.Random(seed)
        line = Line(chance.randint(1, 3))
        tasks: dict[str, asyncio.Task[None]] = {}
        for number in range(60):
            for _ in range(chance.randint(1, 4)):  # several things in one tick
                name = str(number)
                match chance.randint(0, 3):
                    case 0 | 1 if name not in tasks:
                        tasks[name] = line.ask(name, chance.choice((0.0, 0.1, 50.0)))
                    case 2 if tasks:
                        chance.choice(list(tasks.values())).cancel()
                    case _ if tasks:
                        line.end(chance.choice(list(tasks)))
                    case _:
                        pass
            if chance.random() < 0.7:
                await asyncio.sleep(chance.choice((0, 0, 0.05)))
            assert 0 <= line.admission.running <= line.at_once
            assert line.inside <= line.at_once
        for name in tasks:
            line.end(name)
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        await line.check_whole()

    test()


@played
async def test_a_closed_line_lets_nobody_in_and_those_who_wait_keep_their_place() -> None:
    line = Line(1)
    first = line.ask("first")
    await settle()
    second = line.ask("second")
    await settle()
    line.admission.close()
    late = line.ask("late")
    await settle()
    with pytest.raises(ClosedError, match="shutting down") as refused:
        await late
    assert refused.value.code is ErrorCode.UNAVAILABLE
    assert refused.value.retryable
    line.end("first")
    line.end("second")
    await asyncio.gather(first, second)
    assert line.begun == ["first", "second"]


@pytest.mark.parametrize("waiting_for_each, most", [(3, 6), (None, 100)])
def test_so_many_wait_for_each_place_and_the_next_one_is_told_how_many(waiting_for_each: int | None, most: int) -> None:
    @played
    async def test() -> None:
        named = {} if waiting_for_each is None else {"waiting_for_each": waiting_for_each}
        admission = Admission(2, LoopClock(), what="query", setting="queries_at_once", **named)
        async with admission.admitted(1.0):
            assert not admission.is_full
            async with admission.admitted(1.0):
                assert admission.is_full
                waiting = [asyncio.create_task(admission.admitted(9.0).__aenter__()) for _ in range(most)]
                await settle()
                assert admission.depth == most
                with pytest.raises(LineFullError, match=f"{most} others wait already, and 2 run"):
                    await admission.admitted(1.0).__aenter__()
                for each in waiting:
                    each.cancel()
                await asyncio.wait(waiting)
        assert (admission.running, admission.depth) == (0, 0)

    test()


@played
async def test_who_comes_late_in_the_life_of_a_process_has_waited_only_since_then() -> None:
    line = Line(1)
    await asyncio.sleep(50.0)
    first = line.ask("a")
    await settle()
    late = line.ask("b", 2.0)
    await asyncio.sleep(1.0)
    assert line.admission.oldest_s == pytest.approx(1.0, abs=0.01)
    with pytest.raises(QueuedTooLongError, match="it waited 2 s while 1 others ran"):
        await late
    line.end("a")
    await first
    await line.check_whole()
