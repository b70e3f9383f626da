"""The simulated loop: virtual time, seeded order, and ends that are never silent."""

import asyncio
import inspect
import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from quarterdeck.simulation.failures import (
    NotSimulated,
    SimulationDeadlock,
    SimulationOverrun,
    UnhandledInSimulation,
)
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.process import Process
from tests.each_seed import each_seed
from tests.simulation.looped import Trace, never, simulated

SEEDS = range(200)

Workload = Callable[[Trace], Coroutine[Any, Any, None]]


async def _queues(trace: Trace) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(2)

    async def produce(number: int) -> None:
        for item in range(5):
            await asyncio.sleep(item % 3)
            await queue.put(number * 10 + item)

    async def consume(number: int) -> None:
        while True:
            trace.append((number, await queue.get(), asyncio.get_running_loop().time()))
            queue.task_done()

    consumers = [asyncio.create_task(consume(number)) for number in range(3)]
    await asyncio.gather(*(produce(number) for number in range(4)))
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)


async def _groups(trace: Trace) -> None:
    """A failing child makes the group cancel the others in the order of a set of tasks."""

    async def child(number: int) -> None:
        try:
            await asyncio.sleep(1 if number == 7 else 100)
        finally:
            trace.append((number, [task.get_name() for task in asyncio.all_tasks() if task.done()]))
            await asyncio.sleep(0)
            trace.append(-number)
        raise ValueError(number)

    for _ in range(3):
        with suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(1, 20):
                    group.create_task(child(number))
    tasks = {asyncio.create_task(asyncio.sleep(1, number)) for number in range(20)}
    done, _ = await asyncio.wait(tasks)
    trace.extend(task.result() for task in done)
    for future in asyncio.as_completed([asyncio.create_task(asyncio.sleep(1, number)) for number in range(9)]):
        trace.append(await future)


async def _locks(trace: Trace) -> None:
    lock, condition, event, gate = asyncio.Lock(), asyncio.Condition(), asyncio.Event(), asyncio.Semaphore(2)

    async def visit(number: int) -> None:
        async with gate:
            try:
                async with asyncio.timeout(3), lock:
                    trace.append((number, "in"))
                    await asyncio.sleep(1)
            except TimeoutError:
                trace.append((number, "late"))
        async with condition:
            trace.append((number, "told"))
            condition.notify_all()
        event.set()

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(visit(number))
        await event.wait()
        async with condition:
            await asyncio.wait_for(condition.wait_for(lambda: len(trace) >= 16), 100)


def _run(workload: Workload, seed: int) -> tuple[Trace, int, float]:
    trace: Trace = []
    with simulated(seed) as loop:
        loop.run_until_complete(workload(trace))
        trace.append(loop.create_task(asyncio.sleep(0)).get_name())
        return trace, loop.steps, loop.time()


# ---- order and time


@pytest.mark.parametrize("workload", [_queues, _groups, _locks])
def test_the_same_seed_gives_the_same_run(workload: Workload) -> None:
    ballast: list[object] = []  # moves addresses and wakes the garbage collector between the two runs
    for seed in range(20):
        first = _run(workload, seed)
        ballast.extend([[] for _ in range(997)])
        assert _run(workload, seed) == first


def test_the_same_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    program = (
        "import runpy, sys\n"
        f"names = runpy.run_path({__file__!r})\n"
        "print([names['_run'](names[name], 3) for name in ('_queues', '_groups', '_locks')])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("workload", [_queues, _groups, _locks])
def test_different_seeds_give_different_orders(workload: Workload) -> None:
    assert len({str(_run(workload, seed)) for seed in range(10)}) > 5


def test_whatever_is_ready_runs_in_any_order() -> None:
    orders: set[tuple[int, ...]] = set()
    for seed in SEEDS:
        order: list[int] = []
        with simulated(seed) as loop:
            for number in range(3):
                loop.call_soon(order.append, number)
            loop.run_until_complete(asyncio.sleep(1))
        orders.add(tuple(order))
    assert len(orders) == 6


def test_timers_due_at_the_same_time_run_in_any_order() -> None:
    orders: set[tuple[int, ...]] = set()
    for seed in SEEDS:
        order: list[int] = []
        with simulated(seed) as loop:
            for number in range(3):
                loop.call_at(1.0, order.append, number)
            loop.call_at(0.5, order.append, 9)
            loop.run_until_complete(asyncio.sleep(2))
        orders.add(tuple(order))
    assert len(orders) == 6
    assert {order[0] for order in orders} == {9}


def test_nothing_is_drawn_when_there_is_no_choice() -> None:
    class Untouchable(random.Random):
        def random(self) -> float:
            raise AssertionError("drawn")

    loop = SimulatedLoop(Untouchable(1))

    async def alone() -> None:
        for _ in range(10):
            await asyncio.sleep(1)

    loop.run_until_complete(alone())
    assert loop.time() == 10.0
    loop.close()


def test_time_stands_still_while_something_is_ready(loop: SimulatedLoop) -> None:
    async def main() -> None:
        timer = loop.create_task(asyncio.sleep(0.001))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert loop.time() == 0.0
        assert not timer.done()
        await timer
        assert loop.time() == 0.001

    loop.run_until_complete(main())


def test_a_day_takes_no_time(loop: SimulatedLoop) -> None:
    loop.run_until_complete(asyncio.sleep(86_000))
    assert loop.time() == 86_000
    assert loop.steps == 3


def test_a_cancelled_timer_neither_runs_nor_moves_time(loop: SimulatedLoop) -> None:
    ran: list[int] = []
    handle = loop.call_later(5, ran.append, 1)
    handle.cancel()
    assert handle.cancelled()
    assert handle.when() == 5
    loop.call_soon(ran.append, 2).cancel()
    loop.run_until_complete(asyncio.sleep(1))
    with pytest.raises(SimulationDeadlock):
        loop.run_until_complete(loop.create_future())
    assert (ran, loop.time()) == ([], 1.0)


def test_cancelled_timers_do_not_pile_up(loop: SimulatedLoop) -> None:
    async def main() -> None:
        for _ in range(10_000):
            async with asyncio.timeout(1_000):
                await asyncio.sleep(0)
        assert len(loop._timers) < 200  # pyright: ignore[reportPrivateUsage] (nothing else shows it)

    loop.run_until_complete(main())


def test_a_timer_at_no_number_is_refused(loop: SimulatedLoop) -> None:
    with pytest.raises(ValueError, match="not a number"):
        loop.call_later(float("nan"), print)


# ---- asyncio's own primitives keep their promises in any order


@each_seed(SEEDS)
def test_primitives_keep_their_promises(seed: int) -> None:
    async def queue_keeps_the_order_of_one_producer() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(3)

        async def produce() -> None:
            for item in range(20):
                await queue.put(item)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            assert [await queue.get() for _ in range(20)] == list(range(20))

    async def group_waits_for_all_and_gathers_errors() -> None:
        ended: list[int] = []

        async def child(number: int) -> None:
            try:
                await asyncio.sleep(number)
                if number == 2:
                    raise ValueError("two")
            finally:
                ended.append(number)

        async def fail_as_a_group() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(child(number))

        with pytest.raises(ExceptionGroup) as caught:
            await fail_as_a_group()
        assert [str(error) for error in caught.value.exceptions] == ["two"]
        assert sorted(ended) == [0, 1, 2, 3, 4]

    async def timeouts_nest() -> None:
        began = asyncio.get_running_loop().time()
        reached = ["began"]
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                with suppress(TimeoutError):
                    async with asyncio.timeout(2):
                        await asyncio.sleep(10)
                        reached.append("end of the inner")
                reached.append("middle")
                await asyncio.sleep(10)
                reached.append("end of the outer")
        assert reached == ["began", "middle"]
        assert asyncio.get_running_loop().time() == began + 5

    async def wait_for_gives_the_result_or_cancels() -> None:
        cancelled: list[bool] = []

        async def slow(delay: float) -> str:
            try:
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
            return "done"

        assert await asyncio.wait_for(slow(1), 2) == "done"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow(2), 1)
        assert cancelled == [True]

    async def condition_wakes_all_and_lock_excludes() -> None:
        condition, inside, woken = asyncio.Condition(), 0, 0

        async def waiter() -> None:
            nonlocal inside, woken
            async with condition:
                await condition.wait()
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1
                woken += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(waiter())
            await asyncio.sleep(1)
            async with condition:
                condition.notify_all()
        assert woken == 5

    async def gather_keeps_order_and_wait_returns_the_first() -> None:
        assert await asyncio.gather(*(asyncio.sleep(5 - n, n) for n in range(5))) == [0, 1, 2, 3, 4]
        tasks = [asyncio.create_task(asyncio.sleep(n, n)) for n in (3, 1, 2)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [1]
        await asyncio.gather(*pending)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(queue_keeps_the_order_of_one_producer())
            group.create_task(group_waits_for_all_and_gathers_errors())
            group.create_task(timeouts_nest())
            group.create_task(wait_for_gives_the_result_or_cancels())
            group.create_task(condition_wakes_all_and_lock_excludes())
            group.create_task(gather_keeps_order_and_wait_returns_the_first())

    with simulated(seed) as loop:
        loop.run_until_complete(main())


def test_a_runner_can_use_the_loop() -> None:
    async def main() -> str:
        background = asyncio.create_task(asyncio.sleep(1_000))
        await asyncio.sleep(1)
        assert not background.done()
        return "done"

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(random.Random(1))) as runner:
        assert runner.run(main()) == "done"
        loop = runner.get_loop()
    assert loop.is_closed()


def test_a_closed_or_running_loop_says_so(loop: SimulatedLoop) -> None:
    async def main() -> None:
        assert loop.is_running()
        assert asyncio.get_running_loop() is loop
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_until_complete(loop.create_future())
        with pytest.raises(RuntimeError, match="running loop"):
            loop.close()

    loop.run_until_complete(main())
    assert not loop.is_running()
    loop.close()
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.run_until_complete(loop.create_future())


# ---- what is not simulated


def test_whatever_leaves_the_simulation_raises(loop: SimulatedLoop) -> None:
    refused = {
        name
        for name, _ in inspect.getmembers(asyncio.AbstractEventLoop, inspect.isfunction)
        if not name.startswith("_") and "refuse" in getattr(SimulatedLoop, name).__qualname__
    }
    for name in refused:
        with pytest.raises(NotSimulated, match=name):
            getattr(loop, name)()
    assert refused > {
        "add_reader",
        "add_signal_handler",
        "call_soon_threadsafe",
        "create_connection",
        "create_server",
        "getaddrinfo",
        "run_forever",
        "run_in_executor",
        "set_default_executor",
        "set_exception_handler",
        "set_task_factory",
        "sock_recv",
        "subprocess_exec",
    }


def test_no_method_of_asyncio_is_left_without_an_answer() -> None:
    names = {name for name in vars(asyncio.AbstractEventLoop) if not name.startswith("_")}
    assert names <= set(vars(SimulatedLoop))


def test_a_thread_raises(loop: SimulatedLoop) -> None:
    with pytest.raises(NotSimulated, match="run_in_executor"):
        loop.run_until_complete(asyncio.to_thread(print))


# ---- deadlock, overrun, unhandled errors


def test_a_deadlock_tells_who_waits_where(loop: SimulatedLoop) -> None:
    async def wait_forever() -> None:
        await asyncio.Event().wait()

    worker, stopped = Process("worker-1"), Process("worker-2")
    loop.spawn(worker, wait_forever(), name="stuck")
    loop.spawn(stopped, wait_forever(), name="halted")
    loop.pause(stopped)

    async def main() -> None:
        await asyncio.sleep(2.5)
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationDeadlock) as caught:
        loop.run_until_complete(main())
    story = str(caught.value)
    line = inspect.getsourcelines(wait_forever)[1] + 1
    assert "at 2.5 s" in story
    assert "3 tasks wait" in story
    assert f"stuck (worker-1): {__file__}:{line} in " in story
    assert "locks.py" in story
    assert "halted (worker-2, paused)" in story
    assert "task-3 (simulator)" in story


def test_a_deadlock_lists_twenty_tasks(loop: SimulatedLoop) -> None:
    async def main() -> None:
        await asyncio.gather(*(never() for _ in range(33)))

    with pytest.raises(SimulationDeadlock) as caught:
        loop.run_until_complete(main())
    assert str(caught.value).count("task-") == 20
    assert "and 14 more" in str(caught.value)


def test_a_task_that_failed_unseen_is_told_instead_of_the_deadlock_it_caused(loop: SimulatedLoop) -> None:
    async def fail() -> None:
        raise ValueError("first")

    failed = loop.create_task(fail())
    with pytest.raises(UnhandledInSimulation) as caught:
        loop.run_until_complete(never())
    assert isinstance(caught.value.__cause__, ValueError)
    assert "nothing is ready" in caught.value.__notes__[0]
    assert failed.done()


@pytest.mark.parametrize("delay", [100.0, float("inf")])
def test_too_much_virtual_time_is_an_overrun(delay: float) -> None:
    with simulated(time_limit_s=60) as loop, pytest.raises(SimulationOverrun, match=r"1 tasks wait\n.*asyncio"):
        loop.run_until_complete(asyncio.sleep(delay))


def test_too_many_steps_are_an_overrun() -> None:
    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with simulated(step_limit=1_000) as loop:
        with pytest.raises(SimulationOverrun, match=r"(?s)1000 steps.*in .*spin"):
            loop.run_until_complete(spin())
        assert loop.steps == 1_000


def test_an_exception_in_a_callback_ends_the_run_at_once(loop: SimulatedLoop) -> None:
    process = Process("worker-1")

    def fail() -> None:
        raise ValueError("broken")

    loop.call_later(1, fail, context=loop.context_of(process))
    with pytest.raises(UnhandledInSimulation, match=r"worker-1: exception in callback .*broken") as caught:
        loop.run_until_complete(asyncio.sleep(10))
    assert loop.time() == 1
    assert isinstance(caught.value.__cause__, ValueError)
    assert [(error.process, str(error.exception)) for error in loop.errors] == [("worker-1", "broken")]


def test_a_failed_task_that_nobody_holds_ends_the_run_at_once(loop: SimulatedLoop) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("broken")

    loop.spawn(Process("worker-1"), fail(), name="beat")
    with pytest.raises(UnhandledInSimulation, match=r"worker-1: .*never retrieved.*beat"):
        loop.run_until_complete(asyncio.sleep(10))
    assert loop.time() == 1


def test_a_failed_task_that_nobody_looked_at_fails_the_run_at_its_end(loop: SimulatedLoop) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    held = loop.spawn(Process("worker-1"), fail(), name="beat")
    with pytest.raises(UnhandledInSimulation, match=r"worker-1: nobody looked at .*beat"):
        loop.run_until_complete(asyncio.sleep(10))
    assert held.done()
    assert loop.time() == 10


def test_a_failed_task_that_someone_looked_at_is_no_error(loop: SimulatedLoop) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            await asyncio.create_task(fail())

    loop.run_until_complete(main())
    assert loop.errors == []


def test_the_exception_of_the_main_coroutine_is_raised_as_it_is(loop: SimulatedLoop) -> None:
    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        loop.run_until_complete(main())


def test_the_hook_sees_every_callback_and_its_exception_is_unchanged(loop: SimulatedLoop) -> None:
    class Violation(Exception):
        pass

    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        assert calls == loop.steps
        if calls == 7:
            raise Violation

    loop.after_callback = check
    with pytest.raises(Violation):
        loop.run_until_complete(_queues([]))
    assert loop.steps == 7
