"""Processes on the simulated loop: paused, killed, and never half alive."""

import asyncio
import contextvars
import gc
import logging
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from quarterdeck.simulation.failures import (
    SimulationDeadlock,
)
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.process import Process, ProcessState, current_process
from tests.simulation.looped import Trace, never

# ---- processes


async def _beat(log: Trace) -> None:
    while True:
        await asyncio.sleep(1)
        log.append(asyncio.get_running_loop().time())


def test_all_that_a_process_starts_is_of_it(loop: SimulatedLoop) -> None:
    process, seen = Process("worker-1"), dict[str, Process | None]()

    def note(where: str) -> None:
        seen[where] = current_process.get()

    async def child() -> None:
        note("child")
        loop.call_later(1, note, "timer")
        loop.call_soon(note, "soon")
        asyncio.get_running_loop().create_future().add_done_callback(print)

    async def main() -> None:
        note("main")
        await asyncio.create_task(child())

    loop.spawn(process, main())
    loop.call_soon(note, "simulator")
    loop.run_until_complete(asyncio.sleep(5))
    assert seen == {"main": process, "child": process, "timer": process, "soon": process, "simulator": None}


def test_a_process_starts_with_an_empty_context_and_the_simulator_can_step_out_of_one(loop: SimulatedLoop) -> None:
    variable, seen, b = contextvars.ContextVar("variable", default="empty"), Trace(), Process("b")

    async def other() -> None:
        seen.append((variable.get(), current_process.get()))

    async def main() -> None:
        variable.set("of main")
        loop.spawn(b, other())
        loop.call_later(1, lambda: seen.append((variable.get(), current_process.get())), context=loop.context_of(None))

    loop.spawn(Process("a"), main())
    loop.run_until_complete(asyncio.sleep(5))
    assert seen == [("empty", b), ("empty", None)]


def test_a_paused_process_does_nothing_and_catches_up_when_resumed(loop: SimulatedLoop) -> None:
    process, log, other = Process("worker-1"), Trace(), Trace()

    async def main() -> None:
        beat = loop.spawn(process, _beat(log))
        loop.spawn(Process("worker-2"), _beat(other))
        for due_s in (3.6, 3.7, 3.8):
            loop.call_at(due_s, log.append, f"due {due_s}", context=loop.context_of(process))
        await asyncio.sleep(2.5)
        loop.pause(process)
        assert process.state is ProcessState.PAUSED
        await asyncio.sleep(3)
        assert log == [1.0, 2.0]
        loop.resume(process)
        loop.resume(process)
        await asyncio.sleep(2)
        assert not beat.done()

    loop.run_until_complete(main())
    assert sorted(map(str, log[2:])) == ["5.5", "6.5", "due 3.6", "due 3.7", "due 3.8"]
    assert other == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_a_message_to_a_paused_process_waits_for_it(loop: SimulatedLoop) -> None:
    process, inbox, got = Process("worker-1"), asyncio.Queue[str](), Trace()

    async def receive() -> None:
        got.append((await inbox.get(), loop.time()))

    async def main() -> None:
        loop.spawn(process, receive())
        await asyncio.sleep(1)
        loop.pause(process)
        inbox.put_nowait("hello")
        await asyncio.sleep(1)
        assert got == []
        loop.resume(process)
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert got == [("hello", 2.0)]


def test_a_killed_process_runs_no_cleanup_and_leaves_no_trace(
    unraisable: list[object], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    log = Trace()
    shared: list[asyncio.Future[None]] = []
    caplog.set_level(logging.DEBUG)

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0.25)
        finally:
            log.append("generator")
            await asyncio.sleep(0)

    async def sleeper() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        finally:
            log.append("finally")
            asyncio.get_running_loop().call_soon(log.append, "soon")
            asyncio.get_running_loop().call_later(1, log.append, "later")
            task = asyncio.create_task(sleeper())
            logging.getLogger("asyncio").error("dead code speaks")
            await asyncio.sleep(0)
            await task
            log.append("after await in finally")

    async def iterate() -> None:
        async for number in numbers():
            assert number == 1

    async def wait_for_shared() -> None:
        shared.append(asyncio.get_running_loop().create_future())
        await shared[0]
        log.append("woken")

    async def hold_coroutine() -> None:
        unawaited = sleeper()
        holder: list[object] = [unawaited, Grumbler()]
        holder.append(holder)
        failed = asyncio.create_task(fail())
        await asyncio.sleep(100)
        await unawaited
        await failed

    class Grumbler:
        def __del__(self) -> None:
            raise ValueError("from a finalizer")

    async def fail() -> None:
        raise ValueError("seen by nobody, for its parent died")

    async def stubborn() -> None:
        for _ in range(3):
            with suppress(BaseException):
                await asyncio.sleep(100)
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeper())

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            for coroutine in (sleeper(), iterate(), wait_for_shared(), hold_coroutine(), stubborn()):
                group.create_task(coroutine)

    async def main(loop: SimulatedLoop) -> None:
        process = Process("worker-1")
        loop.spawn(process, parent())
        await asyncio.sleep(10)
        late = loop.spawn(process, sleeper())  # never starts
        loop.call_soon(loop.create_task, sleeper(), context=loop.context_of(process))
        loop.kill(process)
        loop.kill(process)
        loop.resume(process)
        assert process.state is ProcessState.DEAD
        shared[0].set_result(None)
        done, _ = await asyncio.wait([late], timeout=200)
        assert not done
        late.cancel()
        await asyncio.sleep(200)
        assert len(asyncio.all_tasks()) == 1
        gc.collect()

    for seed in range(20):
        loop = SimulatedLoop(random.Random(seed))
        loop.run_until_complete(main(loop))
        assert loop.errors == []
        assert loop.time() == 410
        steps = loop.steps
        gc.collect()
        assert log == []
        loop.close()
        assert loop.steps == steps
        assert not {"soon", "later", "woken"} & set(map(str, log))
        log.clear()
        shared.clear()
        gc.collect()
        assert log == []
    assert unraisable == []
    assert caplog.records == []
    assert recwarn.list == []


def test_time_does_not_move_for_the_dead(loop: SimulatedLoop) -> None:
    process = Process("worker-1")

    async def main() -> None:
        loop.spawn(process, asyncio.sleep(1_000))
        await asyncio.sleep(1)
        loop.kill(process)
        await never()

    with pytest.raises(SimulationDeadlock, match=r"at 1 s.*1 tasks wait"):
        loop.run_until_complete(main())


def test_a_paused_process_can_be_killed(loop: SimulatedLoop) -> None:
    process, log = Process("worker-1"), Trace()

    async def main() -> None:
        loop.spawn(process, _beat(log))
        await asyncio.sleep(1.5)
        loop.pause(process)
        await asyncio.sleep(3)
        loop.kill(process)
        loop.resume(process)
        await asyncio.sleep(3)

    loop.run_until_complete(main())
    assert log == [1.0]


def test_a_task_of_another_process_is_not_woken_by_a_death(loop: SimulatedLoop) -> None:
    process, log = Process("worker-1"), Trace()

    async def watch(task: asyncio.Task[None]) -> None:
        with suppress(BaseException):
            await task
        log.append("woken")

    async def main() -> None:
        task = loop.spawn(process, asyncio.sleep(5))
        loop.spawn(Process("worker-2"), watch(task))
        await asyncio.sleep(1)
        loop.kill(process)
        await asyncio.sleep(100)

    loop.run_until_complete(main())
    assert log == []


def test_a_process_that_kills_itself_gets_no_further_than_its_next_await(loop: SimulatedLoop) -> None:
    process, log = Process("worker-1"), Trace()

    async def suicide() -> None:
        loop.kill(process)
        task = asyncio.create_task(_beat(log))
        loop.call_soon(log.append, "soon")
        await asyncio.sleep(0)
        log.append(task)

    loop.spawn(process, suicide())
    loop.run_until_complete(asyncio.sleep(5))
    assert log == []


def test_a_dead_process_cannot_be_given_work(loop: SimulatedLoop) -> None:
    process = Process("worker-1")
    loop.kill(process)
    with pytest.raises(RuntimeError, match="worker-1 is dead"):
        loop.spawn(process, asyncio.sleep(1))


def test_a_generator_left_half_way_cleans_up_as_part_of_its_process(loop: SimulatedLoop) -> None:
    process, log = Process("worker-1"), Trace()

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            log.append((current_process.get(), loop.time()))

    async def main() -> None:
        async for _ in numbers():
            break

    loop.spawn(process, main())
    loop.run_until_complete(asyncio.sleep(5))
    assert log == [(process, 1.0)]


def test_closing_with_tasks_still_pending_is_silent(
    loop: SimulatedLoop, unraisable: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        for number in range(10):
            loop.spawn(Process(f"worker-{number}") if number % 2 else None, _beat([]))
        paused = Process("paused")
        loop.spawn(paused, _beat([]))
        loop.pause(paused)
        await asyncio.sleep(1)
        loop.call_soon(print, _beat([]))

    loop.run_until_complete(main())
    gc.collect()
    loop.close()
    gc.collect()
    assert unraisable == []
    assert caplog.records == []


def test_the_garbage_collector_and_hooks_are_given_back(loop: SimulatedLoop) -> None:
    hooks = sys.get_asyncgen_hooks()

    async def main() -> None:
        assert not gc.isenabled()
        raise KeyError

    with pytest.raises(KeyError):
        loop.run_until_complete(main())
    assert gc.isenabled()
    assert sys.get_asyncgen_hooks() == hooks
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
