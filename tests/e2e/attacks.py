"""What somebody may do to a crew to get in, to starve others or to leave something behind. Each is small enough for a
test, and tells what it was answered."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import psutil

from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.link import LinkClosedError
from tests.e2e.crew import Coordinator, Crew, Member, Worker, until
from tests.e2e.door import Door, RefusedError, Scan
from tests.e2e.innocent import Question, Reached, light_query, light_scan, light_search
from tests.e2e.lake import Lake, fill
from tests.e2e.log_lines import Logs, write_logs
from tests.e2e.promql import Reply, answer
from tests.e2e.samples import Samples, Store

LIGHT: Final = Samples("light", series=40, times=120)
WIDE: Final = Samples("wide", series=300, times=200)
QUERY_MEMORY: Final = "16MiB"
"""The wide query needs more."""
LONG: Final = "SELECT count(*) AS n FROM range(100000000000) a(i), files WHERE hash(a.i + id) = 0"
"""Hours of work, in next to no memory, that can be interrupted at any time."""
RUNAWAYS: Final = (
    "SELECT list(range ORDER BY hash(range)) AS l FROM range(50000000)",
    "SELECT list(repeat('x', 100000000 + range::INT)) AS s FROM range(100)",
)
"""DuckDB counts the first; the second is the process's own."""
SETTINGS: Final = {
    "kinds": "leaf,scan",
    "duckdb_memory_bytes": "64MiB",
    "http_body_stall_s": 2,
    # Nobody starts a worker again that has left, and a root may be held up for as long as a machine is busy.
    "recruiter__leave_when_abandoned": False,
}
"""Of each worker."""

PAGES: Final[tuple[dict[str, str], ...]] = (
    {"Origin": "https://evil.example", "Content-Type": "text/plain"},
    {"Origin": "https://evil.example", "Content-Type": "application/json"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Content-Type": "text/plain"},
    {"Host": "evil.example:7070", "Content-Type": "application/json"},
)
"""What a browser sends for a page of somebody else, or for one whose name has come to mean this machine."""
REGISTER: Final = b'{"addr":"127.0.0.1:1","node":"n"}'
COSTLY: Final = (
    ("/recruiter/register", REGISTER),
    ("/recruiter/recruit", b'{"count":2}'),
    ("/v1/crew/w1/drain", b""),
    ("/v1/scan", b'{"sql":"SELECT 1","sources":[]}'),
    ("/v1/search", b'{"query":"*","sources":["/"]}'),
)
ON_WORKERS: Final = (("/worker/chunksearch", b"{}"), ("/worker/release", b"{}"))
_HEAD: Final = "POST {} HTTP/1.1\r\nHost: {}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n"
_TIMEOUT_S: Final = 100.0


class AnsweredError(AssertionError):
    """What must be refused was answered."""


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True, slots=True)
class Ground:
    """A crew, and what it is asked about."""

    coordinator: Coordinator
    workers: list[Worker]
    lake: Lake
    logs: Logs

    @property
    def door(self) -> Door:
        return self.coordinator.door

    @property
    def members(self) -> list[Member]:
        return [self.coordinator, *self.workers]

    def questions(self) -> list[Question]:
        """They go to where the coordinator is, whether it runs or not."""
        asked = Reached(self.door)
        return [light_query(asked, LIGHT), light_scan(asked, self.lake), light_search(asked, self.logs)]

    def engines(self) -> list[psutil.Process]:
        """Processes that the workers have made: hosts, and the engines that these have forked."""
        return [engine for worker in self.workers if worker.is_running for engine in engines_of(worker)]

    def wait_quiet(self) -> None:
        """Nothing is left of what was asked."""
        until(lambda: not self.coordinator.running(), "no query runs")
        until(lambda: not self._searches(), "no search runs")
        until(
            lambda: all(worker["in_flight"] == 0 for worker in self.coordinator.workers().values()),
            "no work is in flight",
        )
        until(lambda: not left_in(self.coordinator), "the coordinator has no file left")
        for worker in self.workers:
            until(lambda worker=worker: worker.busy == worker.queued == 0, f"{worker.name} has nothing to do")
            until(lambda worker=worker: not left_in(worker), f"{worker.name} has no file left")

    def _searches(self) -> list[Any]:
        return [one for one in self.door.get("/v1/searches") if one["state"] == "running"]


def set_out(crew: Crew, folder: Path, workers: int) -> Ground:
    """Starts a coordinator and workers, and brings what they are asked about."""
    lake, logs = fill(folder / "files", 8, 100), write_logs(folder / "logs", 2, 500)
    coordinator = crew.coordinator(
        metrics__query_memory_bytes=QUERY_MEMORY, metrics__query_work_rows=20_000, http_body_stall_s=2
    )
    store = Store.of(coordinator)
    for samples in (LIGHT, WIDE):
        store.put(samples, "default", 4, folder)
    coordinator.stay()
    hands = [
        crew.worker(f"w{number}", join=[coordinator.control], recruiter__urls=coordinator.http, **SETTINGS)
        for number in range(1, workers + 1)
    ]
    coordinator.wait_for(*hands)
    coordinator.wait_free(workers)
    return Ground(coordinator, hands, lake, logs)


def warm_up(ground: Ground) -> None:
    """All code and all samples are loaded, and have been used."""
    for question in ground.questions() * 3:
        assert question.is_right(question.ask())
    wide = WIDE.ask("$m * 2")
    assert answer(ground.door, wide).result == WIDE.truth(wide)
    ground.wait_quiet()


def left_in(member: Member) -> list[Path]:
    """Files of queries, which are there while these run."""
    folders = [member.folder / name for name in ("spool", "artifacts", "search")]
    return [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]


def engines_of(worker: Worker) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return worker.figures.children(recursive=True)
    return []


# Strangers


def knock(member: Member, path: str, body: bytes, headers: dict[str, str]) -> int:
    """The status of what a stranger is answered."""
    connection = Door(member.http, token=None).connect()
    try:
        connection.request("POST", path, body, headers)
        with connection.getresponse() as response:
            response.read()
            return response.status
    finally:
        connection.close()


def knock_everywhere(ground: Ground) -> set[int]:
    """As a web page, with and without the token that no page has, and as a process that does not know it."""
    shown = ground.door.headers()
    strange: list[dict[str, str]] = [
        *PAGES,
        *(page | shown for page in PAGES),
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json", "Authorization": "Bearer not-the-token-of-anybody"},
    ]
    seen = {knock(ground.coordinator, path, body, headers) for path, body in COSTLY for headers in strange}
    for worker in ground.workers:
        seen |= {knock(worker, path, body, headers) for path, body in ON_WORKERS for headers in strange}
    return seen


def dial_without_token(coordinator: Coordinator, times: int) -> set[str]:
    """What the control port says to each."""

    async def dial() -> set[str]:
        said: set[str] = set()
        for _ in range(times):
            dialer = GrpcDialer(Identity("w1"))
            try:
                await dialer.dial(coordinator.control)
                said.add("let in")
            except LinkClosedError as error:
                said.add(str(error))
            finally:
                await dialer.close()
        return said

    return asyncio.run(dial())


# SQL


def nested(depth: int) -> str:
    return f"SELECT {'(' * depth}1{')' * depth} AS n FROM files"


def refusal(door: Door, scan: Scan) -> RefusedError:
    """Of a scan that must not be answered."""
    try:
        door.scan(scan)
    except RefusedError as error:
        return error
    raise AnsweredError(scan.sql[:200])


def refused_search(door: Door, query: str, sources: list[str]) -> RefusedError:
    try:
        door.post("/v1/search", {"query": query, "sources": sources})
    except RefusedError as error:
        return error
    raise AnsweredError(query[:200])


@contextlib.contextmanager
def long_scan(ground: Ground) -> Generator[str]:
    """One that would take hours, by its id; whoever asked goes away at the end of the block."""
    with ground.door.begun(Scan(LONG, ground.lake.files[:1])):
        began_s = time.monotonic()
        seen: Counter[str] = Counter()

        def oldest() -> str:
            seen.update(str(query["query_id"]) for query in ground.coordinator.running())
            return max(seen, key=lambda query_id: seen[query_id], default="")

        until(lambda: oldest() and time.monotonic() > began_s + 1.0, "of those that run, one goes on and on")
        yield oldest()


def end_the_engine_of_a_long_scan(ground: Ground, times: int, timeout_s: float = 60) -> tuple[RefusedError, int]:
    """What its client is told at last, and how many engines were ended: those that compute on and on."""
    ended = 0
    with ThreadPoolExecutor(1, thread_name_prefix="long") as pool:
        told = pool.submit(refusal, ground.door, Scan(LONG, ground.lake.files[:1], timeout_s=timeout_s))
        while not told.done():
            busy = _burning(ground)
            if busy is not None and ended < times:
                with contextlib.suppress(psutil.NoSuchProcess):
                    busy.send_signal(signal.SIGKILL)
                    ended += 1
                    busy.wait(_TIMEOUT_S)
    return told.result(), ended


def _burning(ground: Ground) -> psutil.Process | None:
    """An engine that has used the processor all the while. Those of light queries pause between them."""
    burning = dict[psutil.Process, float]()
    for engine in ground.engines():
        with contextlib.suppress(psutil.NoSuchProcess):
            burning[engine] = engine.cpu_times().user
    for _ in range(3):
        threading.Event().wait(0.1)
        for engine, before_s in list(burning.items()):
            with contextlib.suppress(psutil.NoSuchProcess):
                burning[engine] = engine.cpu_times().user
            if burning[engine] < before_s + 0.02:
                del burning[engine]
    return next(iter(burning), None)


# PromQL


def ask_wide(ground: Ground) -> Reply:
    return answer(ground.door, WIDE.ask("$m * 2", step_s=0.3))


@contextlib.contextmanager
def flood(ground: Ground, clients: int) -> Generator[set[int]]:
    """More heavy queries than may run at once, again and again while the block runs; gives the statuses of answers."""
    wanted = WIDE.ask("max_over_time(sum by (n) (rate($m[5m]))[10m:2s])", step_s=5)
    over, statuses = threading.Event(), set[int]()

    def ask_on() -> None:
        while not over.is_set():
            statuses.add(answer(ground.door, wanted).status)

    with ThreadPoolExecutor(clients, thread_name_prefix="flood") as pool:
        asking = [pool.submit(ask_on) for _ in range(clients)]
        try:
            yield statuses
        finally:
            over.set()
    for each in asking:
        each.result()


def ask_chain(ground: Ground, links: int = 40) -> Reply:
    """Each link has twice as much text as the one before."""
    text = "$m"
    for _ in range(links):
        text = f'label_replace({text}, "job", "$1$1", "job", "(.*)")'
    return answer(ground.door, LIGHT.ask(text))


def many_selectors(count: int) -> bytes:
    return urlencode([("match[]", f"m{number}") for number in range(count)]).encode()


def many_matchers(count: int) -> bytes:
    """In one selector."""
    return urlencode({"match[]": "{" + ",".join(f'a{number}="b"' for number in range(count)) + "}"}).encode()


def ask_for_series(door: Door, body: bytes) -> int:
    """The status."""
    connection = door.connect()
    try:
        headers = {"Content-Type": "application/x-www-form-urlencoded", **door.headers()}
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
            connection.request("POST", "/api/v1/series", body, headers)
        with connection.getresponse() as response:
            response.read()
            return response.status
    finally:
        connection.close()


# Files


@contextlib.contextmanager
def fifos(ground: Ground) -> Generator[tuple[Path, Path]]:
    """One beside the Parquet files, one beside the logs. To open either would wait for ever."""
    found = (ground.lake.folder / "odd.parquet", ground.logs.folder / "odd.ndjson")
    for path in found:
        os.mkfifo(path)
    try:
        yield found
    finally:
        for path in found:
            path.unlink()


# Connections


@contextlib.contextmanager
def slow_bodies(member: Member, count: int, sent_bytes: int) -> Generator[list[socket.socket]]:
    """So many requests, of each of which a part of the body has been sent, and the rest never comes."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connection) for connection in _begin(member, count, sent_bytes)]


def _begin(member: Member, count: int, sent_bytes: int) -> Iterator[socket.socket]:
    parts = urlsplit(member.http)
    assert parts.hostname is not None
    shown = "".join(f"{name}: {value}\r\n" for name, value in member.door.headers().items())
    head = _HEAD.format("/v1/scan", parts.netloc, shown, 4 * 1024 * 1024).encode()
    for _ in range(count):
        connection = socket.create_connection((parts.hostname, parts.port or 0), _TIMEOUT_S)
        connection.settimeout(0.05)
        with contextlib.suppress(OSError):  # who has sent too much is refused, or not read
            connection.sendall(head + b"x" * sent_bytes)
        connection.settimeout(_TIMEOUT_S)
        yield connection
