"""A worker over HTTP: searches for who has reserved it, gone when its client is, released when it is told."""

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.http.client import Answer, HttpClient, Origin
from quarterdeck.http.errors import add_error_handlers
from quarterdeck.recruiter.agent import ReservationAgent
from quarterdeck.recruiter.machine import reservation_effects as ef
from quarterdeck.recruiter.machine import reservation_events as ev
from quarterdeck.recruiter.machine.reservation import ReservationMachine
from quarterdeck.recruiter.machine.reservation_config import ReservationConfig
from quarterdeck.recruiter.model import Directive, Offer, Recruited
from quarterdeck.recruiter.ports import Registered
from quarterdeck.search import worker_routes
from quarterdeck.search.client import HttpSearchWorkers
from quarterdeck.search.executor import ChunkExecutor
from quarterdeck.search.frames import CONTENT_TYPE, FrameDecoder, FrameKind, decode_progress
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, FileProblem, Piece, SearchSpec
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.search.ports import WorkerLostError, WorkerNotReachedError
from quarterdeck.search.worker_routes import ChunkService, worker_router
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.crew.played import LoopClock
from tests.http.asked import served, until
from tests.http.client_scene import rest_of
from tests.patience import PATIENCE_S
from tests.search.played_search import FULL, PlayedGatherer, PlayedSearcher
from tests.stores.budgets import small_budget


class OneReservation:
    """A recruiter that reserves once, when the test says so."""

    def __init__(self) -> None:
        self.reserve = asyncio.Event()

        self.tenant: str | None = None
        """For whom; None as a recruiter says it that knows no tenants."""

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        await self.reserve.wait()
        self.reserve = asyncio.Event()
        return Registered(Directive.RESERVED, "r1", tenant=self.tenant)


class Scene:
    def __init__(self, folder: Path, config: ReservationConfig, beat_s: float) -> None:
        self.registry = OneReservation()
        self.accepting: list[bool] = []
        self.machine = ReservationMachine(config)
        self.agent = ReservationAgent(
            self.machine,
            Offer(config.addr, "n"),
            self.registry,
            poll_s=30,
            clock=LoopClock(),
            chance=lambda: 0.5,
            set_accepting=self.accepting.append,
            leave=lambda why: None,
            observer=self,
        )
        self.events: list[ev.Event] = []
        objects = ObjectStores()
        cache = ParquetCache(folder / "cache", small_budget(folder / "artifacts"), objects)
        self.searcher = PlayedSearcher()
        self.executor = ChunkExecutor(self.searcher, PieceOpener(objects, cache), slots=2)
        self.gatherer = PlayedGatherer()
        service = ChunkService(
            self.agent, self.executor, objects, lambda spec: self.gatherer, wall_us=lambda: 77, beat_s=beat_s
        )
        self.app = FastAPI()
        self.app.include_router(worker_router(lambda: service))
        add_error_handlers(self.app)
        self.file = folder / "a.ndjson"
        self.file.write_bytes(b"{}\n")
        self.client = HttpClient(headers={}, stall_timeout_s=10)
        self.workers = HttpSearchWorkers()
        self.port = 0
        self.progress: list[int] = []

    def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
        self.machine.check_invariants()
        self.events.append(event)

    async def reserved(self) -> None:
        self.agent.idle_changed(True)
        self.registry.reserve.set()
        await until(lambda: self.machine.is_reserved)

    @property
    def worker(self) -> Recruited:
        return Recruited(f"127.0.0.1:{self.port}", "n", 1, "r1")

    def search(self, query: str = "3", reservation: str = "r1") -> "asyncio.Task[Any]":
        piece = Piece(str(self.file), FileKind.NDJSON, 3, "", 0, 3)
        worker = Recruited(self.worker.addr, "n", 1, reservation)
        search = self.workers.search(
            worker, SearchSpec(query, 5), Chunk(0, (piece,)), ask_about=["f"], on_progress=self.progress.append
        )
        return asyncio.create_task(search)

    async def post(self, body: object, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(Origin("http", "127.0.0.1", self.port), "/worker/chunksearch", data, headers)

    async def told(self, body: object) -> tuple[int, str]:
        answer = await self.post(body)
        return answer.status, (await rest_of(answer)).decode()

    def lines(self, query: str = "2") -> dict[str, object]:
        return {"query": query, "chunk_paths": [self.file.name], "data_path": str(self.file.parent)}


@asynccontextmanager
async def scene(folder: Path, config: ReservationConfig, beat_s: float) -> AsyncGenerator[Scene]:
    s = Scene(folder, config, beat_s)
    running = asyncio.create_task(s.agent.run())
    async with served(s.app, stop_timeout_s=0) as server:
        s.port = server.port
        try:
            yield s
        finally:
            s.searcher.go_on.set()
            running.cancel()
            await asyncio.wait([running])
            await s.workers.close()
            await s.client.close()
    s.executor.close()


Looped = Callable[..., None]
EMBEDDED = ReservationConfig("w:1", ("http://a",), settle_s=0.001, overtaken_s=0.05, leave_when_abandoned=False)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looped:
    monkeypatch.setattr(worker_routes, "parse_search", str)

    def run(
        test: Callable[[Scene], Coroutine[Any, Any, None]], config: ReservationConfig = EMBEDDED, beat_s: float = 2.0
    ) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_S), scene(tmp_path, config, beat_s) as s:
                await test(s)

        asyncio.run(bounded())

    return run


# Frames


def test_a_root_gets_the_rows_and_the_report_of_its_chunk(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        for _ in range(3):
            answer = await s.search("3")
            assert [batch.to_pydict()["line"] for batch in answer.batches] == [["x0"], ["x1"], ["x2"]]
            assert answer.report == ChunkReport(3, 3, (), frozenset({"f"}), 1)
        assert s.searcher.asked[0] == (SearchSpec("3", 5), [str(s.file)], ("f",))
        assert s.machine.counters["searches_done"] == 3

    run(test)


def test_a_worker_that_is_not_reserved_answers_409(run: Looped) -> None:
    async def test(s: Scene) -> None:
        with pytest.raises(WorkerNotReachedError, match="409: the chunk was not searched: it is not reserved"):
            await s.search()
        await s.reserved()
        with pytest.raises(WorkerNotReachedError, match="it is reserved for another search"):
            await s.search(reservation="r0")
        assert s.searcher.asked == []

    run(test)


def test_a_root_hears_something_while_nothing_is_found(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.go_on.clear()
        answer = await s.post(s.lines("2"), Accept=CONTENT_TYPE)  # its head comes with the first sign
        frames = list(FrameDecoder().feed(await answer.read()))
        assert [frame.kind for frame in frames] == [FrameKind.PROGRESS]
        assert decode_progress(frames[0].payload) in (0, 10)
        s.searcher.go_on.set()
        await rest_of(answer)

    run(test, beat_s=0.01)


def test_an_error_before_the_first_bytes_is_a_status(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.failure = FULL
        with pytest.raises(QuarterdeckError, match="out of memory"):
            await s.search()
        answer = await s.post(s.lines(), Accept=CONTENT_TYPE)
        assert answer.status == 429
        await rest_of(answer)

    run(test)


def test_an_error_after_the_first_bytes_is_told_too(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.failure = FULL
        s.searcher.go_on.clear()
        search = s.search()
        await until(lambda: bool(s.progress))
        s.searcher.go_on.set()
        with pytest.raises(QuarterdeckError, match="out of memory"):
            await search

    run(test, beat_s=0.01)


def test_a_bug_after_the_first_bytes_cuts_the_answer_off(run: Looped, caplog: pytest.LogCaptureFixture) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.failure = LookupError("a bug")
        s.searcher.go_on.clear()
        search = s.search()
        await until(lambda: bool(s.progress))
        s.searcher.go_on.set()
        with pytest.raises(WorkerLostError, match="closed by the peer"):
            await search
        await until(lambda: s.machine.searches == 0)
        assert s.machine.counters["searches_broken"] == 1

    run(test, beat_s=0.01)
    assert "a bug" in caplog.text


def test_a_root_that_goes_away_ends_its_search_and_its_time_runs(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.go_on.clear()
        search = s.search()
        await until(s.searcher.held.is_set)
        search.cancel()
        await until(lambda: s.searcher.ended == 1)
        assert s.machine.is_reserved
        await until(lambda: not s.machine.is_reserved)
        assert s.machine.counters["searches_broken"] == 1
        assert s.accepting == [False, True]

    config = ReservationConfig("w:1", ("http://a",), settle_s=0.001, idle_s=0.5, leave_when_abandoned=False)
    run(test, config)


def test_what_a_root_takes_is_progress_and_a_sign_of_life_is_none(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.go_on.clear()
        search = s.search()
        await until(lambda: len(s.progress) > 3)
        assert not any(isinstance(event, ev.SearchProgressed) for event in s.events)
        s.searcher.go_on.set()
        await search
        assert any(isinstance(event, ev.SearchProgressed) for event in s.events)

    run(test, beat_s=0.001)


def test_a_root_that_takes_nothing_is_found_out(run: Looped) -> None:
    async def test(s: Scene) -> None:
        s.searcher.row = random.Random(1).randbytes(1_500_000).hex()
        await s.reserved()
        answer = await s.post(s.lines("100"), Accept=CONTENT_TYPE)  # and then nothing of it is read
        await until(lambda: s.searcher.ended == 1)
        assert s.machine.counters["searches_without_progress"] == 1
        await until(lambda: not s.machine.is_reserved)
        answer.close()

    config = ReservationConfig(
        "w:1", ("http://a",), settle_s=0.001, progress_s=0.3, idle_s=0.5, leave_when_abandoned=False
    )
    run(test, config)


# Release


def test_a_release_stops_what_runs_and_cuts_its_connection(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.go_on.clear()
        search = s.search()
        await until(lambda: bool(s.progress))
        await s.workers.release(s.worker)
        with pytest.raises(WorkerLostError, match="closed by the peer"):
            await search
        await until(lambda: s.accepting == [False, True])

    run(test, beat_s=0.01)


@pytest.mark.parametrize("reservation", ["r0", "r1", ""])
def test_a_release_is_answered_204_whoever_asks(run: Looped, reservation: str) -> None:
    async def test(s: Scene) -> None:
        for _ in range(2):
            headers = {"X-Reservation": reservation} if reservation else {}
            origin = Origin("http", "127.0.0.1", s.port)
            answer = await s.client.post(origin, "/worker/release", b"", headers)
            assert (answer.status, await rest_of(answer)) == (204, b"")
            if not s.accepting:
                await s.reserved()
        assert s.machine.is_reserved == (reservation == "r0")

    run(test)


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_another_tenant_neither_searches_here_nor_releases_the_worker(run: Looped, tenant: str | None) -> None:
    async def test(s: Scene) -> None:
        s.registry.tenant = tenant
        await s.reserved()
        for headers in ({"X-Reservation": "r1"}, {}):
            theirs = {**headers, "X-Scope-OrgID": "other"}
            answer = await s.post(s.lines(), **theirs)
            assert (answer.status, b"reserved for another search" in await rest_of(answer)) == (409, True)
            released = await s.client.post(Origin("http", "127.0.0.1", s.port), "/worker/release", b"", theirs)
            assert (released.status, await rest_of(released)) == (204, b"")
            assert s.machine.is_reserved
        own = {} if tenant is None else {"X-Scope-OrgID": tenant}
        answer = await s.post(s.lines(), **own)
        assert answer.status == 200
        await rest_of(answer)

    run(test)


# Lines


def test_a_stranger_gets_lines(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        answer = await s.post(s.lines())
        assert (answer.status, answer.headers[b"content-type"]) == (200, b"application/x-ndjson")
        assert await rest_of(answer) == b"x0\nx1\nfinished\n"
        assert s.searcher.asked[0][0] == SearchSpec("2", 77)
        assert s.gatherer.closed

    run(test)


def test_a_stranger_is_told_of_files_that_could_not_be_searched(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.problems = (FileProblem(str(s.file), "no JSON", 2),)
        status, text = await s.told({**s.lines(), "chunk_paths": [s.file.name, "/no/such.ndjson"]})
        assert status == 200
        assert json.loads(text.splitlines()[-1]) == {
            "quarterdeck": {
                "problems": [
                    {"url": "/no/such.ndjson", "why": "there is no such object", "lines": 0},
                    {"url": str(s.file), "why": "no JSON", "lines": 2},
                ]
            }
        }

    run(test)


def test_a_stranger_that_goes_away_ends_its_search(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        s.searcher.go_on.clear()
        asking = asyncio.create_task(s.post(s.lines()))
        await until(s.searcher.held.is_set)
        asking.cancel()
        await until(lambda: s.searcher.ended == 1)
        await until(lambda: s.gatherer.closed)

    run(test)


def test_bad_input_is_refused_with_the_reason(run: Looped) -> None:
    async def test(s: Scene) -> None:
        for body, why in ((b"{", "Invalid JSON"), ({"query": "2", "chunk_paths": ["a"]}, "no data_path")):
            status, text = await s.told(body)
            assert (status, why in text) == (400, True)

    run(test)


def test_a_query_that_cannot_be_understood_is_refused_with_its_place(
    run: Looped, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(s: Scene) -> None:
        monkeypatch.setattr(worker_routes, "parse_search", parse_search)
        status, text = await s.told(s.lines("a and\n| (("))
        assert status == 400
        assert "line 2" in text

    run(test)


@pytest.mark.parametrize("field", ["chunk_paths", "data_path"])
@pytest.mark.parametrize("name", ["/logs/\ud800.log", "/logs/a\0b.log", "/" + "a" * 5000, "s3://lake/\udc80", "\ud800"])
def test_a_chunk_that_nothing_can_be_called_is_refused_and_shown_escaped(run: Looped, field: str, name: str) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        changed = {field: [name] if field == "chunk_paths" else name}
        status, told = await s.told(s.lines() | changed)
        assert status == 400
        assert json.loads(told)["error"]["what"].isprintable()

    run(test)


def test_a_chunk_that_is_a_fifo_is_told_at_once(run: Looped) -> None:
    async def test(s: Scene) -> None:
        await s.reserved()
        os.mkfifo(s.file.parent / "odd.log")
        status, told = await s.told(s.lines() | {"chunk_paths": ["odd.log"]})
        assert status < 500
        assert "it is a FIFO" in told

    run(test)
