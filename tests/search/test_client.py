"""Recruiters and workers over HTTP, as a worker and a root see them."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest
import trustme
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.error_documents import rendered
from quarterdeck.recruiter.client import HttpRecruiting, HttpRegistry
from quarterdeck.recruiter.model import Directive, Offer, Recruited
from quarterdeck.recruiter.ports import Registered, RegistrationFailedError
from quarterdeck.search import client as client_module
from quarterdeck.search.chunk_request import decode_chunk
from quarterdeck.search.client import HttpSearchWorkers
from quarterdeck.search.frames import FrameKind, RowFrames, encode_error, encode_progress, encode_report
from quarterdeck.search.model import Chunk, ChunkReport, FileKind, FileProblem, Piece, SearchSpec
from quarterdeck.search.ports import (
    ChunkAnswer,
    WorkerBrokeProtocolError,
    WorkerHasNoRoomError,
    WorkerLostError,
    WorkerNotReachedError,
)
from quarterdeck.search.stored_rows import RowLimits, disk_bytes_of, memory_bytes_of
from tests.http.asked import served, until
from tests.ports import dead_port
from tests.search.played_search import SCHEMA

_arrow: Any = pyarrow
CHUNK = Chunk(0, (Piece("/a", FileKind.NDJSON, 10, "v", 0, 10),))
REPORT = ChunkReport(10, 2, pieces=1)
ROWS = _arrow.record_batch([[None, None], [1, 2], ["a", "b"]], SCHEMA)
_frames = RowFrames()
FRAMES = b"".join(_frames.of([ROWS]))
SENT = _frames.sent
NOTHING = RowFrames().sent
WHOLE = encode_progress(5) + FRAMES + encode_report(REPORT, SENT)


class Asked:
    """One request to a peer, and the way to answer it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path = str(scope["path"])
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.body = b""
        self.receive = receive
        self._send = send

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def read(self) -> None:
        while True:
            message = await self.receive()
            self.body += message.get("body", b"")
            if not message.get("more_body"):
                return

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.begin(status)
        await self.say(body, more=False)

    async def begin(self, status: int = 200) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": []})

    async def say(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def wait_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


Behaviour = Callable[[Asked], Awaitable[None]]


class Peer:
    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.asked: list[Asked] = []
        self.gone = 0
        self.addr = ""

    @property
    def url(self) -> str:
        return f"http://{self.addr}"

    @property
    def worker(self) -> Recruited:
        return Recruited(self.addr, "n", 1, "r1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Asked(scope, receive, send)
        await asked.read()
        self.asked.append(asked)
        await self.behave(asked)
        self.gone += 1


@asynccontextmanager
async def peer(behave: Behaviour, **options: Any) -> AsyncGenerator[Peer]:
    one = Peer(behave)
    async with served(one, stop_timeout_s=0, **options) as server:
        one.addr = f"127.0.0.1:{server.port}"
        yield one


def answers(document: object, status: int = 200) -> Behaviour:
    async def behave(asked: Asked) -> None:
        await asked.answer(document if isinstance(document, bytes) else json.dumps(document).encode(), status)

    return behave


async def hold(asked: Asked) -> None:
    await asked.wait_gone()


async def cut(asked: Asked) -> None:
    """In the middle of an answer."""
    await asked.begin()
    await asked.say(WHOLE[:-1])
    raise RuntimeError("cut")


@asynccontextmanager
async def nobody() -> AsyncGenerator[str]:
    """An address where nobody answers."""
    with dead_port() as port:
        yield f"127.0.0.1:{port}"


# Registering


@asynccontextmanager
async def registry() -> AsyncGenerator[HttpRegistry]:
    one = HttpRegistry(authorize=lambda _: "Bearer secret")
    try:
        yield one
    finally:
        await one.close()


def register(behave: Behaviour, offer: Offer | None = None) -> tuple[Registered, Peer]:
    async def run() -> tuple[Registered, Peer]:
        async with peer(behave) as recruiter, registry() as one:
            return await one.register(recruiter.url, offer or Offer("w:1", "n"), 30), recruiter

    return asyncio.run(run())


def test_a_worker_registers_with_all_that_is_known_of_it() -> None:
    offer = Offer("w:1", "n", frozenset({"b", "a"}), 3, "acme")
    document = {"directive": "reserved", "reservation": "r7", "label": "l", "tenant": "other"}
    found, recruiter = register(answers(document), offer)
    assert found == Registered(Directive.RESERVED, "r7", "l", "other")
    (asked,) = recruiter.asked
    assert asked.path == "/recruiter/register"
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.headers["x-scope-orgid"] == "acme"
    assert asked.json == {"addr": "w:1", "node_name": "n", "timeout": 30_000, "labels": ["a", "b"], "slots": 3}


@pytest.mark.parametrize(
    "document, expected",
    [
        ({"directive": "reserved"}, Registered(Directive.RESERVED)),
        ({"directive": "reserved", "reservation": None, "label": None}, Registered(Directive.RESERVED)),
        ({"directive": "reregister"}, Registered(Directive.REREGISTER)),
    ],
)
def test_a_recruiter_need_not_say_more_than_its_directive(document: object, expected: Registered) -> None:
    assert register(answers(document))[0] == expected


@pytest.mark.parametrize(
    "behave, why",
    [
        (answers({"directive": "dance"}), "directive is 'dance'"),
        (answers([]), "should be an object"),
        (answers(b"{"), "Invalid JSON"),
        (answers(b"[" * 100_000), "cannot be understood"),
        (answers({"directive": "reserved", "reservation": "x\r\ny"}), "should match pattern"),
        (answers({"error": "x"}, 409), "answered 409"),
        (answers(b"x", 500), "answered 500: x"),
        (cut, "closed by the peer"),
    ],
)
def test_whatever_else_a_recruiter_does_is_a_registration_that_failed(behave: Behaviour, why: str) -> None:
    with pytest.raises(RegistrationFailedError, match=why):
        register(behave)


def test_a_recruiter_that_is_not_there_is_a_registration_that_failed() -> None:
    async def run() -> None:
        async with nobody() as addr, registry() as one:
            await one.register(f"http://{addr}", Offer("w:1", "n"), 30)

    with pytest.raises(RegistrationFailedError, match="http://127"):
        asyncio.run(run())


def test_a_registration_that_is_canceled_is_taken_back() -> None:
    async def run() -> None:
        async with peer(hold) as recruiter, registry() as one:
            registering = asyncio.create_task(one.register(recruiter.url, Offer("w:1", "n"), 30))
            await until(lambda: bool(recruiter.asked))
            registering.cancel()
            await until(lambda: recruiter.gone == 1)
            await asyncio.wait([registering])

    asyncio.run(run())


def test_a_recruiter_may_be_behind_a_path() -> None:
    async def run() -> None:
        async with peer(answers({"directive": "reregister"})) as recruiter, registry() as one:
            await one.register(f"{recruiter.url}/crew/", Offer("w:1", "n"), 30)
            assert recruiter.asked[0].path == "/crew/recruiter/register"

    asyncio.run(run())


# Recruiting


def pool(*names: str) -> Behaviour:
    """A recruiter that gives as many of these as are asked for."""
    free = list(names)

    async def behave(asked: Asked) -> None:
        given = [free.pop(0) for _ in range(min(asked.json["number_requested"], len(free)))]
        await asked.answer(json.dumps({"workers": [{"addr": f"{name}:1", "node": "n"} for name in given]}).encode())

    return behave


def recruit(number: int, *behaviours: Behaviour | None, label: str = "") -> tuple[set[str], list[Peer], list[str]]:
    """Which workers came; None is a recruiter that is not there."""
    troubles: list[str] = []

    async def run() -> tuple[set[str], list[Peer]]:
        async with peer(behaviours[0] or hold) as one, peer(behaviours[-1] or hold) as other, nobody() as addr:
            asked = zip((one, other), behaviours, strict=True)
            urls = [each.url if behave else f"http://{addr}" for each, behave in asked]
            recruiting = HttpRecruiting(urls, Random(1), on_trouble=troubles.append)
            try:
                found = await recruiting.recruit(number, label, "acme")
            finally:
                await recruiting.close()
            return {worker.addr for worker in found}, [one, other]

    return *asyncio.run(run()), troubles


def test_one_recruiter_is_enough_when_it_has_enough() -> None:
    found, peers, _ = recruit(2, pool("a", "b", "c"), pool("a", "b", "c"), label="mine")
    assert found == {"a:1", "b:1"}
    (asked,) = [asked for each in peers for asked in each.asked]
    assert asked.headers["x-scope-orgid"] == "acme"
    assert (asked.path, asked.json) == ("/recruiter/recruit", {"number_requested": 2, "label": "mine"})


def test_what_one_recruiter_has_not_the_next_may_have() -> None:
    found, peers, _ = recruit(3, pool("a", "b"), pool("c", "d"))
    assert len(found) == 3
    assert sorted(asked.json["number_requested"] for each in peers for asked in each.asked) == [1, 3]


def test_all_recruiters_together_may_have_too_few() -> None:
    assert recruit(9, pool("a"), pool("b"))[0] == {"a:1", "b:1"}


@pytest.mark.parametrize("broken", [None, cut, answers(b"x", 500), answers({}), answers({"workers": [{"slots": 1}]})])
def test_a_recruiter_that_is_of_no_use_is_passed_over(broken: Behaviour | None) -> None:
    found, _, troubles = recruit(9, broken, pool("a"))
    assert found == {"a:1"}
    assert len(troubles) == 1


def test_to_reach_no_recruiter_is_to_get_nobody() -> None:
    assert recruit(9, None, None)[0] == set()


def test_which_recruiter_is_asked_first_is_chance() -> None:
    async def run() -> set[str]:
        async with peer(pool(*map(str, range(100)))) as one, peer(pool(*map(str, range(100)))) as other:
            recruiting = HttpRecruiting([one.url, other.url], Random(1))
            for _ in range(20):
                await recruiting.recruit(1, "", "acme")
            await recruiting.close()
            return {each.addr for each in (one, other) if each.asked}

    assert len(asyncio.run(run())) == 2


def test_all_that_a_recruiter_says_of_a_worker_is_known() -> None:
    worker = {"addr": "a:1", "node_name": "n7", "slots": 4, "reservation": "r1"}

    async def run() -> None:
        async with peer(answers({"workers": [worker]})) as one:
            recruiting = HttpRecruiting([one.url], Random(1))
            assert await recruiting.recruit(1, "", "acme") == [Recruited("a:1", "n7", 4, "r1", "acme")]
            await recruiting.close()

    asyncio.run(run())


def test_a_reservation_that_would_write_headers_of_its_own_is_refused() -> None:
    found, _, troubles = recruit(9, answers({"workers": [{"addr": "a:1", "reservation": "x\r\nY: 1"}]}), pool("b"))
    assert found == {"b:1"}
    assert "reservation" in troubles[0]


@pytest.mark.parametrize(
    "worker",
    [
        {"addr": "a:1/elsewhere"},
        {"addr": "somebody@a:1"},
        {"addr": "a"},
        {"addr": "a:70000"},
        {"addr": "http://a:1"},
        {"addr": "a:1", "slots": 0},
        {"addr": "a:1", "slots": 10**9},
        {"addr": "a:1", "slots": "4"},
        {"addr": "a:1", "node": ["n"]},
        {"addr": 5},
        "a:1",
    ],
)
def test_a_worker_that_cannot_be_one_is_not_believed_and_the_next_recruiter_is_asked(worker: Any) -> None:
    found, _, troubles = recruit(9, answers({"workers": [worker, {"addr": "c:1"}]}), pool("b"))
    assert found == {"b:1"}
    assert "cannot be understood" in troubles[0]


def test_a_recruiter_that_gives_more_than_was_asked_for_is_not_believed() -> None:
    """Whom it gave too many would be released, which is a call, too."""
    found, _, troubles = recruit(2, answers({"workers": [{"addr": f"a:{port}"} for port in range(1, 9)]}), pool("b"))
    assert found == {"b:1"}
    assert "it gave 8 workers, and was asked for 2" in troubles[0]


@pytest.mark.parametrize("addr", ["127.0.0.1:{port}/x", "x@127.0.0.1:{port}", "127.0.0.1:{port}?"])
def test_what_is_no_address_of_a_worker_is_never_called(addr: str) -> None:
    async def run() -> int:
        async with peer(answers(b"", 204)) as there, search_workers() as workers:
            worker = Recruited(addr.format(port=there.worker.addr.rpartition(":")[2]), "n", 1, "r")
            await workers.release(worker)
            with pytest.raises(WorkerNotReachedError, match="is no address"):
                await workers.search(worker, SearchSpec("x", 1), CHUNK, ask_about=(), on_progress=lambda _: None)
            return len(there.asked)

    assert asyncio.run(run()) == 0


# Searching


@asynccontextmanager
async def search_workers(rows: RowLimits | None = None) -> AsyncGenerator[HttpSearchWorkers]:
    one = HttpSearchWorkers(authorize=lambda _: "Bearer secret", rows=rows)
    try:
        yield one
    finally:
        await one.close()


def search(behave: Behaviour, rows: RowLimits | None = None) -> tuple[ChunkAnswer, list[int], Peer]:
    progress: list[int] = []

    async def run() -> tuple[ChunkAnswer, Peer]:
        async with peer(behave) as worker, search_workers(rows) as workers:
            spec = SearchSpec("x", 1)
            answer = await workers.search(worker.worker, spec, CHUNK, ask_about={"f"}, on_progress=progress.append)
            return answer, worker

    answer, worker = asyncio.run(run())
    return answer, progress, worker


def test_a_chunk_comes_back_with_its_rows_and_report() -> None:
    answer, progress, worker = search(answers(WHOLE))
    assert (list(answer.batches), answer.report, progress) == ([ROWS], REPORT, [5])
    (asked,) = worker.asked
    assert asked.path == "/worker/chunksearch"
    assert asked.headers["x-reservation"] == "r1"
    assert asked.headers["accept"] == "application/vnd.quarterdeck.chunk"
    assert asked.headers["authorization"] == "Bearer secret"
    assert decode_chunk(asked.body, 0).spec == SearchSpec("x", 1)


def test_rows_beyond_the_limit_wait_on_disk(tmp_path: Path) -> None:
    answer = search(answers(WHOLE), RowLimits(tmp_path, memory_bytes=0))[0]
    assert list(answer.batches) == [ROWS]
    assert (memory_bytes_of(answer.batches), disk_bytes_of(answer.batches) > 0) == (0, True)


def test_the_rows_of_an_answer_may_come_byte_by_byte() -> None:
    async def behave(asked: Asked) -> None:
        await asked.begin()
        for at in range(len(WHOLE)):
            await asked.say(WHOLE[at : at + 1])
        await asked.say(b"", more=False)

    assert list(search(behave)[0].batches) == [ROWS]


def test_of_large_frames_only_a_few_come_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_LARGE_BYTES", 100)
    monkeypatch.setattr(client_module, "_LARGE_AT_ONCE", 2)
    read_large = client_module._Reading._read_large  # pyright: ignore[reportPrivateUsage]
    coming, most = 0, 0

    async def counted(reading: Any) -> None:
        nonlocal coming, most
        coming += 1
        most = max(most, coming)
        await read_large(reading)
        coming -= 1

    monkeypatch.setattr(client_module._Reading, "_read_large", counted)  # pyright: ignore[reportPrivateUsage]

    async def behave(asked: Asked) -> None:
        await asked.begin()
        for at in range(0, len(WHOLE), 50):
            await asked.say(WHOLE[at : at + 50])
            await asyncio.sleep(0)
        await asked.say(b"", more=False)

    async def run() -> list[ChunkAnswer]:
        async with peer(behave) as worker, search_workers() as workers:
            ask = partial(workers.search, worker.worker, SearchSpec("x", 1), CHUNK)
            return await asyncio.gather(*(ask(ask_about=(), on_progress=lambda _: None) for _ in range(6)))

    assert [list(answer.batches) for answer in asyncio.run(run())] == [[ROWS]] * 6
    assert (most, coming) == (2, 0)


def test_a_large_frame_that_comes_too_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_LARGE_S", 0.05)

    async def behave(asked: Asked) -> None:
        await asked.begin()
        await asked.say((64 * 1024**2 - 1).to_bytes(4, "little") + bytes([FrameKind.ROWS]))
        await asked.wait_gone()

    with pytest.raises(WorkerLostError, match=r"a frame of 67,108,868 bytes did not come within 0\.05 s"):
        search(behave)


REFUSED = QuarterdeckError(ErrorCode.INVALID_ARGUMENT, "bad query", "line 1, column 2", "mend it")
FULL = QuarterdeckError(ErrorCode.UNAVAILABLE, "no", "the store is away", "later")


@pytest.mark.parametrize(
    "behave, why",
    [
        (cut, "closed by the peer"),
        (answers(WHOLE[: -len(encode_report(REPORT, SENT))]), "ended without a report"),
        (answers(b""), "ended without a report"),
        (answers(WHOLE + encode_progress(1)), "after the report"),
        (answers(WHOLE + b"\x00"), "after the report"),
        (answers(b"\xff\xff\xff\xff\x01"), "a frame of"),
        (answers(rendered(FULL), 503), "answered 503: no: the store is away"),
        (answers(encode_error(FULL)), "the store is away"),
        (answers(b"<html>", 400), "cannot be read"),
    ],
)
def test_a_worker_that_does_not_finish_is_lost(behave: Behaviour, why: str) -> None:
    with pytest.raises(WorkerLostError, match=why) as lost:
        search(behave)
    assert not isinstance(lost.value, WorkerNotReachedError)


def rows_of(*texts: str) -> bytes:
    return b"".join(RowFrames().of([_arrow.record_batch([[None] * len(texts), [1] * len(texts), texts], SCHEMA)]))


@pytest.mark.parametrize(
    "answer, why",
    [
        (encode_report(ChunkReport(0, 0), NOTHING), "0 pieces with 0 bytes were searched, of 1 with 10 bytes"),
        (encode_report(ChunkReport(10, 0, pieces=1), SENT), "what came is"),
        (FRAMES + encode_report(replace(REPORT, matches=1), SENT), "the rows stand for 2 records"),
        (FRAMES + FRAMES + encode_report(REPORT, SENT), "what came is"),
        (rows_of("a", "c") + encode_report(REPORT, SENT), "what came is"),
        (FRAMES + encode_report(replace(REPORT, problems=(FileProblem("/b", "no"),)), SENT), "not in the chunk"),
        (FRAMES[:-20] + bytes(20) + encode_report(REPORT, SENT), "not those that were hashed"),
        (b"".join(RowFrames().of([_arrow.record_batch({"v": [1]})])), "not those of this search"),
        (b"\x02\x00\x00\x00\x02[]", "progress that cannot be read"),
    ],
)
def test_an_answer_that_does_not_add_up_is_a_broken_protocol(answer: bytes, why: str) -> None:
    with pytest.raises(WorkerBrokeProtocolError, match=why):
        search(answers(answer))


@pytest.mark.parametrize("status", [404, 409])
def test_a_worker_that_is_not_ours_never_had_the_chunk(status: int) -> None:
    with pytest.raises(WorkerNotReachedError, match=f"answered {status}"):
        search(answers(rendered(REFUSED), status))


@pytest.mark.parametrize(
    "behave", [answers(rendered(REFUSED), 400), answers(encode_progress(1) + encode_error(REFUSED))]
)
def test_what_a_worker_refuses_is_told_in_its_own_words(behave: Behaviour) -> None:
    with pytest.raises(QuarterdeckError) as refused:
        search(behave)
    assert refused.value.args == (*REFUSED.args[:-1], False)


NO_ROOM = QuarterdeckError(ErrorCode.RESOURCE_EXHAUSTED, "no", "the disk is full", "free space")
TOO_LARGE = QuarterdeckError(ErrorCode.RESOURCE_EXHAUSTED, "no", "a row is too large", "cut it", retryable=False)


@pytest.mark.parametrize(
    "behave", [answers(rendered(NO_ROOM), 429), answers(encode_progress(1) + encode_error(NO_ROOM))]
)
def test_a_worker_without_room_is_lost_and_says_why(behave: Behaviour) -> None:
    with pytest.raises(WorkerHasNoRoomError, match="the disk is full"):
        search(behave)


def test_a_limit_that_the_next_worker_would_reach_as_well_is_a_refusal() -> None:
    with pytest.raises(QuarterdeckError, match="a row is too large"):
        search(answers(encode_progress(1) + encode_error(TOO_LARGE)))


@pytest.mark.parametrize("addr", ["", "no address"])
def test_a_worker_that_is_not_there_never_had_the_chunk(addr: str) -> None:
    async def run() -> None:
        async with nobody() as dead, search_workers() as workers:
            worker = Recruited(addr or dead, "n", 1, "r")
            await workers.release(worker)
            await workers.search(worker, SearchSpec("x", 1), CHUNK, ask_about=(), on_progress=lambda _: None)

    with pytest.raises(WorkerNotReachedError):
        asyncio.run(run())


def test_a_worker_that_is_silent_for_too_long_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_S", 0.05)

    async def behave(asked: Asked) -> None:
        await asked.begin()
        await asked.say(encode_progress(1))
        await asked.wait_gone()

    with pytest.raises(WorkerLostError, match=r"nothing came for 0\.05 s"):
        search(behave)


def test_a_search_that_is_canceled_hangs_up() -> None:
    async def run() -> None:
        async with peer(hold) as worker, search_workers() as workers:
            searching = asyncio.create_task(
                workers.search(worker.worker, SearchSpec("x", 1), CHUNK, ask_about=(), on_progress=lambda _: None)
            )
            await until(lambda: bool(worker.asked))
            searching.cancel()
            await until(lambda: worker.gone == 1)
            await asyncio.wait([searching])

    asyncio.run(run())


# Releasing


async def released(behave: Behaviour) -> Peer:
    async with peer(behave) as worker, search_workers() as workers:
        await workers.release(worker.worker)
        return worker


def test_a_release_names_its_reservation() -> None:
    worker = asyncio.run(released(answers(b"", 204)))
    (asked,) = worker.asked
    assert (asked.path, asked.headers["x-reservation"]) == ("/worker/release", "r1")


@pytest.mark.parametrize("behave", [hold, cut, answers(b"x", 500)])
def test_nothing_that_goes_wrong_with_a_release_is_told(behave: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_RELEASE_S", 0.05)
    asyncio.run(released(behave))


def test_workers_of_a_crew_with_tls_are_asked_over_tls() -> None:
    authority = trustme.CA()
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    client_side = ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server_side)  # pyright: ignore[reportUnknownMemberType]
    authority.configure_trust(client_side)  # pyright: ignore[reportUnknownMemberType]

    async def run() -> None:
        async with peer(answers(b"", 204), ssl=server_side) as worker:
            workers = HttpSearchWorkers(ssl=client_side)
            await workers.release(worker.worker)
            await workers.close()
            assert len(worker.asked) == 1

    asyncio.run(run())
