"""How artifacts are served: whole, in parts, to slow clients and to clients that go away."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.route import ArtifactRoute, Message
from tests.crew.artifacts.harness import Depot, attempt_id, files_in, looped, noise, rows, until


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Any
    body: bytes


async def _ask(depot: Depot, path: str, method: str = "GET", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{depot.url}{path}", headers=named, allow_redirects=False) as response,
    ):
        return Answer(response.status, response.headers, await response.read())


def _path(artifact: Artifact) -> str:
    return f"/artifacts/{_name(artifact)}"


def _name(artifact: Artifact) -> str:
    return artifact.url.rpartition("/")[2]


KINDS = {"memory": (rows(0, 3), 2**20), "small file": (rows(0, 3), 0), "large file": (noise(megabytes=1), 0)}


@pytest.fixture(params=list(KINDS))
def stocked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Depot, Artifact]:
    batch, memory_limit_bytes = KINDS[request.param]
    depot = Depot(tmp_path, memory_limit_bytes=memory_limit_bytes)
    return depot, depot.make(batch)


@looped
async def test_a_whole_artifact_is_sent_with_its_checksum(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    async with depot.serving():
        answer = await _ask(depot, _path(artifact))
    assert answer.status == 200
    assert answer.body == depot.content(artifact)
    assert answer.headers["Content-Type"] == "application/vnd.apache.parquet"
    assert answer.headers["Content-Length"] == str(artifact.size_bytes)
    assert answer.headers["ETag"] == f'"{artifact.checksum}"'
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert depot.route.sent_bytes == artifact.size_bytes


@looped
async def test_head_tells_the_same_without_the_bytes(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    async with depot.serving():
        answer = await _ask(depot, _path(artifact), "HEAD", Range="bytes=0-1")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Length"] == str(artifact.size_bytes)
    assert answer.headers["ETag"] == f'"{artifact.checksum}"'


@looped
async def test_one_range_is_sent_alone(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    content, size = depot.content(artifact), artifact.size_bytes
    cases = {
        "bytes=0-0": slice(0, 1),
        "bytes=10-99": slice(10, 100),
        "bytes=100-": slice(100, size),
        "bytes=-4": slice(size - 4, size),
        f"bytes=5-{size + 5}": slice(5, size),
    }
    async with depot.serving():
        for asked, part in cases.items():
            answer = await _ask(depot, _path(artifact), Range=asked)
            assert answer.status == 206, asked
            assert answer.body == content[part], asked
            assert answer.headers["Content-Range"] == f"bytes {part.start}-{part.stop - 1}/{size}"
            assert answer.headers["Content-Length"] == str(part.stop - part.start)


@looped
async def test_several_ranges_and_nonsense_are_answered_with_the_whole(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    async with depot.serving():
        for asked in ("bytes=0-1,4-5", "lines=1-2", "bytes=9-1", "bytes=-"):
            answer = await _ask(depot, _path(artifact), Range=asked)
            assert (answer.status, len(answer.body)) == (200, artifact.size_bytes), asked


@looped
async def test_a_range_behind_the_end_is_refused_with_the_size(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    async with depot.serving():
        answer = await _ask(depot, _path(artifact), Range=f"bytes={artifact.size_bytes}-")
    assert answer.status == 416
    assert answer.headers["Content-Range"] == f"bytes */{artifact.size_bytes}"


@looped
async def test_conditions_are_heard(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    etag, path = f'"{artifact.checksum}"', _path(artifact)
    async with depot.serving():
        for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            answer = await _ask(depot, path, If_None_Match=known)
            assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", etag), known
        assert (await _ask(depot, path, If_None_Match='"other"')).status == 200
        assert (await _ask(depot, path, Range="bytes=0-1", If_Range=etag)).status == 206
        assert (await _ask(depot, path, Range="bytes=0-1", If_Range='"other"')).status == 200


@looped
async def test_it_can_only_be_read(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    async with depot.serving():
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = await _ask(depot, _path(artifact), method)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert depot.content(artifact)


async def _raw(depot: Depot, target: bytes) -> bytes:
    """The status of the answer to a target that no client library would send."""
    host, port = depot.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.split()[1]


@looped
async def test_whatever_is_not_exactly_a_name_is_not_there(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    name = _name(artifact).encode()
    (tmp_path / "secret").write_text("secret")
    async with depot.serving():
        assert await _raw(depot, b"/artifacts/" + name) == b"200"
        for target in (
            b"/",
            b"/artifacts",
            b"/artifacts/",
            b"/artifacts/../secret",
            b"/artifacts/%2e%2e/secret",
            b"/artifacts/%2e%2e%2fsecret",
            b"/artifacts/..%5csecret",
            b"/artifacts/" + str(depot.folder).encode() + b"/" + name,
            b"/artifacts//" + name,
            b"/artifacts/./" + name,
            b"/artifacts/x/../" + name,
            b"/artifacts/" + name + b"/",
            b"/artifacts/" + name + b"%00",
            b"/artifacts/%00",
            b"/artifacts/" + name.upper(),
            b"/artifacts/" + name + b".part",
            b"/artifacts/" + b"a" * 20_000,
            b"/x/artifacts/" + name,
            b"/artifacts/%ff%fe",
            name,
        ):
            assert await _raw(depot, target) in {b"404", b"400"}, target


@looped
async def test_what_was_dropped_is_not_there(stocked: tuple[Depot, Artifact]) -> None:
    depot, artifact = stocked
    depot.spool.drop(attempt_id())
    async with depot.serving():
        answer = await _ask(depot, _path(artifact))
    assert answer.status == 404
    assert b"not any more" in answer.body


@looped
async def test_a_file_that_vanished_is_not_there(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    small, large = depot.make(rows(0, 3)), depot.make(noise(megabytes=1), attempt=attempt_id(2))
    for name in files_in(depot.folder):
        (depot.folder / name).unlink()
    async with depot.serving():
        assert (await _ask(depot, _path(small))).status == 404
        assert (await _ask(depot, _path(large))).status == 404


@looped
async def test_a_large_file_evicted_before_it_is_opened_is_not_there(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=1))
    depot.budget.remove(_name(artifact))
    async with depot.serving():
        assert (await _ask(depot, _path(artifact))).status == 404


# Slow clients, and those that go away


class SlowClient:
    """Asks, and reads only when told to. Its buffers are small, so that the server soon has to wait for it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    async def read(self, count: int) -> bytes:
        loop, data = asyncio.get_running_loop(), bytearray()
        while len(data) < count:
            more = await loop.sock_recv(self.sock, min(65536, count - len(data)))
            if not more:
                break
            data += more
        return bytes(data)


@asynccontextmanager
async def _slow_client(depot: Depot, artifact: Artifact) -> AsyncGenerator[SlowClient]:
    host, port = depot.url.removeprefix("http://").split(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, (host, int(port)))
        request = f"GET {_path(artifact)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        await loop.sock_sendall(sock, request.encode())
        yield SlowClient(sock)


def _is_pinned(depot: Depot, artifact: Artifact) -> bool:
    entries: Any = getattr(depot.budget, "_entries")  # noqa: B009 - what is private is the only one that tells
    return bool(entries[_name(artifact)].pins)


@looped
async def test_a_slow_client_is_waited_for_and_its_file_cannot_be_evicted_meanwhile(tmp_path: Path) -> None:
    depot = Depot(tmp_path, limit_bytes=25 * 2**20)
    artifact = depot.make(noise(megabytes=12))
    content = depot.content(artifact)
    async with depot.serving(), _slow_client(depot, artifact) as client:
        await until(lambda: depot.route.sent_bytes > 0)
        assert _is_pinned(depot, artifact)
        depot.make(noise(megabytes=8), attempt=attempt_id(2))
        depot.make(noise(megabytes=8), attempt=attempt_id(3))
        assert depot.lost == [attempt_id(2)]  # the older one was in use
        assert depot.route.sent_bytes < artifact.size_bytes
        answer = await client.read(2**30)
        assert answer.partition(b"\r\n\r\n")[2] == content
        await until(lambda: not _is_pinned(depot, artifact))


@looped
async def test_a_piece_is_read_only_when_the_client_has_taken_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=2))
    content = depot.content(artifact)
    read: list[bytes] = []
    sent: list[bytes] = []
    taken = asyncio.Semaphore(0)
    pread = os.pread

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        read.append(pread(descriptor, length, offset))
        return read[-1]

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await taken.acquire()
            sent.append(message["body"])

    monkeypatch.setattr(os, "pread", counted)
    scope: Message = {"type": "http", "method": "GET", "path": _path(artifact), "headers": []}
    serving = asyncio.create_task(depot.route(scope, receive, send))
    while not serving.done():
        await until(lambda: len(read) > len(sent) or serving.done())
        assert len(read) <= len(sent) + 1
        assert max(map(len, read)) <= 256 * 1024
        taken.release()
        await asyncio.sleep(0)
    await serving
    assert b"".join(sent) == content


@looped
async def test_a_transfer_that_has_begun_goes_on_when_its_file_is_dropped(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=12))
    content = depot.content(artifact)
    async with depot.serving(), _slow_client(depot, artifact) as client:
        await until(lambda: depot.route.sent_bytes > 0)
        depot.spool.drop(attempt_id())
        assert (await client.read(2**30)).partition(b"\r\n\r\n")[2] == content
        await until(lambda: depot.used_bytes() == 0)
    assert files_in(depot.folder) == []


@looped
async def test_a_client_that_goes_away_ends_the_transfer(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=12))
    async with depot.serving():
        async with _slow_client(depot, artifact) as client:
            await client.read(100_000)
            assert _is_pinned(depot, artifact)
        await until(lambda: not _is_pinned(depot, artifact))
        assert depot.route.sent_bytes < artifact.size_bytes


@looped
async def test_a_client_that_takes_nothing_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=12))
    route = ArtifactRoute(depot.spool, stall_timeout_s=0.05)
    async with depot.serving(route), _slow_client(depot, artifact):
        await until(lambda: route.sent_bytes > 0)
        await until(lambda: not _is_pinned(depot, artifact))
        assert route.sent_bytes < artifact.size_bytes


@looped
async def test_a_server_that_stops_in_the_middle_leaves_nothing_pinned(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(noise(megabytes=12))
    async with depot.serving() as server, _slow_client(depot, artifact) as client:
        await client.read(100_000)
        assert await server.stop(0) == 1
        assert not _is_pinned(depot, artifact)


@looped
async def test_a_file_that_shrank_is_an_error_and_never_taken_for_whole(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    small, large = depot.make(rows(0, 3)), depot.make(noise(megabytes=1), attempt=attempt_id(2))
    for artifact, size_bytes in ((small, 10), (large, 300_000)):
        with (depot.folder / _name(artifact)).open("r+b") as file:
            file.truncate(size_bytes)
    async with depot.serving():
        assert (await _ask(depot, _path(small))).status == 500
        with pytest.raises(aiohttp.ClientPayloadError):
            await _ask(depot, _path(large))
        assert not _is_pinned(depot, large)


@looped
async def test_anything_but_http_is_refused(tmp_path: Path) -> None:
    depot = Depot(tmp_path)

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError

    with pytest.raises(RuntimeError, match="websocket"):
        await depot.route({"type": "websocket"}, receive, send)


@looped
async def test_it_can_be_mounted_in_an_application(tmp_path: Path) -> None:
    from starlette.applications import Starlette  # noqa: PLC0415 - only here
    from starlette.routing import Mount  # noqa: PLC0415

    depot = Depot(tmp_path)
    artifact = depot.make(rows(0, 3))
    app = Starlette(routes=[Mount("/artifacts", app=depot.route)])
    async with depot.serving(app):
        assert (await _ask(depot, _path(artifact))).status == 200
