"""`quarterdeck up`, `status` and `scan` together, with real processes: one crew for most of these tests."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

from quarterdeck.command import app
from quarterdeck.stores.data_folder import announced

pytestmark = pytest.mark.xdist_group("crew")  # where groups stay together, the crew is started once
QUARTERDECK = str(Path(sys.executable).with_name("quarterdeck"))
WAIT_S = 100.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition."""
    limit = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < limit, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)
    return value


def run(*arguments: str) -> Result:
    """In this process, which has loaded everything already."""
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


class Crew:
    """A running `quarterdeck up`, whose folder is written with a `..`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.output = folder / "output"
        written = f"{folder}/away/../data"
        command = [QUARTERDECK, "up", "--data-dir", written, "--http-port", "0", "--control-port", "0"]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen([*command, *arguments], stdout=output, stderr=output)

    def wait_up(self) -> "Crew":
        def look() -> bool:
            assert self.process.poll() is None, self.said
            return "Ctrl-C stops it" in self.said

        until(look, "the crew is up")
        return self

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def url(self) -> str:
        found = announced(self.data_dir)
        assert found is not None
        return str(found["http"])

    def pid_of(self, name: str) -> int:
        found = until(lambda: announced(self.data_dir / name), f"{name} is up")
        return int(found["pid"])

    def ask(self, *arguments: str) -> Result:
        return run(*arguments, "--url", self.url)

    def accepting(self) -> set[str]:
        told = self.ask("status", "--json")
        if told.exit_code:
            return set()
        workers = json.loads(told.stdout)["crew"]["workers"]
        return {worker["worker_id"] for worker in workers if worker["state"] == "accepting"}

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            finally:
                self.process.kill()
                self.process.wait()


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("crew"), "--workers", "2", "--set", "heartbeat_interval_s=0.5")
    try:
        yield crew.wait_up()
    finally:
        crew.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files, thirty rows each, of three hosts."""
    folder = tmp_path_factory.mktemp("data")
    for number in range(4):
        rows = f"select i, 'host-' || i % 3 as host from range({number * 30}, {number * 30 + 30}) t(i)"
        duckdb.execute(f"copy ({rows}) to '{folder}/{number}.parquet'")
    return folder


def test_the_welcome_says_where_it_is_and_what_to_try(crew: Crew) -> None:
    assert "Quarterdeck is up: 1 coordinator, 2 workers" in crew.said
    assert f"ask it    {crew.url}\n" in crew.said
    assert f"logs      {crew.data_dir}/logs/*.log\n" in crew.said
    tries = [line.strip() for line in crew.said.splitlines() if line.startswith("  quarterdeck ")]
    assert tries[0] == f"quarterdeck status --url {crew.url}"
    assert tries[1] == f"quarterdeck sample-data --url {crew.url}"
    assert tries[2] == f"quarterdeck import METRICS.om --url {crew.url}"
    assert tries[3] == f"quarterdeck metrics --url {crew.url}"
    assert tries[4].startswith("quarterdeck scan ")
    assert tries[5].startswith("quarterdeck search ")
    assert tries[6].startswith("quarterdeck worker --join 127.0.0.1:")
    assert {path.name for path in (crew.data_dir / "logs").iterdir()} == {
        "coordinator.log",
        "worker-1.log",
        "worker-2.log",
    }
    assert "worker is up" in (crew.data_dir / "logs" / "worker-1.log").read_text()
    assert "worker is up" not in crew.said


def test_status_shows_the_workers(crew: Crew) -> None:
    told = crew.ask("status")
    assert told.exit_code == 0
    for name in ("worker-1", "worker-2"):
        assert re.search(rf"^{name} +\S+ +accepting +0/1 +3 ", told.stdout, re.MULTILINE)


def test_all_workers_but_one_wait_to_be_recruited(crew: Crew) -> None:
    def free() -> list[str]:
        shown = {"Authorization": f"Bearer {crew.ask('token').stdout.strip()}"}
        with urllib.request.urlopen(urllib.request.Request(f"{crew.url}/recruiter/listfree", headers=shown)) as answer:
            return [worker["addr"] for worker in json.load(answer)["workers"]]

    (addr,) = until(free, "a worker is registered")
    found = announced(crew.data_dir / "worker-2")
    assert found is not None
    assert found["http"] == f"http://{addr}"


def test_what_is_imported_into_a_folder_with_dots_in_its_name_is_found_by_its_crew(crew: Crew, tmp_path: Path) -> None:
    (tmp_path / "up.om").write_text('# TYPE up gauge\nup{job="a"} 1 1700000000\nup{job="b"} 1 1700000000\n# EOF\n')
    told = run("import", str(tmp_path / "up.om"), "--data-dir", f"{crew.folder}/elsewhere/../data")
    assert "2 samples of 2 series" in told.stdout, told.stderr
    answer = crew.ask("query", "sum(up)", "--at", "1700000000", "--format", "json")
    assert json.loads(answer.stdout)["data"]["result"][0]["value"][1] == "2"
    assert f"data      {crew.data_dir}\n" in crew.said


def test_an_aggregate_over_all_files_is_merged(crew: Crew, data: Path) -> None:
    sql = "select host, count(*) as n, sum(i)::bigint as s from files group by host"
    merge = "select host, sum(n)::int as n, sum(s)::int as s from parts group by host order by host"
    told = crew.ask("scan", sql, str(data), "--files-per-work", "1", "--merge", merge, "--format", "csv")
    assert told.stdout == '"host","n","s"\n"host-0",40,2340\n"host-1",40,2380\n"host-2",40,2420\n'
    assert re.fullmatch(r"4 works on [12] workers?, 0 attempts repeated, 12 rows in \d+\.\d\d s\n", told.stderr), (
        told.stderr
    )
    assert told.exit_code == 0


def test_wrong_sql_is_told_in_one_line(crew: Crew, data: Path) -> None:
    told = crew.ask("scan", "select nothing from files", str(data))
    assert told.exit_code == 65
    assert told.stdout == ""
    assert len(told.stderr.splitlines()) == 1
    assert 'Referenced column "nothing" not found' in told.stderr


def test_a_folder_that_is_not_there_is_told_in_one_line(crew: Crew, tmp_path: Path) -> None:
    told = crew.ask("scan", "select 1 from files", str(tmp_path / "missing"))
    assert told.exit_code == 66
    assert len(told.stderr.splitlines()) == 1


def test_status_on_a_terminal_is_live_until_ctrl_c(crew: Crew) -> None:
    ours, theirs = pty.openpty()
    try:
        command = [QUARTERDECK, "status", "--url", crew.url]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
            seen = b""
            limit = time.monotonic() + WAIT_S
            while seen.count(b"Ctrl-C leaves") < 2:  # drawn, and drawn again
                assert time.monotonic() < limit, seen
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"worker-2" in seen


def test_a_second_crew_in_the_same_folder_is_refused(crew: Crew) -> None:
    told = run("up", "--data-dir", str(crew.data_dir), "--http-port", "0")
    assert told.exit_code == 69
    assert told.stdout == ""
    assert told.stderr.startswith(
        f"quarterdeck: the data folder {crew.data_dir} is in use: process {crew.process.pid} "
    )
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.parametrize("port", ["http", "control"])
def test_a_busy_port_is_told_in_one_line_and_nothing_is_left_running(crew: Crew, tmp_path: Path, port: str) -> None:
    found = announced(crew.data_dir)
    assert found is not None
    busy = str(found[port]).rpartition(":")[2]
    ports = {"http": "0", "control": "0", port: busy}
    folder = str(tmp_path / "data")
    told = run("up", "--data-dir", folder, "--http-port", ports["http"], "--control-port", ports["control"])
    assert told.exit_code == 69
    assert told.stdout == ""
    assert told.stderr.startswith(f"quarterdeck: cannot listen on 127.0.0.1:{busy}: another process listens there; ")
    assert len(told.stderr.splitlines()) == 1


def test_whoever_is_killed_is_started_again_and_the_crew_is_whole(crew: Crew, data: Path) -> None:
    before, url = {name: crew.pid_of(name) for name in ("coordinator", "worker-1")}, crew.url
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    for name, pid in before.items():
        until(lambda name=name, pid=pid: crew.pid_of(name) != pid, f"{name} is started again")
    until(lambda: crew.accepting() == {"worker-1", "worker-2"}, "both workers are back")
    assert crew.url == url
    told = crew.ask("scan", "select count(*) as n from files", str(data), "--format", "csv")
    assert told.stdout == '"n"\n120\n'
    for name in before:
        assert re.search(rf"^\d\d:\d\d:\d\d  {name} was ended by SIGKILL; next try in 0\.2 s$", crew.said, re.MULTILINE)
        until(lambda name=name: f"  {name} is up again\n" in crew.said, f"{name} is told to be up again")
    assert "worker-2 " not in crew.said.split("Ctrl-C stops it")[1]


def test_told_to_stop_it_stops_all_and_leaves_nothing_running(crew: Crew) -> None:
    pids = [crew.pid_of(name) for name in ("coordinator", "worker-1", "worker-2")]
    crew.process.terminate()
    assert crew.process.wait(WAIT_S) == 0
    assert crew.said.endswith("stopping: running queries may finish; Ctrl-C again ends them\nstopped\n")
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    for folder in (crew.data_dir, *(crew.data_dir / name for name in ("coordinator", "worker-1", "worker-2"))):
        assert announced(folder) is None


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    crew = Crew(tmp_path, "--workers", "1", "--logs")
    try:
        crew.wait_up()
        assert "worker is up" in crew.said, "--logs lets through what they log"
        pids = [crew.pid_of(name) for name in ("coordinator", "worker-1")]
        os.kill(pids[1], signal.SIGSTOP)  # it will not stop when it is told to
        crew.process.send_signal(signal.SIGINT)
        until(lambda: not Path(f"/proc/{pids[0]}").exists(), "the coordinator stops")
        assert crew.process.poll() is None, "it waits for the worker"
        crew.process.send_signal(signal.SIGINT)
        assert crew.process.wait(WAIT_S) == 130
        assert crew.said.endswith("\nended at once\n")
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        crew.close()


def test_told_to_stop_while_it_starts_it_stops(tmp_path: Path) -> None:
    crew = Crew(tmp_path, "--workers", "1")
    try:
        until(lambda: "starting a coordinator and 1 worker" in crew.said, "it starts")
        crew.process.terminate()
        assert crew.process.wait(WAIT_S) == 130
        assert "is up" not in crew.said
    finally:
        crew.close()
