"""`POST /v1/search` as server-sent events: progress, rows, signs of life, and at last how it ended."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk
from tests.http.asked import Client, connected
from tests.patience import PATIENCE_S
from tests.search.root.door import PATHS, Door, play, send, stand_still
from tests.search.root.searched import PlayedWorkers, lost

pytestmark = pytest.mark.usefixtures("one_file_a_chunk")


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
