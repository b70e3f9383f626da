"""Every route of every process, as the processes wire them, gets large requests: none holds up the event loop, and none
fails with an error that is not told.

What a turn of the loop takes is measured in processor time of its thread: another process on the machine does not add
to it. A route that is new is driven too; one that takes a body needs an entry in `large_input.LARGEST`.
"""

import asyncio
import time
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.coordinator import process as coordinator_process
from quarterdeck.coordinator.process import Coordinator
from quarterdeck.crew.process import pages
from quarterdeck.crew.process.doors import Doors
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import ForcedEnd, StopSignals
from quarterdeck.metrics import on_coordinator as metrics_on_coordinator
from quarterdeck.recruiter.capability import RECRUITER
from quarterdeck.scan.capability import SCAN
from quarterdeck.search import process as recruiter_module
from quarterdeck.search.capability import SEARCH
from quarterdeck.search.process import Recruiter
from quarterdeck.search.settings import RECRUITER_SETTINGS
from quarterdeck.security.tokens import SharedToken
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.worker import process as worker_module
from quarterdeck.worker.process import Worker
from tests.http.large_input import large_requests, status_of
from tests.patience import PATIENCE_S

TOKEN = SharedToken.from_text("what-the-large-requests-show")
GUARD = Guard(None, TOKEN, insecure=False)
MOST_CPU_S = 0.15
"""Of one turn of the loop. None takes a third of it; a stall is 0.1 s, and processors may be slow today."""
TOLD = frozenset({502, 503, 504})
"""Documented: nobody takes the work, a limit of time was reached."""


class Turns:
    """What the turns of an event loop took, each callback for itself."""

    def __init__(self) -> None:
        self.asked = ""
        self.slow: list[tuple[float, str, str]] = []

    @contextmanager
    def measured(self) -> Generator[None]:
        plain: Callable[[events.Handle], None] = events.Handle._run  # pyright: ignore[reportPrivateUsage]

        def timed(handle: events.Handle) -> None:
            began_s = time.thread_time()
            plain(handle)
            took_s = time.thread_time() - began_s
            if took_s > MOST_CPU_S:
                self.slow.append((took_s, self.asked, repr(handle)[:300]))

        events.Handle._run = timed  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        try:
            yield
        finally:
            events.Handle._run = plain  # pyright: ignore[reportPrivateUsage]


class Wired:
    """What a process has wired: its framework's application, and the prefixes of its other routes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.apps: list[FastAPI] = []
        self.raw: list[str] = []
        self.port = 0
        self.serving = asyncio.Event()
        opened = Doors.open_http
        wired = self

        class Kept(FastAPI):
            def __init__(self, **given: Any) -> None:
                super().__init__(**given)
                wired.apps.append(self)

        async def open_http(doors: Doors, *given: Any, **named: Any) -> Any:
            wired.raw += named.get("raw") or ()
            server = await opened(doors, *given, **named)
            wired.port = server.port
            return server

        async def open_control(doors: Doors, *given: Any) -> Any:
            return SimpleNamespace(port=1)  # nobody joins

        monkeypatch.setattr(pages, "FastAPI", Kept)
        monkeypatch.setattr(Doors, "open_control", open_control)
        monkeypatch.setattr(Doors, "open_http", open_http)

    def routes(self) -> Iterator[tuple[str, str]]:
        """Method and path of each."""
        (app,) = self.apps
        for route in _flat(app.routes):
            assert isinstance(route, Route), f"{route} is of a kind that nobody drives"
            for method in sorted(route.methods or ()):
                yield method, route.path
        for prefix in self.raw:
            yield "GET", f"{prefix}{{rest}}"


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Routers that were included stand among the routes of newer frameworks as themselves."""
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from _flat(included.routes)


@asynccontextmanager
async def running(run: Callable[[StopSignals, ForcedEnd], Any], is_up: Callable[[], bool]) -> AsyncGenerator[None]:
    signals, forced_end = StopSignals(), ForcedEnd()
    task = asyncio.create_task(run(signals, forced_end), name="process")
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not is_up():
                assert not task.done(), task.result()
                await asyncio.sleep(0.01)
        yield
    finally:
        signals.first.set()
        await asyncio.wait((task,))
        forced_end.disarm()
    task.result()


@pytest.fixture
def wired(monkeypatch: pytest.MonkeyPatch) -> Wired:
    for module in (coordinator_process, recruiter_module, worker_module):
        monkeypatch.setattr(module, "settle_memory", lambda: None)
    monkeypatch.setattr(metrics_on_coordinator, "warm_all", lambda: None)
    return Wired(monkeypatch)


def coordinator(folder: DataFolder, tmp_path: Path) -> Coordinator:
    settings = configuration(CAPABILITIES).coordinator.model_validate(
        {
            "data_dir": tmp_path / "data",
            "http_port": 0,
            "control_port": 0,
            "wait_limit_s": 0.05,
            "shutdown_grace_s": 0.0,
            "metrics": {"query_timeout_s": 20.0},
            "search": {"timeout_s": 20.0},
        }
    )
    return Coordinator(settings, folder, GUARD, CAPABILITIES)


def worker(folder: DataFolder, tmp_path: Path) -> Worker:
    capabilities = (SCAN, RECRUITER, SEARCH)
    settings = configuration(capabilities).worker.model_validate(
        {
            "data_dir": tmp_path / "data",
            "http_port": 0,
            "control_listen": "127.0.0.1:0",
            "recruiter": {"urls": ("http://127.0.0.1:9",)},
            "drain_max_s": 0.1,
            "kinds": SCAN.kinds,
        }
    )
    return Worker(settings, folder, GUARD, capabilities)


def recruiter(folder: DataFolder, tmp_path: Path) -> Recruiter:
    settings = RECRUITER_SETTINGS.model_validate(
        {"data_dir": tmp_path / "data", "http_port": 0, "shutdown_grace_s": 0.0, "search": {"timeout_s": 20.0}}
    )
    return Recruiter(settings, folder, GUARD)


@pytest.mark.parametrize("make", [coordinator, worker, recruiter], ids=["coordinator", "worker", "recruiter"])
def test_no_route_holds_up_the_event_loop_or_fails_whatever_it_is_asked(
    wired: Wired, tmp_path: Path, make: Callable[[DataFolder, Path], Any]
) -> None:
    turns, answers = Turns(), list[tuple[int, str]]()
    headers = {"Authorization": TOKEN.authorization}

    def drive(method: str, template: str) -> None:
        for request in large_requests(method, template):
            turns.asked = f"{method} {template}: {request.name}"
            status = status_of(wired.port, request, headers)
            # An answer that comes while much is still being sent may be lost with the connection.
            assert status or len(request.body) > 100_000, turns.asked
            answers.append((status, turns.asked))

    async def test(folder: DataFolder) -> None:
        process = make(folder, tmp_path)
        async with running(process.run, lambda: bool(list((tmp_path / "data").glob("addresses*")))):
            with turns.measured():
                for method, template in list(wired.routes()):
                    await asyncio.to_thread(drive, method, template)

    with DataFolder(tmp_path / "data") as folder:
        asyncio.run(test(folder))
    failed = [answer for answer in answers if answer[0] >= 500 and answer[0] not in TOLD]
    assert failed == []
    assert turns.slow == []
    assert len(answers) > 20
