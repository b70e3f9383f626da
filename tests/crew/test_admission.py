"""How many run at once, whoever gives up meanwhile and in whichever moment."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.crew.admission import Admission, QueuedTooLongError
from quarterdeck.crew.process.clocks import MonotonicClock


class Line:
    """An admission, those who are in it, and those who wait."""

    def __init__(self, at_once: int) -> None:
        self.admission = Admission(at_once, MonotonicClock())
        self.inside: list[str] = []
        self._over: dict[str, asyncio.Event] = {}

    async def come(self, name: str, wait_limit_s: float = 60.0) -> "asyncio.Task[None]":
        """As far as there is a place, or nothing to do but wait."""
        self._over[name] = asyncio.Event()

        async def stay() -> None:
            async with self.admission.admitted(wait_limit_s):
                self.inside.append(name)
                try:
                    await self._over[name].wait()
                finally:
                    self.inside.remove(name)

        task = asyncio.create_task(stay(), name=name)
        await settle()
        return task

    def leave(self, name: str) -> None:
        self._over[name].set()

    async def empty(self, *tasks: "asyncio.Task[None]") -> None:
        for over in self._over.values():
            over.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (self.admission.running, self.admission.depth, self.inside) == (0, 0, [])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def played(story: Callable[[Line], Awaitable[None]]) -> None:
    async def play() -> None:
        await story(Line(at_once=1))

    asyncio.run(play())


def test_those_who_wait_come_in_the_order_in_which_they_came() -> None:
    async def story(line: Line) -> None:
        tasks = [await line.come(name) for name in "abc"]
        assert (line.inside, line.admission.depth) == (["a"], 2)
        assert line.admission.oldest_s > 0
        line.leave("a")
        await settle()
        assert (line.inside, line.admission.depth, line.admission.running) == (["b"], 1, 1)
        await line.empty(*tasks)

    played(story)


def test_who_waits_too_long_is_told_and_has_left_the_line() -> None:
    async def story(line: Line) -> None:
        first = await line.come("a")
        late = await line.come("b", wait_limit_s=0.001)
        with pytest.raises(QueuedTooLongError) as told:
            await late
        assert told.value.code is ErrorCode.DEADLINE_EXCEEDED
        assert line.admission.depth == 0
        await line.empty(first)

    played(story)


def test_who_gives_up_waiting_leaves_the_line_and_takes_nobodys_place() -> None:
    async def story(line: Line) -> None:
        tasks = [await line.come(name) for name in "abc"]
        tasks[1].cancel()
        await settle()
        assert (line.admission.depth, line.admission.running) == (1, 1)
        line.leave("a")
        await settle()
        assert line.inside == ["c"]
        await line.empty(*tasks)

    played(story)


def test_who_gives_up_in_the_moment_in_which_a_place_is_free_takes_nobodys_place() -> None:
    async def story(line: Line) -> None:
        tasks = [await line.come(name) for name in "abcd"]
        line.leave("a")
        tasks[1].cancel()  # when the place is free, it still stands in the line
        tasks[2].cancel()
        await settle()
        assert (line.inside, line.admission.running, line.admission.depth) == (["d"], 1, 0)
        tasks.append(await line.come("e"))
        assert line.inside == ["d"], "one at a time"
        await line.empty(*tasks)

    played(story)


def test_who_gives_up_when_its_turn_has_come_hands_it_on() -> None:
    async def story(line: Line) -> None:
        tasks = [await line.come(name) for name in "abc"]
        line.leave("a")
        while line.admission.depth == 2:  # noqa: ASYNC110 - the moment matters
            await asyncio.sleep(0)
        tasks[1].cancel()  # the place is its own, and it does not know yet
        await settle()
        assert (line.inside, line.admission.running, line.admission.depth) == (["c"], 1, 0)
        await line.empty(*tasks)

    played(story)
