"""A crew of real processes for tests: each with its own folder and log, started side by side, ended by its own pid.

Starting one takes seconds of processor time. So nothing waits for a start before it needs the process: `http` and
`control` do, and whoever starts several gets them in the time of one.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

import psutil

from quarterdeck.security.local_processes import RUN_DIR_VARIABLE, default_folder
from quarterdeck.stores.data_folder import announced
from tests.e2e.door import TOKEN, Door
from tests.e2e.logs import Log
from tests.patience import PATIENCE_S

T = TypeVar("T")
Document: TypeAlias = dict[str, Any]
"""JSON, as it comes."""

"""How long a test waits for what must happen before it fails. Only a broken thing takes that long."""
_LOOK_S = 0.01


def until(condition: Callable[[], T], what: str, within_s: float = PATIENCE_S) -> T:
    """Waits until the condition gives something true, and returns that."""
    deadline_s = time.monotonic() + within_s
    while not (found := condition()):
        if time.monotonic() >= deadline_s:
            raise AssertionError(f"after {within_s:g} s still not so: {what} (last: {found!r})")
        time.sleep(_LOOK_S)
    return found


PROGRAM: tuple[str, ...] = ("-m", "quarterdeck")


class Member:
    """One process. It can be ended in any way and started again, in the same folder."""

    program: tuple[str, ...] = PROGRAM

    def __init__(self, role: str, name: str, folder: Path, arguments: Iterable[str], lifeline: int, door: Door) -> None:
        self.role = role
        self.name = name
        self.folder = folder / name
        self.log = Log(folder / f"{name}.log")
        self.arguments = list(arguments)
        self._lifeline = lifeline
        self._door = door
        self._process: subprocess.Popen[bytes] | None = None
        self._addresses: Document = {}

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def figures(self) -> psutil.Process:
        """For memory, processor time, threads and descriptors."""
        return psutil.Process(self.pid)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # From start to end

    def start(self) -> Self:
        """Begins; `wait_up` waits until it can be reached."""
        assert not self.is_running
        self._addresses = {}
        command = [sys.executable, *self.program, self.role, "--data-dir", str(self.folder), *self.arguments]
        command += ["--lifeline", str(self._lifeline)]
        with self.log.path.open("ab") as stderr:
            stderr.write(b"\n")  # an earlier process may have been killed in the middle of a line
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(self._lifeline,),
                env=_clean_environment(),
                start_new_session=True,
            )
        return self

    @property
    def is_up(self) -> bool:
        """Whether it runs and can be reached."""
        if self.is_running and not self._addresses:
            self._addresses = self._look() or {}
        return self.is_running and bool(self._addresses)

    def wait_up(self) -> Self:
        """Waits until it has announced where it is."""
        if not self._addresses:
            self._addresses = until(self._look, f"{self.name} is up") or {}
        return self

    def _look(self) -> Document | None:
        assert self.is_running, f"{self.name} ended with {self.process.poll()} at its start:\n{self.log.tail()}"
        found = announced(self.folder)
        return found if found is not None and found["pid"] == self.pid else None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As the kernel does when memory is short: no last words."""
        if self.is_running:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        forget_announced(self.pid)

    def wait_end(self, within_s: float = PATIENCE_S) -> int:
        """The exit code."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended after {within_s:g} s:\n{self.log.tail()}") from None

    # What it says

    @property
    def http(self) -> str:
        return str(self.wait_up()._addresses["http"])

    @property
    def control(self) -> str:
        """Where it is dialled: a coordinator, and a worker that listens."""
        return str(self.wait_up()._addresses["control"])

    @property
    def door(self) -> Door:
        """Its HTTP server."""
        return self._door.at(self.http)


class Recruiter(Member):
    """A process that has a pool of workers: a recruiter by itself, or a coordinator."""

    def stay(self) -> Self:
        """Where it was is where it will be when it is started again."""
        self._keep_port("http_port", urlsplit(self.http).port)
        return self

    def _keep_port(self, name: str, port: object) -> None:
        with contextlib.suppress(ValueError):
            self.arguments[self.arguments.index(f"{name}=0")] = f"{name}={port}"

    def free(self) -> int:
        """How many workers are in its pool."""
        return int(self.door.get("/recruiter/stats")["len_free_pool"])

    def wait_free(self, number: int, within_s: float = PATIENCE_S) -> None:
        until(lambda: self.free() == number, f"{number} workers are free at {self.name}", within_s)


class Coordinator(Recruiter):
    def stay(self) -> Self:
        super().stay()
        self._keep_port("control_port", self.control.rpartition(":")[2])
        return self

    def workers(self) -> dict[str, Document]:
        """Who has a session, by id."""
        return {str(worker["worker_id"]): worker for worker in self.door.get("/v1/crew")["workers"]}

    def accepting(self) -> set[str]:
        """Who is in rotation."""
        return {name for name, worker in self.workers().items() if worker["state"] == "accepting"}

    def wait_for(self, *workers: "Worker") -> None:
        """Waits until all of them are in rotation."""
        for worker in workers:
            worker.wait_up()
        names = {worker.name for worker in workers}
        until(lambda: names <= self.accepting(), f"{sorted(names)} accept work at {self.name}")

    def wait_without(self, *names: str) -> None:
        """Until it knows that they are gone: what is asked next is given to nobody who has just left."""
        until(lambda: not self.workers().keys() & set(names), f"{', '.join(names)} left")

    def query(self, query_id: str) -> Document:
        return self.door.get(f"/v1/queries/{query_id}")

    def running(self) -> list[Document]:
        """The queries that have not ended."""
        return [query for query in self.door.get("/v1/queries") if query["state"] == "running"]

    def session_of(self, worker: "Worker") -> str:
        """The id of its newest session, as the log tells."""
        return str(self.log.find("worker registers", worker_id=worker.name)[-1]["session_id"])


class Worker(Member):
    @property
    def busy(self) -> int:
        """How many works it runs."""
        return int(self.door.get("/monitor/scaling")["slots_busy"])

    @property
    def queued(self) -> int:
        """How many works it has taken and not begun."""
        return int(self.door.get("/monitor/scaling")["queue_depth"])

    @property
    def artifact_files(self) -> list[Path]:
        return list((self.folder / "artifacts").iterdir())


class Crew:
    """Use it as a context: whatever was started in it has ended afterwards."""

    def __init__(
        self, folder: Path, door: Door | None = None, *, shares_token: bool = True, program: tuple[str, ...] = PROGRAM
    ) -> None:
        """Without `shares_token` each process makes a token of its own, unless a test gives it one. `program` is what
        Python runs: the command, or one with capabilities of tests."""
        self._program = program
        self.folder = folder
        self._door = door or Door()
        self.members: list[Member] = []
        self._read_end = self._write_end = -1
        self._shares_token = shares_token
        self._token_file = folder / "crew-token"

    def __enter__(self) -> Self:
        # When this process is gone, however that came about, so are its children.
        self._read_end, self._write_end = os.pipe()
        self._token_file.write_text(TOKEN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in self.members:
            if member.is_running:
                member.process.kill()
        for member in self.members:
            with contextlib.suppress(subprocess.TimeoutExpired):
                member.process.wait(PATIENCE_S)
                forget_announced(member.pid)
        os.close(self._read_end)
        os.close(self._write_end)
        complaints = [f"{member.name}: {line}" for member in self.members for line in member.log.complaints()]
        if error is not None:
            for member in self.members:
                error.add_note(f"--- {member.name}\n{member.log.tail()}")
        elif complaints:
            raise AssertionError("the processes complain:\n  " + "\n  ".join(complaints))

    def coordinator(self, name: str = "coordinator", *arguments: str, **settings: object) -> Coordinator:
        """Starts one on free ports."""
        settings = {**self._shared(), "coordinator_id": name, "http_port": 0, "control_port": 0, **settings}
        member = Coordinator(
            "coordinator", name, self.folder, [*arguments, *_set(settings)], self._read_end, self._door
        )
        return self._begin(member)

    def recruiter(self, name: str = "recruiter", **settings: object) -> Recruiter:
        """Starts one that is nothing else, on a free port."""
        arguments = _set({**self._shared(), "http_port": 0, **settings})
        return self._begin(Recruiter("recruiter", name, self.folder, arguments, self._read_end, self._door))

    def worker(self, name: str, *arguments: str, join: Iterable[str] = (), **settings: object) -> Worker:
        """Starts one that joins the coordinators at these addresses. Its name is its id."""
        joins = [argument for address in join for argument in ("--join", address)]
        # One work at a time on one thread: there are more workers than cores. Results go when they are acknowledged.
        # Scans alone, unless a test says otherwise: loading compiled code takes seconds.
        own = {"worker_id": name, "slots": 1, "duckdb_threads": 1, "artifact_linger_s": 0, "kinds": "scan"}
        settings = {**self._shared(), **own, **settings}
        settings.setdefault("reconnect_max_s", 0.5)
        member = Worker("worker", name, self.folder, [*joins, *arguments, *_set(settings)], self._read_end, self._door)
        return self._begin(member)

    def _shared(self) -> dict[str, object]:
        """One token for all, also where a proxy is between them."""
        return {"token_file": self._token_file, "reading_needs_token": False} if self._shares_token else {}

    def _begin(self, member: "MemberT") -> "MemberT":
        self.members.append(member)
        member.program = self._program
        member.start()
        return member


MemberT = TypeVar("MemberT", bound=Member)


def forget_announced(pid: int) -> None:
    """Of a process that was killed: a proxy of another test may get its port."""
    for file in default_folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            if json.loads(file.read_text())["pid"] == pid:
                file.unlink()


def _set(settings: dict[str, object]) -> list[str]:
    """As in the environment, two underlines go one level down."""
    return [
        argument for name, value in settings.items() for argument in ("--set", f"{name.replace('__', '.')}={value}")
    ]


def _clean_environment() -> dict[str, str]:
    """Ours, without settings that somebody made for their own processes."""
    kept = (RUN_DIR_VARIABLE,)
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("QUARTERDECK_")}
