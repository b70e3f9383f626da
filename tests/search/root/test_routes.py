"""`POST /v1/search` over a real connection: proper errors before the first row, and nothing left behind."""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from quarterdeck.http.errors import add_error_handlers
from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk
from quarterdeck.search.root.routes import search_router
from quarterdeck.stores.source_roots import SourceRoots
from tests.http.asked import connected, served, until
from tests.search.root.door import PATHS, Door, hear, play, send, stand_still
from tests.search.root.searched import PlayedWorkers

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


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
