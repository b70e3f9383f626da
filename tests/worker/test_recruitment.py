"""A whole worker and a recruiter: registered while idle, reserved, searched with, released, left alone, drained."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.capabilities import CAPABILITIES
from quarterdeck.capability.settings import configuration
from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import ForcedEnd, StopSignals
from quarterdeck.http.client import HttpClient, Origin, split_address
from quarterdeck.recruiter.model import Recruited
from quarterdeck.recruiter.on_worker import addr_of
from quarterdeck.recruiter.routes import RecruiterRoute
from quarterdeck.recruiter.service import RecruiterService
from quarterdeck.scan.model import SCAN
from quarterdeck.search.client import HttpSearchWorkers
from quarterdeck.search.model import Chunk, FileKind, Piece, SearchSpec
from quarterdeck.search.ports import WorkerNotReachedError
from quarterdeck.security.tokens import SharedToken
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.worker.process import Worker
from tests.http.asked import served
from tests.http.client_scene import rest_of
from tests.patience import PATIENCE_S

TOKEN = SharedToken.from_text("known-to-worker-and-root")
GUARD = Guard(tls=None, token=TOKEN, insecure=False, reading_needs_token=False)


class Scene:
    def __init__(self, recruiter: RecruiterService, signals: StopSignals, logs: Path) -> None:
        self.recruiter = recruiter
        self.signals = signals
        self.logs = logs
        self.client = HttpClient(headers={}, stall_timeout_s=10)
        self.workers = HttpSearchWorkers(authorize=lambda _: TOKEN.authorization)

    @property
    def free(self) -> list[str]:
        return [registration.offer.addr for registration, _ in self.recruiter.free()]

    async def recruited(self) -> Recruited:
        await until(lambda: bool(self.free))
        (worker,) = self.recruiter.recruit(5)
        return worker

    async def search(self, worker: Recruited, query: str) -> list[Any]:
        """As a stranger."""
        body = json.dumps({"query": query, "chunk_paths": ["a.ndjson"], "data_path": str(self.logs)}).encode()
        headers = {
            "X-Reservation": worker.reservation,
            "Content-Type": "application/json",
            "Authorization": TOKEN.authorization,
        }
        answer = await self.client.post(_origin(worker), "/worker/chunksearch", body, headers)
        text = (await rest_of(answer)).decode()
        assert answer.status == 200, text
        return [json.loads(line) for line in text.splitlines()]

    async def scaling(self, worker: Recruited) -> dict[str, float]:
        return json.loads(await rest_of(await self.client.get(_origin(worker), "/monitor/scaling")))

    async def figures(self, worker: Recruited) -> str:
        return (await rest_of(await self.client.get(_origin(worker), "/metrics"))).decode()


def _origin(worker: Recruited) -> Origin:
    return split_address(f"http://{worker.addr}")[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0.005)


@asynccontextmanager
async def crew(folder: Path, **reserving: Any) -> AsyncGenerator[tuple[Scene, "asyncio.Task[int]"]]:
    recruiter = RecruiterService(MonotonicClock(), RandomIds())
    logs = folder / "logs"
    logs.mkdir()
    lines = [{"n": number, "level": "error" if number % 10 == 0 else "info"} for number in range(1000)]
    (logs / "a.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with served(RecruiterRoute(recruiter), stop_timeout_s=1) as server:
        settings = configuration(CAPABILITIES).worker.model_validate(
            {
                "data_dir": folder / "data",
                "node": "rack-7",
                "join": ("127.0.0.1:1",),
                "reconnect_first_s": 10,
                "reconnect_max_s": 10,
                "slots": 1,
                "kinds": (SCAN,),
                "recruiter": {"urls": (server.url,), "labels": ("big",), **reserving},
            }
        )
        with DataFolder(settings.data_dir) as data, StopSignals() as signals:
            scene, end = Scene(recruiter, signals, logs), ForcedEnd()
            running = asyncio.create_task(Worker(settings, data, GUARD, CAPABILITIES).run(signals, end))
            try:
                yield scene, running
                signals.first.set()
                assert await running == 0
            finally:
                recruiter.close()
                running.cancel()
                await asyncio.wait([running])
                end.disarm()
                await scene.client.close()
                await scene.workers.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test

    asyncio.run(bounded())


def test_a_worker_is_recruited_searches_and_is_free_again_when_it_was_released(tmp_path: Path) -> None:
    async def test() -> None:
        async with crew(tmp_path) as (s, _):
            worker = await s.recruited()
            assert (worker.node, worker.slots) == ("rack-7", 1)
            assert s.free == []
            assert len(await s.search(worker, "level=error")) == 100
            assert await s.search(worker, "level=error | count()") == [{"count": 100}]
            scaling = await s.scaling(worker)
            assert (scaling["reserved"], scaling["accepting_work"], scaling["searches_in_flight"]) == (1, 0, 0)
            assert "quarterdeck_worker_reserved 1.0" in await s.figures(worker)
            await s.workers.release(worker)
            again = await s.recruited()
            assert again.addr == worker.addr
            with pytest.raises(WorkerNotReachedError, match="reserved for another search"):
                await root_searches(s, worker)
            answer = await root_searches(s, again)
            assert answer.report.matches == 100
            await s.workers.release(again)
            await until(lambda: s.free == [worker.addr])
            assert (await s.scaling(worker))["accepting_work"] == 1

    run(test())


async def root_searches(s: Scene, worker: Recruited) -> Any:
    file = s.logs / "a.ndjson"
    size = file.stat().st_size
    chunk = Chunk(0, (Piece(str(file), FileKind.NDJSON, size, "", 0, size),))
    spec = SearchSpec("level=error", 1)
    return await s.workers.search(worker, spec, chunk, ask_about=(), on_progress=lambda _: None)


def test_a_worker_that_was_left_alone_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with crew(tmp_path, reserved_idle_s=0.1) as (s, running):
            await s.recruited()
            assert await running == 0

    run(test())


def test_a_worker_that_was_left_alone_registers_again_where_nobody_would_start_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with crew(tmp_path, reserved_idle_s=0.1, leave_when_abandoned=False) as (s, _):
            worker = await s.recruited()
            await until(lambda: s.free == [worker.addr])
            assert "quarterdeck_worker_abandoned_total 1.0" in await s.figures(worker)

    run(test())


def test_a_worker_that_is_told_to_stop_leaves_the_pool(tmp_path: Path) -> None:
    async def test() -> None:
        async with crew(tmp_path) as (s, running):
            await until(lambda: bool(s.free))
            s.signals.first.set()
            assert await running == 0
            await until(lambda: not s.free)

    run(test())


@pytest.mark.parametrize(
    "url, addr",
    [
        ("http://127.0.0.1:7072", "127.0.0.1:7072"),
        ("https://[::1]:7072", "[::1]:7072"),
        ("http://w1", "w1:80"),
        ("https://w1", "w1:443"),
    ],
)
def test_the_address_of_a_worker_is_its_host_and_port(url: str, addr: str) -> None:
    assert addr_of(url) == addr
