"""Each kind of leak is caught, and what is not a leak is not."""

import asyncio
import os
import socket
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from tests.leaks import Snapshot, no_leaks

ROOT = Path(__file__).parent.parent


def test_a_running_thread_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks._THREAD_GRACE_S", 0.0)
    stop = threading.Event()
    before = Snapshot.take()
    thread = threading.Thread(target=stop.wait, name="stowaway")
    thread.start()
    assert before.left_behind() == ["running thread 'stowaway'"]
    stop.set()
    thread.join()


def test_a_thread_on_its_way_out_is_waited_for() -> None:
    before = Snapshot.take()
    stop = threading.Event()
    threading.Thread(target=stop.wait).start()
    threading.Timer(0.05, stop.set).start()
    assert before.left_behind() == []


def test_an_open_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks._CLOSING_GRACE_S", 0.0)
    before = Snapshot.take()
    with (tmp_path / "log").open("w"):
        (found,) = before.left_behind()
    assert found.endswith(str(tmp_path / "log"))
    assert before.left_behind() == []


def test_a_file_that_a_thread_of_arrow_is_about_to_close_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))

    def nobody_waits(threads: object) -> None:
        """Arrow's threads are none of Python's."""

    monkeypatch.setattr("tests.leaks._wait_for_end_of", nobody_waits)
    before = Snapshot.take()
    file = (tmp_path / "rows.parquet").open("w")
    closer = threading.Timer(0.05, file.close)
    closer.start()
    assert not any("open file" in line for line in before.left_behind())
    closer.join()


def test_an_open_socket_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.leaks._CLOSING_GRACE_S", 0.0)
    before = Snapshot.take()
    with closing(socket.socket()):
        (found,) = before.left_behind()
    assert "socket:" in found


def test_an_open_pipe_is_named() -> None:
    before = Snapshot.take()
    ends = os.pipe()
    found = before.left_behind()
    for end in ends:
        os.close(end)
    assert ["pipe:" in line for line in found] == [True, True]


def test_a_file_that_the_collector_closes_is_not_a_leak() -> None:
    class Holder:
        def __init__(self) -> None:
            self.me = self
            self.socket = socket.socket()

        def __del__(self) -> None:
            self.socket.close()

    before = Snapshot.take()
    Holder()
    assert before.left_behind() == []


def test_what_was_open_before_is_not_a_leak(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w"):
        before = Snapshot.take()
        assert before.left_behind() == []


def test_a_pending_task_of_a_closed_loop_is_named_before_the_collector_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.leaks._CLOSING_GRACE_S", 0.0)  # the loop's own stay open meanwhile
    before = Snapshot.take()
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(3600), name="forgotten")
    loop.call_soon(loop.stop)
    loop.run_forever()
    found = before.left_behind()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    assert any("pending task" in line and "forgotten" in line for line in found)
    assert before.left_behind() == []


def test_a_clean_asyncio_program_leaves_nothing() -> None:
    async def program() -> None:
        await asyncio.gather(asyncio.to_thread(int), asyncio.sleep(0))

    with no_leaks():
        asyncio.run(program())


LEAKING_TESTS = """
import asyncio
import gc
import socket

kept = []

def test_leaks_a_socket():
    kept.append(socket.socket())

def test_raises_where_nobody_can_catch():
    class Broken:
        def __del__(self):
            raise LookupError
    Broken()

def test_destroys_a_pending_task():
    loop = asyncio.new_event_loop()
    coroutine = asyncio.sleep(0)
    loop.create_task(coroutine)
    loop.close()
    del loop
    gc.collect()
    coroutine.close()

def test_never_retrieves_an_exception():
    async def fails():
        raise LookupError
    async def forgets():
        await asyncio.wait([asyncio.create_task(fails())])
    asyncio.run(forgets())
    gc.collect()

def test_is_clean():
    pass
"""


def test_the_real_configuration_fails_leaking_tests_and_only_those(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    pytester.makepyfile(LEAKING_TESTS)
    result = pytester.runpytest_subprocess(
        "-c", str(ROOT / "pyproject.toml"), "--rootdir=.", "-p", "no:cacheprovider", "."
    )
    # What is found after the test is an error of its teardown; what pytest itself notices during the test is a failure.
    result.assert_outcomes(passed=4, failed=1, errors=3)
    result.stdout.fnmatch_lines_random(
        [
            "*open file *: socket:*",
            "*PytestUnraisableExceptionWarning*",
            "*asyncio says: Task was destroyed but it is pending*",
            "*asyncio says: Task exception was never retrieved*",
        ]
    )
