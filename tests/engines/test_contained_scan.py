"""What an engine's process does costs the query that made it do so, and nobody else."""

import copy
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.cancel import CancelToken, WorkCanceledError
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.engine_died import EngineDiedError
from quarterdeck.engines.engine_host import HostConfig
from quarterdeck.engines.engine_process import EngineProcesses
from quarterdeck.engines.limits import EngineLimits
from tests.engines import odd_engine
from tests.engines.idle_processes import one_host_of, only_its_host
from tests.engines.lake import rows_of, write_parquet
from tests.patience import PATIENCE_S

MIB = 1024 * 1024
LIMITS = EngineLimits(threads=1, memory_limit_bytes=64 * MIB, idle_databases=2)
ENDLESS_ROWS = "SELECT range AS n FROM range(100000000000)"


@pytest.fixture(scope="module")
def one_host() -> Iterator[ContainedScanner]:
    with one_host_of(ContainedScanner(LIMITS, at_once=2, engine=odd_engine.ENGINE)) as scanner:
        yield scanner


@pytest.fixture
def scanner(one_host: ContainedScanner) -> Iterator[ContainedScanner]:
    with only_its_host(one_host):
        yield one_host


@pytest.fixture
def own() -> Iterator[ContainedScanner]:
    """For a test that ends it, or its host."""
    scanner = ContainedScanner(LIMITS, at_once=2, engine=odd_engine.ENGINE)
    yield scanner
    scanner.close()


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came true"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    """Whether any of its threads is."""
    try:
        stats = [task.joinpath("stat").read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}").exists()  # a thread has ended just now
    return any(stat.rpartition(")")[2].split()[0] not in "ZX" for stat in stats)


def check_that_it_works(scanner: ContainedScanner) -> None:
    assert rows_of(scanner, "SELECT 7 AS seven") == [(7,)]


@contextmanager
def neighbour(scanner: ContainedScanner) -> Generator[None]:
    """Reads rows of an endless query beside the block, and at its end still does."""
    token, read = CancelToken(), threading.Semaphore(0)
    ended = list[Exception]()

    def pull() -> None:
        try:
            with scanner.scan(ENDLESS_ROWS, (), token) as rows:
                for _ in rows:
                    read.release()
        except QuarterdeckError as error:
            ended.append(error)

    thread = threading.Thread(target=pull)
    thread.start()
    try:
        assert read.acquire(timeout=PATIENCE_S)
        yield
        while read.acquire(blocking=False):
            pass
        assert read.acquire(timeout=PATIENCE_S), "it has stopped"
    finally:
        while thread.is_alive():
            token.cancel()
            thread.join(0.01)
    assert isinstance(ended[0], WorkCanceledError)


# Crashes


@pytest.mark.parametrize(
    "sql, how",
    [
        (odd_engine.CRASH, "ended by SIGSEGV"),
        (odd_engine.ABORT, "ended by SIGABRT"),
        (odd_engine.LEAVE, "ended with exit code 3"),
        (odd_engine.RAISE, "ended with exit code 1"),
    ],
)
def test_a_crash_costs_its_query_and_nobody_else(scanner: ContainedScanner, sql: str, how: str) -> None:
    with neighbour(scanner):
        with pytest.raises(EngineDiedError) as caught:
            rows_of(scanner, sql)
        check_that_it_works(scanner)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert caught.value.retryable
    assert caught.value.ended_its_engine
    assert f"the engine process {how}" in caught.value.message
    assert "while it ran this query" in caught.value.message


def test_a_process_killed_in_the_middle_of_its_rows_fails_that_query_alone(scanner: ContainedScanner) -> None:
    scanner.warm_up()
    before = set(scanner.processes)
    with neighbour(scanner):
        (mine,) = scanner.processes

        def read() -> None:
            with scanner.scan(ENDLESS_ROWS, (), CancelToken()) as rows:
                for _ in rows:
                    os.kill(mine, signal.SIGKILL)

        with pytest.raises(EngineDiedError, match="ended by SIGKILL"):
            read()
        check_that_it_works(scanner)
    assert len(before & set(scanner.processes)) == 1


def test_one_that_died_while_it_waited_is_no_querys_fault(scanner: ContainedScanner) -> None:
    scanner.warm_up()
    for pid in scanner.processes:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not is_running(pid))
    check_that_it_works(scanner)


def test_the_host_may_die_too(own: ContainedScanner) -> None:
    own.warm_up()
    children = own.processes
    assert own.host_pid is not None
    os.kill(own.host_pid, signal.SIGKILL)
    for pid in children:
        wait_until(lambda pid=pid: not is_running(pid))
    check_that_it_works(own)


def test_a_query_whose_engine_went_with_the_host_is_not_to_blame(own: ContainedScanner) -> None:
    def read() -> None:
        with own.scan(ENDLESS_ROWS, (), CancelToken()) as rows:
            host = own.host_pid
            assert host is not None
            os.kill(host, signal.SIGKILL)
            list(rows)

    with pytest.raises(EngineDiedError, match="ended with the one that starts engines") as caught:
        read()
    assert caught.value.retryable
    assert not caught.value.ended_its_engine
    assert copy.copy(caught.value).ended_its_engine is False
    check_that_it_works(own)


def test_a_host_that_ends_in_the_moment_of_an_order_is_replaced() -> None:
    """It takes no order any more, and has not yet ended for whoever looks."""
    config = HostConfig(odd_engine.ENGINE, LIMITS, 1024 * MIB)
    processes = EngineProcesses(config, memory_bytes=1024 * MIB, patience_s=1)
    try:
        processes.start().end()
        before = processes.host_pid
        control = processes._control  # pyright: ignore[reportPrivateUsage] - no other way is sure to hit the moment
        assert before is not None
        assert control is not None
        os.kill(before, signal.SIGSTOP)
        control.shutdown(socket.SHUT_RDWR)
        resumed = threading.Timer(0.05, os.kill, (before, signal.SIGCONT))
        resumed.start()
        processes.start().end()
        resumed.join()
        assert processes.host_pid != before
    finally:
        processes.close()


def test_an_engine_that_cannot_be_loaded_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    scanner = ContainedScanner(LIMITS, at_once=1, engine="tests.engines.nowhere:Engine")
    try:
        with pytest.raises(QuarterdeckError, match="no engine process could be started") as caught:
            check_that_it_works(scanner)
        assert caught.value.retryable
        assert "tests.engines.nowhere" in capfd.readouterr().err
    finally:
        scanner.close()


# Stalls


@pytest.mark.parametrize("sql", [odd_engine.DEAF, odd_engine.HOLD])
def test_an_engine_that_does_not_stop_within_a_second_loses_its_process(scanner: ContainedScanner, sql: str) -> None:
    scanner.warm_up()
    before = set(scanner.processes)
    with neighbour(scanner):
        token = CancelToken()
        (mine,) = scanner.processes
        canceled = threading.Event()

        def cancel() -> None:
            while not canceled.wait(0.01):
                token.cancel()

        def read() -> None:
            with scanner.scan(sql, (), token) as rows:
                list(rows)

        thread = threading.Timer(0.1, cancel)
        thread.start()
        began_s = time.monotonic()
        try:
            with pytest.raises(WorkCanceledError):
                read()
        finally:
            canceled.set()
            thread.join()
        assert time.monotonic() - began_s >= 1.0, "it was given its second"
        wait_until(lambda: not is_running(mine))
        check_that_it_works(scanner)
    assert mine not in scanner.processes
    assert len(before & set(scanner.processes)) == 1


def test_one_that_stops_when_told_keeps_its_process(scanner: ContainedScanner) -> None:
    scanner.warm_up()
    before = set(scanner.processes)
    with scanner.scan(ENDLESS_ROWS, (), CancelToken()) as rows:
        next(iter(rows))
    assert set(scanner.processes) == before


# Runaways


def test_a_query_that_takes_too_much_memory_is_refused_by_name(scanner: ContainedScanner) -> None:
    with neighbour(scanner):
        with pytest.raises(QuarterdeckError, match="duckdb_memory_bytes") as caught:
            rows_of(scanner, odd_engine.GROW)
        check_that_it_works(scanner)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(range ORDER BY hash(range)) AS l FROM range(50000000)",
        "SELECT list(repeat('x', 100000000 + range::INT)) AS s FROM range(100)",
    ],
)
def test_sql_that_takes_too_much_memory_is_refused_by_name(scanner: ContainedScanner, sql: str) -> None:
    """DuckDB counts the first; the second is the process's own."""
    with pytest.raises(QuarterdeckError, match="duckdb_memory_bytes") as caught:
        rows_of(scanner, sql)
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    assert not caught.value.retryable
    check_that_it_works(scanner)


def test_a_process_that_keeps_much_memory_is_replaced() -> None:
    scanner = ContainedScanner(
        EngineLimits(threads=1, memory_limit_bytes=1024 * MIB, idle_databases=2), at_once=1, engine=odd_engine.ENGINE
    )
    try:
        scanner.warm_up()
        (before,) = scanner.processes
        check_that_it_works(scanner)
        assert scanner.processes == [before]
        assert rows_of(scanner, odd_engine.KEEP) == [(1,)]
        assert scanner.processes == []
        check_that_it_works(scanner)
        assert scanner.processes != [before]
    finally:
        scanner.close()


def test_an_error_that_quotes_a_huge_value_is_cut(scanner: ContainedScanner) -> None:
    """It is logged, and travels: 100 MB of it cost every worker that ran it seconds, and its session."""
    with pytest.raises(QuarterdeckError, match="Invalid Input Error: xxx") as caught:
        rows_of(scanner, "SELECT error(repeat('x', 10000000))")
    assert caught.value.code is ErrorCode.WORK_FAILED
    assert len(caught.value.message) < 5_000
    check_that_it_works(scanner)


# What a process has, and how it ends


def test_a_process_has_no_secret_and_nothing_open_but_its_socket(
    scanner: ContainedScanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUARTERDECK_TOKEN", "secret")
    ((told,),) = rows_of(scanner, odd_engine.TELL)
    seen = json.loads(told)
    assert not [name for name in seen["environment"] if name.startswith("QUARTERDECK") or "TOKEN" in name]
    assert seen["sockets"] == 1
    assert seen["pipes"] <= 1, "its standard error, perhaps"
    assert seen["written"] == "File too large"
    assert seen["parent"] == scanner.host_pid


def test_processes_are_forked_from_one_that_has_a_single_thread(scanner: ContainedScanner) -> None:
    check_that_it_works(scanner)
    assert len(list(Path(f"/proc/{scanner.host_pid}/task").iterdir())) == 1


def test_this_process_loads_no_engine() -> None:
    script = (
        "import sys, quarterdeck.engines.contained_scan, quarterdeck.scan.executor; sys.exit('duckdb' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_same_files_are_read_by_the_process_that_knows_them(scanner: ContainedScanner, tmp_path: Path) -> None:
    scanner.warm_up()
    mine = write_parquet(tmp_path / "a.parquet", {"v": [1]})
    assert rows_of(scanner, "SELECT v FROM files", mine) == [(1,)]
    knows = scanner.processes[-1]
    check_that_it_works(scanner)
    assert scanner.processes[-1] != knows
    assert rows_of(scanner, "SELECT v FROM files", mine) == [(1,)]
    assert scanner.processes[-1] == knows


def test_closing_ends_all_processes(own: ContainedScanner) -> None:
    own.warm_up()
    pids = [*own.processes, own.host_pid]
    assert None not in pids
    own.close()
    assert [pid for pid in pids if pid is not None and is_running(pid)] == []
    with pytest.raises(RuntimeError, match="closed"):
        check_that_it_works(own)


@pytest.mark.parametrize("sql", ["SELECT 1 AS one", odd_engine.HOLD])
def test_they_do_not_outlive_whoever_asks(sql: str) -> None:
    script = f"""
import os, signal, threading, time
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.limits import EngineLimits
scanner = ContainedScanner(EngineLimits(1, 2**26, 2), at_once=2, engine={odd_engine.ENGINE!r})
scanner.warm_up()
print(scanner.host_pid, *scanner.processes, flush=True)
def ask():
    with scanner.scan({sql!r}, (), CancelToken()) as rows:
        list(rows)
threading.Thread(target=ask, daemon=True).start()
while len(scanner.processes) == 2 and {sql != "SELECT 1 AS one"}:
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGKILL)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], check=False, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    pids = [int(pid) for pid in told.stdout.split()]
    assert len(pids) == 3
    for pid in pids:
        wait_until(lambda pid=pid: not is_running(pid))
