"""`POST /v1/search` over a real connection: both forms, proper errors before the first row, and nothing left behind."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.server import HttpServer
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk
from quarterdeck.search.root.routes import search_router
from quarterdeck.stores.source_roots import SourceRoots
from tests.http.asked import Client, connected, served, until
from tests.patience import PATIENCE_S
from tests.search.root.searched import PlayedWorkers, Root, lost, root

PATHS = ("/v1/search", "/worker/rootsearch")


pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


@dataclass(frozen=True)
class Heard:
    """A whole answer; `was_cut` if the connection ended before it did."""

    status: int
    headers: dict[str, str]
    body: bytes
    was_cut: bool

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.body)["error"]

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def frames(self) -> list[tuple[str, list[Any]]]:
        """Events that have a name, each with its lines of data."""
        frames: list[tuple[str, list[Any]]] = []
        for frame in self.body.decode().split("\n\n"):
            name, *data = [line.partition(": ")[2] for line in frame.split("\n") if not line.startswith(":")] or [""]
            if name:
                frames.append((name, [json.loads(line) for line in data]))
        return frames

    @property
    def done(self) -> dict[str, Any]:
        name, (document,) = self.frames[-1]
        assert name == "done"
        return document


@dataclass(frozen=True)
class Door:
    root: Root
    server: HttpServer

    async def ask(self, query: str = "*", *, path: str = PATHS[0], accept: str = "*/*", **fields: Any) -> Heard:
        fields.setdefault("sources", [str(self.root.folder)])
        return await self.post(json.dumps({"query": query, **fields}).encode(), path, accept)

    async def post(self, body: bytes, path: str = PATHS[0], accept: str = "*/*") -> Heard:
        async with connected(self.server) as client:
            send(client, "POST", path, body, accept)
            return await hear(client)

    async def get(self, path: str, tenant: str = "") -> Heard:
        async with connected(self.server) as client:
            send(client, "GET", path, b"", "*/*", tenant)
            return await hear(client)

    async def events(self, query: str = "*", **fields: Any) -> Heard:
        return await self.ask(query, accept="text/event-stream", **fields)


def send(client: Client, method: str, path: str, body: bytes, accept: str = "*/*", tenant: str = "") -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\nConnection: close\r\n"
    head += f"X-Scope-OrgID: {tenant}\r\n" if tenant else ""
    client.send(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def hear(client: Client) -> Heard:
    head, _, rest = (await client.rest()).partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") != "chunked":
        return Heard(int(status.split()[1]), headers, rest, len(rest) != int(headers["content-length"]))
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size or b"0", 16):
            return Heard(int(status.split()[1]), headers, body, was_cut=False)
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return Heard(int(status.split()[1]), headers, body, was_cut=True)


@asynccontextmanager
async def door(folder: Path, workers: PlayedWorkers | None = None, **options: Any) -> AsyncGenerator[Door]:
    async with root(folder, workers, **options) as made:
        app = FastAPI()
        add_error_handlers(app)
        app.include_router(search_router(made.service, heartbeat_s=0.05))
        async with served(app) as server:
            yield Door(made, server)


def play(
    folder: Path, scenario: Callable[[Door], Awaitable[None]], workers: PlayedWorkers | None = None, **options: Any
) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), door(folder, workers, **options) as made:
            await scenario(made)
            await made.root.service.wait_quiet()
            assert not made.root.workers.reserved
            assert not made.root.service.is_busy

    asyncio.run(run())


def stand_still(worker: Recruited, chunk: Chunk) -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


# NDJSON


@pytest.mark.parametrize("path", PATHS)
def test_records_come_as_lines_with_the_id_of_the_search(tmp_path: Path, path: str) -> None:
    async def scenario(door: Door) -> None:
        numbers = door.root.put_numbered(5)
        answer = await door.ask(path=path)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
        assert answer.headers["x-query-id"] == "q1"
        assert not answer.was_cut
        assert [record["n"] for record in answer.records] == numbers

    play(tmp_path, scenario, PlayedWorkers(2))


def test_an_answer_without_records_is_whole_and_empty(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(2)
        answer = await door.ask("nothing")
        assert (answer.status, answer.body, answer.was_cut) == (200, b"", False)

    play(tmp_path, scenario)


def test_problems_are_a_last_line_and_only_if_there_are_any(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        broken = door.root.put("broken.log.gz", "x")
        *records, last = (await door.ask()).records
        assert len(records) == 3
        assert last == {"quarterdeck": {"problems": [{"url": broken, "why": "it is damaged", "lines": 0}]}}

    play(tmp_path, scenario)


def test_what_fails_after_the_first_record_cuts_the_connection(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(3)
        answer = await door.ask(order="input", timeout_s=0.5)
        assert (answer.status, len(answer.records), answer.was_cut) == (200, 3, True)
        told = (await door.get(f"/v1/searches/{answer.headers['x-query-id']}")).body
        assert json.loads(told)["error"]["code"] == "deadline_exceeded"

    def stop_after_one(worker: Recruited, chunk: Chunk) -> "asyncio.Future[None] | None":
        return stand_still(worker, chunk) if chunk.number else None

    play(tmp_path, scenario, PlayedWorkers(2, play=stop_after_one))


# Errors


@pytest.mark.parametrize(
    "body, why",
    [
        (b"no json", "JSON"),
        (b"[]", "body"),
        (b'{"sources": ["/tmp"]}', "query"),
        (b'{"query": "*"}', "no source"),
        (b'{"query": "*", "sources": []}', "no source"),
        (b'{"query": "level=", "sources": ["/tmp"]}', "^"),
        (b'{"query": "*", "sources": ["/tmp"], "max_workers": 0}', "max_workers"),
        (b'{"query": "*", "sources": ["/tmp"], "max_workers": 101}', "max_workers"),
        (b'{"query": "*", "sources": ["/tmp"], "order": "random"}', "order"),
        (b'{"query": "*", "sources": ["/tmp"], "start": "soon"}', "start is 'soon'"),
        (b'{"query": "*", "sources": ["/tmp"], "timeout_s": 0}', "timeout_s"),
        (b'{"query": "*", "sources": ["/tmp"], "colour": "red"}', "colour"),
        (b'{"query": "*", "sources": ["ftp://x/y"]}', "ftp"),
    ],
)
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_a_request_that_makes_no_sense_is_refused_with_the_reason(
    tmp_path: Path, body: bytes, why: str, accept: str
) -> None:
    async def scenario(door: Door) -> None:
        answer = await door.post(body, PATHS[0], accept)
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        assert why in answer.error["why"] + answer.error["next_step"] + answer.error["what"]

    play(tmp_path, scenario)


def test_sources_that_are_not_there_are_named(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        answer = await door.ask(sources=[f"{tmp_path}/nowhere.ndjson"])
        assert (answer.status, "nowhere.ndjson" in answer.body.decode()) == (404, True)

    play(tmp_path, scenario)


def test_a_field_that_no_record_has_is_a_proper_error_as_lines_and_the_last_event_as_events(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(3)
        answer = await door.ask("nn=zzz", order="none")
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        assert "none of the 3 files has a field `nn`" in answer.error["why"]
        assert "`n`" in answer.error["next_step"]
        done = (await door.events("nn=zzz")).done
        assert (done["status"], done["error"]) == ("error", answer.error)

    play(tmp_path, scenario, PlayedWorkers(2))


def test_with_every_file_broken_it_is_an_error(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put("broken.log", "x")
        answer = await door.ask()
        assert (answer.status, answer.error["code"]) == (422, "work_failed")

    play(tmp_path, scenario)


def test_a_search_that_is_not_known_is_not_found(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        answer = await door.get("/v1/searches/other")
        assert (answer.status, answer.error["code"]) == (404, "not_found")

    play(tmp_path, scenario)


@pytest.mark.parametrize("is_running", [True, False])
def test_a_tenant_is_told_its_own_searches(tmp_path: Path, is_running: bool) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        async with AsyncExitStack() as open_searches:
            for tenant in ("a", "b"):
                running = door.root.service.opened(door.root.request(tenant), tenant=tenant)
                await open_searches.enter_async_context(running)
            if not is_running:
                await open_searches.aclose()

            async def texts(tenant: str) -> list[str]:
                return sorted(one["query"] for one in json.loads((await door.get("/v1/searches", tenant)).body))

            assert [await texts("a"), await texts("b"), await texts("c"), await texts("")] == [
                ["a"],
                ["b"],
                [],
                ["a", "b"],
            ]
            found = [(await door.get("/v1/searches/q1", tenant)).status for tenant in ("a", "b", "")]
            assert found == [200, 404, 200]

    play(tmp_path, scenario)


def test_values_of_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        answer = await door.ask("password=hush | count()")
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        for path in ("/v1/searches", "/v1/searches/q1"):
            body = (await door.get(path)).body.decode()
            assert "password=***" in body
            assert "hush" not in body

    play(tmp_path, scenario)


def told(door: Door) -> dict[str, Any]:
    """What people see of the last search, among queries of other kinds."""
    return door.root.service.log.documents(1)[0]


def test_people_see_what_is_searched_for_and_how_far_it_is(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(5)
        answer = await door.ask("n")
        seen = told(door)
        assert seen["query_id"] == answer.headers["x-query-id"]
        assert (seen["kind"], seen["text"], seen["tenant"], seen["state"]) == ("search", "n", "default", "succeeded")
        assert (seen["works"], seen["delivered"], seen["rows"]) == (5, 5, len(answer.records))
        assert sum(seen["by_worker"].values()) == 5

    play(tmp_path, scenario, PlayedWorkers(2))


def test_people_see_why_a_search_failed_or_what_is_missing_from_it(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        await door.ask("a = = b")
        assert told(door)["state"] == "failed"
        assert "was not understood" in told(door)["error"]["message"]
        await door.ask(sources=["/nowhere"])
        assert (told(door)["state"], told(door)["error"]["code"]) == ("failed", "not_found")
        door.root.put_numbered(1)
        broken = door.root.put("broken.log.gz", "x")
        await door.ask()
        assert told(door)["state"] == "partial"
        assert told(door)["error"]["message"] == f"{broken}: it is damaged"

    play(tmp_path, scenario)


def test_people_see_that_a_search_was_refused_for_its_sources(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        app = FastAPI()
        add_error_handlers(app)
        app.include_router(search_router(door.root.service, roots=SourceRoots([])))
        async with served(app) as server:
            answer = await Door(door.root, server).ask("n")
        assert (answer.status, answer.error["code"]) == (403, "permission_denied")
        seen = told(door)
        assert (seen["text"], seen["state"], seen["error"]["code"]) == ("n", "failed", "permission_denied")

    play(tmp_path, scenario)


# Events


def test_events_are_progress_rows_and_at_last_how_it_ended(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        numbers = door.root.put_numbered(6)
        door.root.put("broken.log", "x")
        answer = await door.events(order="input", max_workers=2)
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-query-id"] == "q1"
        assert not answer.was_cut
        names = [name for name, _ in answer.frames]
        assert names[0] == "progress"
        assert set(names) == {"progress", "rows", "done"}
        assert [record["n"] for name, data in answer.frames if name == "rows" for record in data] == numbers
        (first,) = answer.frames[0][1]
        assert first.keys() == {
            *("bytes", "bytes_done", "chunks", "chunks_done", "matches", "workers", "workers_lost", "bad_lines")
        }
        done = answer.done
        assert (done["status"], done["error"]) == ("partial", None)
        assert [problem["why"] for problem in done["problems"]] == ["it is damaged"]
        assert (done["matches"], done["rows"], done["chunks"], done["retried"]) == (18, 18, 7, 1)
        assert done["bytes"] == first["bytes"]
        assert sum(worker["chunks"] for worker in done["workers"]) == 7
        assert all(worker.keys() == {"addr", "node", "chunks"} for worker in done["workers"])
        assert done["query_id"] == "q1"
        assert done["seconds"] >= 0

    has_lost: list[int] = []

    def lose_one(worker: Recruited, chunk: Chunk) -> Exception | None:
        if chunk.number != 3 or has_lost:
            return None
        has_lost.append(chunk.number)
        return lost(worker)

    play(tmp_path, scenario, PlayedWorkers(3, play=lose_one))


@asynccontextmanager
async def first_in_line(door: Door, client: Client) -> AsyncGenerator[None]:
    """The client's search waits while the block runs, and has given a sign of life."""
    async with door.root.service.opened(door.root.request()):
        body = json.dumps({"query": "*", "sources": [str(door.root.folder)], "order": "input", "format": "events"})
        send(client, "POST", PATHS[0], body.encode())
        async with asyncio.timeout(PATIENCE_S):
            begun = await client.reader.readuntil(b": alive\n\n")
        assert b"x-query-id: q2\r\n" in begun
        assert door.root.service.admission.depth == 1
        yield


def test_a_search_that_waits_in_line_gives_signs_of_life(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        numbers = door.root.put_numbered(3)
        async with connected(door.server) as client:
            async with first_in_line(door, client):
                pass
            answer = (await client.rest()).decode()
        assert [json.loads(line)["n"] for line in re.findall(r"^data: (.*\"n\".*)", answer, re.MULTILINE)] == numbers
        assert '"status":"ok"' in answer

    play(tmp_path, scenario, at_once=1)


def test_what_fails_after_a_wait_in_line_is_told_by_the_last_event(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        async with connected(door.server) as client:
            async with first_in_line(door, client):
                shutil.rmtree(door.root.folder)
            answer = (await client.rest()).decode()
        name, data = answer.split("event: ")[-1].split("\ndata: ")
        done = json.loads(data.partition("\n")[0])
        assert name == "done"
        assert (done["status"], done["error"]["code"]) == ("error", "not_found")
        assert (done["matches"], done["workers"], done["query_id"]) == (0, [], "q2")

    play(tmp_path, scenario, at_once=1)


def test_the_form_in_the_request_is_stronger_than_the_header(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        assert (await door.ask(format="events")).done["status"] == "ok"
        lines = await door.events(format="ndjson")
        assert lines.headers["content-type"] == "application/x-ndjson"

    play(tmp_path, scenario)


def test_a_line_that_ends_in_cr_does_not_end_its_event(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        (tmp_path / "dos.log").write_bytes(b'{"n":1}\r\n{"n":2}\r\n')
        answer = await door.events()
        assert b"\r" not in answer.body
        rows = [record for name, data in answer.frames if name == "rows" for record in data]
        assert rows == [{"n": 1}, {"n": 2}]

    play(tmp_path, scenario)


def test_what_fails_in_the_middle_is_told_by_the_last_event(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(3)
        answer = await door.events(order="input", timeout_s=0.3)
        assert not answer.was_cut
        assert answer.done["status"] == "error"
        assert answer.done["error"]["code"] == "deadline_exceeded"

    play(tmp_path, scenario, PlayedWorkers(2, play=stand_still))


def test_the_description_has_both_paths_and_what_they_take(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        described = json.loads((await door.get("/openapi.json")).body)
        for path in PATHS:
            operation = described["paths"][path]["post"]
            assert operation["responses"].keys() >= {"200", "400", "404", "422", "429", "503", "504"}
        taken = described["components"]["schemas"]["SearchBody"]["properties"]
        assert all("description" in field for field in taken.values())

    play(tmp_path, scenario)


# Clients that go


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_a_client_that_goes_away_gives_the_workers_back(tmp_path: Path, accept: str) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(9)
        workers = door.root.workers
        async with connected(door.server) as client:
            body = json.dumps({"query": "*", "sources": [str(tmp_path)]}).encode()
            send(client, "POST", PATHS[0], body, accept)
            await until(lambda: sum(workers.searching.values()) == 2)
            (running,) = json.loads((await door.get("/v1/searches")).body)
            assert (running["state"], running["workers_now"], running["chunks"]) == ("running", 2, 9)
        await until(lambda: workers.releases == {"r0": 1, "r1": 1})
        assert not +workers.searching
        (ended,) = json.loads((await door.get("/v1/searches")).body)
        assert ended["state"] == told(door)["state"] == "canceled"

    play(tmp_path, scenario, PlayedWorkers(2, play=stand_still))


def test_a_client_that_reads_slowly_holds_the_search_back(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        for number in range(60):
            door.root.put(f"{number:02}.log", *({"ts": 0, "n": number, "pad": "x" * 100_000} for _ in range(4)))
        workers = door.root.workers
        async with connected(door.server) as client:
            body = json.dumps({"query": "*", "sources": [str(tmp_path)], "order": "input"}).encode()
            send(client, "POST", PATHS[0], body)
            await until(lambda: door.root.held_bytes >= 1_000_000 and not +workers.searching)
            assert len(workers.given) < 60
            answer = await hear(client)
        assert len(answer.records) == 240
        assert not answer.was_cut

    play(tmp_path, scenario, PlayedWorkers(2), held_bytes=1_000_000)


# Names that nothing can have


ODD_NAMES = ["/logs/\ud800.log", "/logs/a\0b.log", "/" + "a" * 5000, "s3://lake/\udc80", "\ud800", "s3://\ud800"]


@pytest.mark.parametrize("field", ["sources", "data_path"])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_source_that_nothing_can_be_called_is_refused_and_shown_escaped(
    tmp_path: Path, field: str, name: str
) -> None:
    async def scenario(door: Door) -> None:
        fields: dict[str, Any] = {"sources": [name]} if field == "sources" else {"sources": [], "data_path": name}
        answer = await door.ask(**fields)
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        assert answer.error["what"].isprintable()

    play(tmp_path, scenario, PlayedWorkers(1))


def test_half_of_a_surrogate_pair_anywhere_in_a_request_is_no_fault_of_ours(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        door.root.put_numbered(1)
        odd: list[dict[str, Any]] = [{"time_field": "\ud800"}, {"order": "\ud800"}, {"start": "\ud800"}, {"\ud800": 1}]
        for fields in odd:
            assert (await door.ask(**fields)).status < 500
        for query in ("\ud800", 'a = "\ud800"', "*\ud800"):
            assert (await door.ask(query)).status < 500

    play(tmp_path, scenario, PlayedWorkers(1))


def test_a_fifo_is_refused_at_once_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        numbers = door.root.put_numbered(3)
        os.mkfifo(door.root.folder / "odd.log")
        answer = await door.ask(sources=[str(door.root.folder / "odd.log")])
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        assert "it is a FIFO" in answer.error["why"]
        assert [record["n"] for record in (await door.ask()).records] == numbers

    play(tmp_path, scenario, PlayedWorkers(1))
