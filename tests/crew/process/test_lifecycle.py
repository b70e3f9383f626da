"""How a process ends: by signals, by the loss of whoever started it, or by force when it hangs."""

import asyncio
import fcntl
import os
import resource
import signal
import sys
import termios
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pytest

from quarterdeck.crew.process.lifecycle import (
    EXIT_FORCED,
    EXIT_HURRIED,
    ForcedEnd,
    StopSignals,
    end_task,
    raise_file_limit,
    stop_if_broken,
)
from tests.crew.processes import said, started
from tests.http.asked import until
from tests.patience import PATIENCE_S

STOPS_IN_ORDER = """
    import sys
    from quarterdeck.crew.process.lifecycle import run_process

    async def main(signals, forced_end):
        print("up", flush=True)
        await signals.first.wait()
        print("first", flush=True)
        await signals.second.wait()
        print("second", flush=True)
        return 7

    sys.exit(run_process(main, LIFELINE))
"""


@dataclass
class Lifeline:
    """A pipe: the process has the reading end, the test holds the other."""

    reading: int
    held: BinaryIO

    def is_read(self) -> bool:
        """Whether all that was written has been read."""
        waiting = fcntl.ioctl(self.reading, termios.FIONREAD, bytes(4))
        return int.from_bytes(waiting, sys.byteorder) == 0


@pytest.fixture
def lifeline() -> Iterator[Lifeline]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as held:
        yield Lifeline(reading, held)
    os.close(reading)


# Files


@pytest.mark.parametrize(
    "limits, raised",
    [
        ((1024, 4096), (4096, 4096)),
        ((4096, 4096), None),
        ((1024, resource.RLIM_INFINITY), (1 << 20, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
        ((1 << 21, 1 << 22), None),
    ],
)
def test_a_process_may_open_as_many_files_as_its_system_allows(
    limits: tuple[int, int], raised: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[int, int]] = []

    def getrlimit(which: int) -> tuple[int, int]:
        return limits

    def setrlimit(which: int, to: tuple[int, int]) -> None:
        done.append(to)

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    raise_file_limit()
    assert done == ([] if raised is None else [raised])


def test_the_limit_is_raised_before_a_process_begins() -> None:
    script = """
        import resource
        from quarterdeck.crew.process.lifecycle import run_process

        async def main(signals, forced_end):
            print(*resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
            return 0

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        run_process(main)
    """
    with started(script) as process:
        soft, hard = map(int, said(process).split())
        assert soft == min(hard, 1 << 20) > 256


# Signals


@pytest.mark.parametrize("first, second", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)])
def test_the_first_signal_asks_for_an_orderly_stop_and_the_second_for_one_at_once(
    first: signal.Signals, second: signal.Signals
) -> None:
    with started(STOPS_IN_ORDER.replace("LIFELINE", "None")) as process:
        assert said(process) == "up"
        process.send_signal(first)
        assert said(process) == "first"
        process.send_signal(second)
        assert said(process) == "second"
        assert process.wait(PATIENCE_S) == 7


def test_a_process_stops_in_order_when_whoever_started_it_is_gone(lifeline: Lifeline) -> None:
    with started(STOPS_IN_ORDER.replace("LIFELINE", str(lifeline.reading)), pass_fds=(lifeline.reading,)) as process:
        assert said(process) == "up"
        lifeline.held.close()
        assert said(process) == "first"
        process.send_signal(signal.SIGTERM)
        assert said(process) == "second"
        assert process.wait(PATIENCE_S) == 7


def test_only_the_end_of_the_lifeline_counts_and_it_counts_once(
    lifeline: Lifeline, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def play() -> None:
        with StopSignals(lifeline.reading) as signals:
            lifeline.held.write(b"not yet")
            await until(lifeline.is_read)
            assert not signals.first.is_set()
            lifeline.held.close()
            async with asyncio.timeout(PATIENCE_S):
                await signals.first.wait()
            for _ in range(3):
                await asyncio.sleep(0)
            assert not signals.second.is_set()

    asyncio.run(play())
    assert caplog.messages == ["whoever started this process is gone"]


def test_a_lifeline_means_nothing_when_it_is_over(lifeline: Lifeline) -> None:
    async def play() -> None:
        with StopSignals(lifeline.reading) as signals:
            pass
        lifeline.held.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not signals.first.is_set()

    asyncio.run(play())


def test_a_lifeline_that_ends_after_a_signal_is_no_second_one(lifeline: Lifeline) -> None:

    async def play() -> None:
        with StopSignals(lifeline.reading) as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_S):
                await signals.first.wait()
            lifeline.held.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not signals.second.is_set()

    asyncio.run(play())


def test_signals_mean_what_they_meant_before_when_it_is_over() -> None:
    def meanings() -> list[object]:
        return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    async def play() -> None:
        with StopSignals():
            assert meanings() != before
        assert meanings() == before

    before = meanings()
    with asyncio.Runner() as runner:
        runner.get_loop().run_until_complete(play())


# The end by force


def test_a_loop_that_hangs_is_ended_by_force_and_says_so() -> None:
    code = """
        import time
        from quarterdeck.crew.process.lifecycle import run_process
        from quarterdeck.telemetry.logs import configure

        async def main(signals, forced_end):
            forced_end.arm(60)
            forced_end.arm(0.1)
            time.sleep(60)

        configure("json", "info")
        run_process(main)
    """
    with started(code) as process:
        _, log = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == EXIT_FORCED
        assert "ended by force" in log
        assert "Traceback" not in log


def test_a_log_that_nobody_reads_does_not_keep_a_process_from_its_forced_end() -> None:
    code = """
        import os, time
        from quarterdeck.crew.process.lifecycle import run_process
        from quarterdeck.telemetry.logs import configure, get_logger

        async def main(signals, forced_end):
            forced_end.arm(0.1)
            while True:
                get_logger("noise").info("x" * 1000)

        configure("json", "info")
        run_process(main)
    """
    with started(code) as process:
        assert process.wait(PATIENCE_S) == EXIT_FORCED


def test_a_thread_that_does_not_end_does_not_keep_the_process_after_its_loop_is_gone() -> None:
    code = """
        import sys, threading, time
        from quarterdeck.crew.process.lifecycle import run_process

        async def main(signals, forced_end):
            threading.Thread(target=time.sleep, args=(60,)).start()
            forced_end.arm(60)
            main.forced_end = forced_end
            return 0

        code = run_process(main)
        print("over", code, main.forced_end._timer.is_alive(), flush=True)
        main.forced_end.arm(0.05)
        sys.exit(code)
    """
    with started(code) as process:
        assert said(process) == "over 0 True"
        assert process.wait(PATIENCE_S) == EXIT_FORCED


def test_a_process_that_ends_in_time_has_its_own_exit_code_and_does_not_wait() -> None:
    code = """
        import sys
        from quarterdeck.crew.process.lifecycle import run_process

        async def main(signals, forced_end):
            forced_end.arm(0.05)
            replaced = forced_end._timer
            forced_end.arm(600)
            replaced.join()
            return 3

        sys.exit(run_process(main))
    """
    with started(code) as process:
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
        assert process.returncode == 3


def test_a_forced_end_that_is_disarmed_never_comes() -> None:
    forced_end = ForcedEnd()
    forced_end.disarm()
    forced_end.arm(0.05)
    forced_end.disarm()
    forced_end.disarm()  # and no thread of it is left, which every test is asked for


# A process that does not look at signals


LOOKS_AT_NO_SIGNAL = """
    import asyncio, sys, time
    from quarterdeck.crew.process import lifecycle

    async def main(signals, forced_end):
        print("starting", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            CLEANS_UP

    ARM
    lifecycle._HURRY_S = 0.1
    sys.exit(lifecycle.run_process(main))
"""


def test_a_second_signal_ends_a_process_that_does_not_look_at_them() -> None:
    code = LOOKS_AT_NO_SIGNAL.replace("CLEANS_UP", "print('cleaned up', flush=True)")
    # The forced end is only told of: on a busy machine it could come before the interpreter's own.
    code = code.replace("ARM", "lifecycle.ForcedEnd.arm = lambda _, after_s: print('armed', flush=True)")
    with started(code) as process:
        assert said(process) == "starting"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert [said(process), said(process)] == ["armed", "cleaned up"]
        assert process.wait(PATIENCE_S) == EXIT_HURRIED


def test_a_process_that_hangs_after_the_second_signal_is_ended_by_force() -> None:
    with started(LOOKS_AT_NO_SIGNAL.replace("CLEANS_UP", "time.sleep(600)").replace("ARM", "")) as process:
        assert said(process) == "starting"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == EXIT_FORCED


def test_a_part_that_breaks_stops_the_process_in_order_and_one_that_ends_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken() -> None:
        raise ValueError("a bug")

    async def ended(signals: StopSignals, coroutine: Coroutine[Any, Any, object], *, canceled: bool = False) -> bool:
        task = asyncio.create_task(coroutine, name="driver")
        task.add_done_callback(lambda done: stop_if_broken(done, signals))
        if canceled:
            await end_task(task)
        await asyncio.wait((task,))
        await asyncio.sleep(0)
        return signals.first.is_set()

    async def play() -> None:
        with StopSignals() as signals:
            assert not await ended(signals, asyncio.sleep(0))
            assert not await ended(signals, asyncio.Event().wait(), canceled=True)
            assert caplog.records == []
            assert await ended(signals, broken())
            assert not signals.second.is_set()

    asyncio.run(play())
    (record,) = caplog.records
    assert vars(record)["fields"] == {"part": "driver", "error": "ValueError('a bug')"}


def test_leaving_says_what_was_said_last_and_leaves_the_rest_to_the_system() -> None:
    code = """
        import atexit, sys
        from quarterdeck.crew.process.lifecycle import leave

        atexit.register(print, "the interpreter ends")
        print("last words")
        sys.stderr.write("last log")
        leave(9)
    """
    with started(code) as process:
        assert process.communicate(timeout=PATIENCE_S) == ("last words\n", "last log")
        assert process.returncode == 9


# The rest


def test_an_error_of_the_process_is_raised_to_whoever_runs_it() -> None:
    code = """
        from quarterdeck.crew.process.lifecycle import run_process

        async def main(signals, forced_end):
            raise ValueError("the settings make no sense")

        try:
            run_process(main)
        except ValueError as error:
            print(error)
    """
    with started(code) as process:
        assert process.communicate(timeout=PATIENCE_S) == ("the settings make no sense\n", "")


def test_memory_that_was_settled_is_not_taken_for_leaked_at_the_end() -> None:
    code = """
        import sys
        import duckdb
        from quarterdeck.crew.process.lifecycle import run_process, settle_memory

        async def main(signals, forced_end):
            main.connection = duckdb.connect()
            main.rows = main.connection.execute("SELECT 42").fetchall()
            settle_memory()
            return 0

        sys.exit(run_process(main))
    """
    with started(code) as process:
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
        assert process.returncode == 0
