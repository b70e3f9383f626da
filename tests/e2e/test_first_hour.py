"""The first hour with a wheel: installed by root, run by a user who has no home and may write nothing but one folder.

The package is built and installed as anybody gets it, not from this tree. There is one first start, which compiles what
root has not compiled: a few kernels. To compile all of them takes a minute of processor time, as `make kernels` does.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pytest

ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65534
WAIT_S: Final = 900.0
"""For a start that compiles, on a machine that has much else to do."""
LATER_S: Final = 180.0
AT_S: Final = 1_795_039_000
LEFT_TO_COMPILE: Final = 4
COPY: Final = "python"
"""The folder of a copy of Python, if there has to be one."""
_VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = [pytest.mark.xdist_group("e2e-first-hour"), pytest.mark.timeout(1800)]


# What there is to ask about, beside what `quarterdeck sample-data` makes


@dataclass(frozen=True)
class SampleData:
    metrics: str
    """A file, as the user names it."""
    rows: str
    """A folder with Parquet files."""
    logs: str
    """A folder with NDJSON files."""


def make_sample_data(work: Path) -> SampleData:
    (work / "metrics.om").write_text(
        "# TYPE up gauge\n" + "".join(f'up{{job="{job}"}} 1 {AT_S}\n' for job in ("api", "db", "web")) + "# EOF\n"
    )
    (work / "away").mkdir()
    (work / "rows").mkdir()
    for number in range(3):
        duckdb.execute(f"copy (select i from range(100) t(i)) to '{work}/rows/{number}.parquet'")
    (work / "logs").mkdir()
    with (work / "logs" / "app.ndjson").open("w") as file:
        for number in range(20):
            level, host = ("error" if number % 4 == 0 else "info"), f"host-{number % 2}"
            file.write(json.dumps({"ts": "2026-01-31T12:00:00Z", "level": level, "host": host}) + "\n")
    return SampleData("away/../metrics.om", "away/../rows", "away/../logs")


# The package and its user


@dataclass(frozen=True)
class User:
    """Who runs it."""

    uid: int | None
    """None is whoever runs the tests: only root can be somebody else."""
    environment: Mapping[str, str]
    work: Path
    """The one folder that is the user's own."""

    def popen(self, *command: str, output: Path | None = None) -> "subprocess.Popen[str]":
        with (output or Path(os.devnull)).open("w") as out:
            return subprocess.Popen(
                command,
                env=dict(self.environment),
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=out if output else subprocess.PIPE,
                stderr=subprocess.STDOUT if output else subprocess.PIPE,
                text=True,
                user=self.uid,
                group=self.uid,
                extra_groups=None if self.uid is None else [],
            )

    def can_run(self, python: Path) -> bool:
        try:
            process = self.popen(str(python), "-c", "import ssl, sqlite3")
        except OSError:
            return False
        process.communicate(timeout=LATER_S)
        return process.returncode == 0


@dataclass(frozen=True)
class Installed:
    """The command, and its user."""

    command: Path
    user: User

    @property
    def package(self) -> Path:
        (found,) = self.command.parents[1].glob("lib/python*/site-packages/quarterdeck")
        return found

    def run(self, *arguments: str) -> str:
        """What it wrote to stdout."""
        process = self.user.popen(str(self.command), *arguments)
        out, err = process.communicate(timeout=LATER_S)
        assert process.returncode == 0, f"{arguments} ended with {process.returncode}: {out}{err}"
        return out


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    place = Path(tempfile.mkdtemp(prefix="quarterdeck-first-hour-"))  # where every user can come, unlike pytest's
    place.chmod(0o755)
    work = place / "work"
    work.mkdir(mode=0o755)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "QUARTERDECK_RUN_DIR": f"{work}/run",
        "LD_LIBRARY_PATH": f"{place}/{COPY}/lib",
    }
    uid = NOBODY if os.geteuid() == 0 else None
    if uid is not None:
        os.chown(work, uid, uid)
    yield User(uid, environment, work)
    for folder in place.rglob("*"):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o755)
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def installed(user: User) -> Installed:
    """From a wheel, with the locked dependencies, in an environment that the user cannot write to."""
    place = user.work.parent
    uv = partial(_uv, ROOT / ".tools" / "bin" / "uv", place)
    uv("build", "--wheel", "--out-dir", str(place / "dist"), str(ROOT))
    (wheel,) = (place / "dist").glob("quarterdeck-*.whl")
    python = _python_for(user, place)
    uv("venv", "--python", str(python), str(place / "env"))
    wanted = place / "requirements.txt"
    uv("export", "--locked", "--no-dev", "--no-emit-project", "--output-file", str(wanted), "--project", str(ROOT))
    to = ("--python", str(place / "env" / "bin" / "python"))
    uv("pip", "install", "--compile-bytecode", *to, "--requirements", str(wanted), str(wheel))
    found = Installed(place / "env" / "bin" / "quarterdeck", user)
    _compile_ahead(found.package)
    if user.uid is None:
        for folder in (found.package, *found.package.rglob("*")):
            if folder.is_dir():
                folder.chmod(0o555)
    return found


def _compile_ahead(package: Path) -> None:
    """As far as this tree has compiled them, root has compiled all kernels but a few."""
    source = ROOT / "src" / "quarterdeck"
    for kernel in sorted(source.rglob("*.o"))[LEFT_TO_COMPILE:]:
        kept = package / kernel.relative_to(source)
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(kernel, kept)


def _uv(program: Path, place: Path, *arguments: str) -> None:
    found = str(program) if program.exists() else shutil.which("uv")
    assert found is not None, f"there is no uv: `make` puts one into {program}"
    # As [tool.uv] in pyproject.toml has it, which counts only for what is run within the project.
    told = subprocess.run([found, "--system-certs", *arguments], cwd=place, capture_output=True, text=True, check=False)
    assert told.returncode == 0, f"uv {arguments[0]} ended with {told.returncode}: {told.stdout}{told.stderr}"


def _python_for(user: User, place: Path) -> Path:
    """Ours, or a copy if it is in somebody's home: another build of Python would have to compile all kernels anew."""
    ours = Path(sys.base_prefix, "bin", _VERSION)
    return ours if user.can_run(ours) else _copied(ours, place / COPY)


def _copied(python: Path, to: Path) -> Path:
    """Its program and its own modules; the environment of the user says where its library is."""
    leave_out = shutil.ignore_patterns("site-packages", "test", "config-*", "__pycache__", "idlelib")
    shutil.copytree(python.parents[1] / "lib" / _VERSION, to / "lib" / _VERSION, ignore=leave_out, symlinks=True)
    (to / "bin").mkdir()
    program = to / "bin" / _VERSION
    shutil.copy(python.resolve(), program)
    for library in python.parents[1].glob("lib/libpython*.so*"):
        shutil.copy(library, to / "lib")
    return program


# The hour


class Up:
    """`quarterdeck up`, in a folder with `..` in its name."""

    def __init__(self, installed: Installed, output: str) -> None:
        self.installed = installed
        self._output = installed.user.work.parent / output
        began_s = time.monotonic()
        ports = ("--http-port", "0", "--control-port", "0")
        self._process = installed.user.popen(
            str(installed.command), "up", "--data-dir", "away/../data", "--workers", "2", *ports, output=self._output
        )
        try:
            self._wait_up()
        except BaseException:
            self.end()
            raise
        self.seconds = time.monotonic() - began_s
        found = re.search(r"ask it +(http://\S+)", self.said)
        assert found is not None
        self.url = found[1]

    @property
    def said(self) -> str:
        return self._output.read_text()

    def ask(self, *arguments: str) -> str:
        return self.installed.run(*arguments, "--url", self.url)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(LATER_S)

    def end(self) -> None:
        """If it runs. Its children end with it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _wait_up(self) -> None:
        until_s = time.monotonic() + WAIT_S
        while "Ctrl-C stops it" not in self.said:
            assert self._process.poll() is None, f"it ended: {self.said}"
            assert time.monotonic() < until_s, f"not up after {WAIT_S} s: {self.said}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def up(installed: Installed) -> Iterator[Up]:
    """After the first start, which compiles."""
    up = Up(installed, "first.txt")
    yield up
    up.end()


@pytest.fixture(scope="module")
def data(user: User) -> SampleData:
    return make_sample_data(user.work)


def test_the_first_start_compiles_once_with_a_word_and_keeps_it_in_the_data_folder(
    up: Up, user: User, record_property: Callable[[str, object], None]
) -> None:
    record_property("first_start_s", round(up.seconds, 1))
    print(f"the first start took {up.seconds:.0f} s")
    lines = up.said.splitlines()
    assert lines[0] == "compiling for this machine, once; this takes a minute or so"
    (kept,) = [line for line in lines if line.startswith("compiled ")]
    assert re.fullmatch(rf"compiled \d+ kernels in \d+ s; they are kept in {re.escape(str(user.work))}/data/code", kept)
    logs = "".join(log.read_text() for log in (user.work / "data" / "logs").glob("*.log"))
    assert "compiling for this machine" not in logs, "a process of the crew had to compile"
    compiled_here = {path.name for path in (user.work / "data" / "code").rglob("*.o")}
    assert len(compiled_here) >= LEFT_TO_COMPILE
    assert not compiled_here & {path.name for path in up.installed.package.rglob("*.o")}, "what root has is taken"


def test_status_shows_the_crew(up: Up) -> None:
    workers = json.loads(up.ask("status", "--json"))["crew"]["workers"]
    assert {(worker["worker_id"], worker["state"]) for worker in workers} == {
        ("worker-1", "accepting"),
        ("worker-2", "accepting"),
    }


def test_metrics_are_imported_and_asked_for(up: Up, data: SampleData) -> None:
    told = up.ask("import", data.metrics)
    assert "3 samples of 3 series" in told
    assert "/data/lake, the lake of the crew at " in told
    told = up.installed.run("import", data.metrics, "--data-dir", "away/../data")
    assert "was imported before" in told
    answer = json.loads(up.ask("query", "sum(up)", "--at", str(AT_S), "--format", "json"))
    assert answer["data"]["result"][0]["value"][1] == "3"


def test_rows_are_counted(up: Up, data: SampleData) -> None:
    assert up.ask("scan", "select count(*) as n from files", data.rows, "--format", "csv").splitlines()[1:] == ["300"]


def test_sample_data_is_made_and_every_command_that_it_proposes_has_an_answer(up: Up) -> None:
    told = up.ask("sample-data")
    proposed = [shlex.split(line) for line in told.splitlines() if line.startswith("  quarterdeck ")]
    assert {words[1] for words in proposed} == {"query", "metrics", "scan", "search"}
    for words in proposed:
        assert up.installed.run(*words[1:]).strip(), words


@pytest.mark.parametrize("where", ["on the crew", "alone"])
def test_logs_are_searched(up: Up, data: SampleData, where: str) -> None:
    search = ("search", "level=error | count() by host", data.logs, "--format", "ndjson")
    told = up.ask(*search) if where == "on the crew" else up.installed.run(*search, "--local")
    assert [json.loads(line) for line in told.splitlines()] == [{"host": "host-0", "count": 5}]


def test_a_worker_that_joins_as_up_proposes_compiles_nothing(up: Up) -> None:
    (proposed,) = (line.strip() for line in up.said.splitlines() if " worker --join " in line)
    words = shlex.split(proposed[proposed.index("quarterdeck worker") :])
    log = up.installed.user.work.parent / "one-more.txt"
    process = up.installed.user.popen(str(up.installed.command), *words[1:], output=log)
    try:
        until_s = time.monotonic() + LATER_S
        while len(json.loads(up.ask("status", "--json"))["crew"]["workers"]) < 3:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(LATER_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "compil" not in log.read_text()


def test_a_later_start_compiles_nothing(up: Up) -> None:
    assert up.stop() == 0
    assert up.said.splitlines()[-1] == "stopped"
    again = Up(up.installed, "second.txt")
    try:
        assert again.stop() == 0
        assert "compil" not in again.said
    finally:
        again.end()
