"""Clients that are slow, or many, or send more than they should: what each gets, and that the others do not suffer."""

import asyncio
import gc
import resource
import socket
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from quarterdeck.http.body_budget import FREE_BYTES, BodyBudget
from quarterdeck.http.connection import HttpLimits
from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.server import HttpServer
from tests.http.asked import Client, Run, Slow, connected, connections_of, respond, served, text_app, until
from tests.patience import PATIENCE_S

HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n"

JSON_HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


async def body_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Gathers the body as a framework does, and says how long it was."""
    parts: list[bytes] = []
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return
        parts.append(message["body"])
        if not message["more_body"]:
            await respond(send, str(sum(map(len, parts))).encode())
            return


def test_a_body_of_which_nothing_comes_is_not_waited_for(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(body_stall_s=0.05)
        async with served(body_app, limits=limits) as server, connected(server) as client:
            client.send(HEAD % 1000 + b"some")
            answer = await client.answer()
            assert (answer.status, answer.json["error"]["code"]) == (408, "deadline_exceeded")
            assert answer.headers["connection"] == "close"
            assert await client.rest() == b""
            assert server.room.slow == 1

    run(test())


class Wanted(BaseModel):
    number: int


def test_what_came_of_a_body_is_free_when_its_client_was_too_slow_or_wrong(run: Run) -> None:
    app = FastAPI()
    add_error_handlers(app)

    @app.post("/")
    async def post(wanted: Wanted) -> int:
        return wanted.number

    async def test() -> None:
        async with served(app, limits=HttpLimits(body_stall_s=0.05)) as server:
            for head, status in ((HEAD % 1_000_000, 408), (JSON_HEAD % 300_002, 422), (JSON_HEAD % 300_002, 422)):
                async with connected(server) as client:
                    client.send(head + b'"' + bytes(300_000).replace(b"\0", b"x") + b'"')
                    assert (await client.answer()).status in (status, 400)
            await until(lambda: not connections_of(server))
        assert not [each for each in gc.get_objects() if type(each) in (ClientDisconnect, RequestValidationError)]

    gc.collect()
    gc.disable()
    try:
        run(test())
    finally:
        gc.enable()
    assert post


def test_a_body_that_drips_has_an_end_too(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(body_stall_s=5.0, body_timeout_s=0.1)
        async with served(body_app, limits=limits) as server, connected(server) as client:
            client.send(HEAD % 1_000_000)
            told = asyncio.create_task(client.rest())
            while not client.writer.transport.is_closing():
                client.send(b"x")
                await asyncio.sleep(0.005)
            assert not await told or b" 408 " in await told  # it may be lost: we had sent more than was read
            assert server.room.slow == 1

    run(test())


def test_a_body_that_comes_in_time_is_taken_whole(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(body_stall_s=5.0, body_timeout_s=5.0)
        async with served(body_app, limits=limits) as server, connected(server) as client:
            for _ in range(2):
                client.send(HEAD % 20)
                for _ in range(20):
                    client.send(b"x")
                    await asyncio.sleep(0)
                assert (await client.answer()).body == b"20"
            (connection,) = connections_of(server)
            assert vars(connection)["_body_timer"] is None
            assert server.room.slow == 0

    run(test())


def test_a_request_that_is_answered_slowly_is_no_slow_body(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow, limits=HttpLimits(body_stall_s=0.02)) as server, connected(server) as client:
            client.send(HEAD % 4 + b"so")
            await slow.wait_begun()
            client.send(b"me")
            await until(lambda: server.room.table.waiting_of("127.0.0.1") == 0)
            await asyncio.sleep(0.06)
            slow.go_on.set()
            assert (await client.answer()).body == b"done"

    run(test())


def test_who_waits_for_us_to_read_is_not_slow(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        limits = HttpLimits(body_stall_s=0.02, body_timeout_s=0.02)
        size_bytes = 3_000_000
        async with served(slow, limits=limits) as server, connected(server) as client:
            client.send(HEAD % size_bytes + bytes(size_bytes))
            await slow.wait_begun()
            (connection,) = connections_of(server)
            await until(lambda: connection.flow.read_paused)
            await asyncio.sleep(0.1)
            assert server.room.slow == 0
            slow.go_on.set()
            assert (await client.answer()).body == b"done"

    run(test())


def test_a_body_that_goes_on_after_its_answer_has_an_end_too(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(body_stall_s=0.05)
        async with served(text_app("no"), limits=limits) as server, connected(server) as client:
            client.send(HEAD % 1000)
            assert (await client.answer()).body == b"no"
            client.send(b"x")
            assert await client.rest() == b""

    run(test())


def test_whoever_reads_nothing_of_a_large_answer_is_cut_off(run: Run) -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})

    async def test() -> None:
        async with served(endless, limits=HttpLimits(unread_timeout_s=0.05)) as server:
            with socket.create_connection(("127.0.0.1", server.port)) as unread:
                unread.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
                await until(lambda: len(connections_of(server)) == 1)
                await until(lambda: not connections_of(server))
                assert server.room.slow == 1

    run(test())


def test_whoever_reads_slowly_is_not_cut_off(run: Run) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, bytes(8_000_000))

    async def test() -> None:
        async with served(large, limits=HttpLimits(unread_timeout_s=5.0)) as server, connected(server) as client:
            client.get("/", "Connection: close")
            await until(lambda: any(one.flow.write_paused for one in connections_of(server)))
            assert len(await client.rest()) > 8_000_000
            assert server.room.slow == 0

    run(test())


def test_too_many_headers_are_refused(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(headers=20)
        async with served(text_app("aye"), limits=limits) as server:
            async with connected(server) as client:
                client.get("/", *(f"X-{number}: 1" for number in range(19)))
                assert (await client.answer()).status == 200
            async with connected(server) as client:
                client.get("/", *(f"X-{number}: 1" for number in range(20)))
                answer = await client.answer()
                assert (answer.status, answer.json["error"]["why"]) == (431, "it has more than 20 headers")

    run(test())


def test_a_header_that_is_too_long_is_refused(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye"), limits=HttpLimits(header_bytes=20)) as server, connected(server) as client:
            client.get("/", "X-Fine: " + "x" * 20)
            assert (await client.answer()).status == 200
            client.get("/", "X-Long: " + "x" * 21)
            answer = await client.answer()
            assert (answer.status, answer.json["error"]["why"]) == (431, "one of its headers is longer than 20 bytes")

    run(test())


def test_requests_are_not_gathered_without_end_behind_one_that_runs(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow) as server, connected(server) as client:
            client.get("/")
            await slow.wait_begun()
            client.send(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 1000)
            assert await client.rest() == b""
            slow.go_on.set()  # for nobody any more
            await until(lambda: not server.open_requests)

    run(test())


def test_a_client_that_goes_is_noticed_behind_requests_that_it_sent_ahead(run: Run) -> None:
    async def test() -> None:
        noticed = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            noticed.set()

        async with served(app) as server:
            async with connected(server) as client:
                client.get("/")
                client.get("/")
                await until(lambda: any(connection.pipeline for connection in connections_of(server)))
            async with asyncio.timeout(PATIENCE_S):
                await noticed.wait()

    run(test())


def test_a_body_that_is_all_frame_is_refused(run: Run) -> None:
    async def test() -> None:
        async with served(body_app) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Endless: ")
            await until(lambda: len(connections_of(server)) == 1)
            client.send(b"x" * 100_000)
            told = await client.rest()
            assert not told or b"more frame than content" in told  # it may be lost: we had sent more than was read
            await until(lambda: not connections_of(server))

    run(test())


def test_chunks_of_a_byte_are_fine(run: Run) -> None:
    async def test() -> None:
        async with served(body_app) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n")
            assert (await client.answer()).body == b"100000"

    run(test())


def test_bodies_that_have_no_room_together_are_refused_and_small_ones_are_not(run: Run) -> None:
    async def test() -> None:
        async with (
            served(body_app, limits=HttpLimits(bodies_bytes=100_000)) as server,
            connected(server) as holding,
            connected(server) as large,
            connected(server) as small,
        ):
            holding.send(HEAD % 100_000 + bytes(99_000))
            await until(lambda: server.room.bodies.used_bytes == 99_000 - FREE_BYTES)
            large.send(HEAD % 50_000 + bytes(50_000))
            refused = await large.answer()
            assert (refused.status, refused.json["error"]["code"]) == (503, "unavailable")
            assert refused.headers["retry-after"] == "5"
            small.send(HEAD % FREE_BYTES + bytes(FREE_BYTES))
            assert (await small.answer()).body == b"%d" % FREE_BYTES
            holding.send(bytes(1000))
            assert (await holding.answer()).body == b"100000"
            assert (server.room.bodies.used_bytes, server.room.bodies.refused) == (0, 1)
            async with connected(server) as again:
                again.send(HEAD % 50_000 + bytes(50_000))
                assert (await again.answer()).body == b"50000"

    run(test())


def test_what_a_client_that_goes_had_sent_is_given_back(run: Run) -> None:
    async def test() -> None:
        async with served(body_app) as server:
            async with connected(server) as client:
                client.send(HEAD % 100_000 + bytes(50_000))
                await until(lambda: server.room.bodies.used_bytes == 50_000 - FREE_BYTES)
            await until(lambda: server.room.bodies.used_bytes == 0)
            assert len(server.room.table) == 0

    run(test())


def test_a_budget_counts_what_is_not_small() -> None:
    budget = BodyBudget(1000)
    assert budget.take(0, FREE_BYTES)
    assert budget.used_bytes == 0
    assert budget.take(FREE_BYTES, 1000)
    assert not budget.take(FREE_BYTES + 1000, 1)
    budget.give_back(FREE_BYTES + 1000)
    assert budget.used_bytes == 0


def test_connections_beyond_the_limit_are_closed_at_once(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow, limits=HttpLimits(connections=3)) as server, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(server)) for _ in range(3)]
            for client in clients:
                client.get("/")
            await until(lambda: server.open_requests == 3)
            late = await stack.enter_async_context(connected(server))
            assert await late.rest() == b""
            assert server.room.table.refused == 1
            slow.go_on.set()
            assert [(await client.answer()).body for client in clients] == [b"done"] * 3
            # They are idle now: the one that is so for longest makes room.
            newcomer = await stack.enter_async_context(connected(server))
            newcomer.get("/")
            assert (await newcomer.answer()).body == b"done"

    run(test())


def test_an_address_keeps_so_many_connections_that_wait_and_loses_the_oldest(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.http.connections.PATIENCE_S", -1.0)

    async def test() -> None:
        limits = HttpLimits(connections_of_address=4)
        async with served(text_app("aye"), limits=limits) as server, AsyncExitStack() as stack:
            clients: list[Client] = []
            for _ in range(8):
                clients.append(await stack.enter_async_context(connected(server)))
                clients[-1].send(b"GET ")
                await until(lambda: len(server.room.table) + server.room.table.refused == len(clients))
            for client in clients[:4]:
                assert await client.rest() == b""
            clients[-1].send(b"/ HTTP/1.1\r\nHost: here\r\n\r\n")
            assert (await clients[-1].answer()).body == b"aye"

    run(test())


def test_any_number_of_one_address_may_wait_for_their_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As workers of one machine do that have registered."""
    monkeypatch.setattr("quarterdeck.http.connections.PATIENCE_S", -1.0)

    async def test() -> None:
        slow = Slow()
        limits = HttpLimits(connections_of_address=2)
        async with served(slow, limits=limits) as server, AsyncExitStack() as stack:
            workers: list[Client] = []
            for number in range(1, 51):
                workers.append(await stack.enter_async_context(connected(server)))
                workers[-1].get("/")
                await until(lambda number=number: server.open_requests == number)
            slow.go_on.set()
            assert [(await worker.answer()).body for worker in workers] == [b"done"] * 50

    run(test())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_five_hundred_slow_bodies_cost_little_and_go_and_others_are_answered(run: Run) -> None:
    """Each sends a head, most of a large body, and nothing more."""
    body = bytes(1_500_000)

    async def slow(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD % 2_000_000)
        for at in range(0, len(body), 100_000):
            writer.write(memoryview(body)[at : at + 100_000])
            try:
                await writer.drain()
            except ConnectionError:
                break
        return reader, writer

    async def test() -> None:
        # The clients live in this process too: each writes from the same bytes, and waits until they are taken.
        limits = HttpLimits(body_stall_s=1.0, bodies_bytes=32 * 1024 * 1024)
        async with served(body_app, limits=limits) as server:
            gc.collect()
            before_bytes = _resident_bytes()
            most_bytes = 0
            writers: list[asyncio.StreamWriter] = []
            try:
                for _ in range(10):
                    found = await asyncio.gather(*(slow(server) for _ in range(50)))
                    writers += [writer for _, writer in found]
                    most_bytes = max(most_bytes, _resident_bytes())
                    assert server.room.bodies.used_bytes <= limits.bodies_bytes
                    async with connected(server) as innocent:
                        began_s = time.thread_time()
                        innocent.send(HEAD % 10 + bytes(10))
                        assert (await innocent.answer()).body == b"10"
                        assert time.thread_time() - began_s < 0.5
                await until(lambda: server.room.bodies.used_bytes == 0 and not connections_of(server))
                assert server.room.slow + server.room.bodies.refused == 500
                assert server.room.bodies.refused > 0
                assert most_bytes - before_bytes < 100 * 1024 * 1024
            finally:
                for writer in writers:
                    writer.transport.abort()

    run(test())
