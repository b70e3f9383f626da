"""What one connection may ask of the server."""

import pytest
from starlette.types import Receive, Scope, Send

from quarterdeck.http.connection import HttpLimits
from tests.http.asked import Run, Slow, connected, connections_of, respond, served, text_app, until


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_head_that_is_too_large_is_refused(run: Run, in_pieces: bool) -> None:
    async def test() -> None:
        asked: list[str] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked.append(scope["path"])
            await respond(send, b"aye")

        async with served(app, limits=HttpLimits(head_bytes=1000)) as server, connected(server) as client:
            if in_pieces:
                client.send(b"GET / HTTP/1.1\r\nHost: here\r\nX-Endless: ")
                await client.writer.drain()
                client.send(b"x" * 1000)
            else:
                client.get("/", "X-Long: " + "x" * 1000)
            answer = await client.answer()
            assert answer.status == 431
            assert answer.json["error"]["why"] == "its request line and headers are longer than 1000 bytes"
            assert await client.rest() == b""
            assert asked == []

    run(test())


def test_a_head_within_the_limit_is_fine_again_and_again(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(head_bytes=1000)
        async with served(text_app("aye"), limits=limits) as server, connected(server) as client:
            for _ in range(3):
                client.send(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 600)
                await until(lambda: any(vars(one)["_in_head"] for one in connections_of(server)))
                client.send(b"\r\n\r\n")
                assert (await client.answer()).status == 200

    run(test())


def test_a_large_body_is_no_large_head(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(head_bytes=1000)
        async with served(text_app("aye"), limits=limits) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5000\r\n\r\n")
            client.send(bytes(5000))
            assert (await client.answer()).status == 200
            client.get("/")
            assert (await client.answer()).status == 200

    run(test())


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: he"])
def test_a_head_that_does_not_come_closes_the_connection(run: Run, first: bytes) -> None:
    async def test() -> None:
        limits = HttpLimits(head_timeout_s=0.02)
        async with served(text_app("aye"), limits=limits) as server, connected(server) as client:
            client.send(first)
            assert await client.rest() == b""

    run(test())


def test_the_rest_of_a_second_head_is_not_waited_for_for_ever(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(head_timeout_s=0.02)
        async with served(text_app("aye"), limits=limits) as server, connected(server) as client:
            client.get("/")
            await client.answer()
            client.send(b"GET / HTTP/1.1\r\n")
            assert await client.rest() == b""

    run(test())


def test_a_slow_request_is_no_slow_head(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow) as server, connected(server) as client:
            client.get("/")
            await slow.wait_begun()
            (connection,) = connections_of(server)
            assert vars(connection)["_head_timer"] is None
            slow.go_on.set()
            assert (await client.answer()).body == b"done"

    run(test())


def test_a_connection_that_is_gone_is_not_waited_for(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server:
            async with connected(server):
                await until(lambda: len(connections_of(server)) == 1)
                (connection,) = connections_of(server)
                assert vars(connection)["_head_timer"] is not None
            await until(lambda: not connections_of(server))
            assert vars(connection)["_head_timer"] is None

    run(test())


def test_an_idle_connection_is_closed_after_a_while(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(keep_alive_s=0)
        async with served(text_app("aye"), limits=limits) as server, connected(server) as client:
            client.get("/")
            assert (await client.answer()).body == b"aye"
            assert await client.rest() == b""

    run(test())


def test_what_is_not_http_is_told_so_in_json(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            client.send(b"\x16\x03\x01 hello\r\n\r\n")
            answer = await client.answer()
            assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_argument")

    run(test())


@pytest.mark.parametrize("trailer", ["authorization: a", "Host: elsewhere", "X-Scope-OrgID: other"])
def test_what_follows_a_body_is_no_header(run: Run, trailer: str) -> None:
    async def test() -> None:
        seen: list[bytes] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            while (await receive())["more_body"]:
                pass
            seen.extend(name for name, _ in scope["headers"])
            await respond(send, b"aye")

        async with served(app) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(f"1\r\nx\r\n0\r\n{trailer}\r\n\r\n".encode())
            assert (await client.answer()).status == 200
            assert seen == [b"host", b"transfer-encoding"]
            client.get("/")
            assert (await client.answer()).status == 200

    run(test())


def test_line_ends_are_no_request_and_are_not_waited_behind_for_ever(run: Run) -> None:
    async def test() -> None:
        limits = HttpLimits(head_timeout_s=0.05)
        async with served(text_app("aye"), limits=limits) as server, connected(server) as client:
            client.get("/")
            await client.answer()
            client.send(b"\r\n")
            assert await client.rest() == b""

    run(test())


def test_line_ends_before_a_request_are_passed_over(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            client.get("/")
            await client.answer()
            client.send(b"\r\n")
            await until(lambda: any(vars(one)["_head_timer"] is not None for one in connections_of(server)))
            client.get("/")
            assert (await client.answer()).status == 200
            (connection,) = connections_of(server)
            assert vars(connection)["_head_timer"] is None
            assert connection.timeout_keep_alive_task is not None

    run(test())


def test_a_connection_whose_request_was_answered_before_its_end_is_not_kept_for_ever(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("no")) as server, connected(server) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\n")
            assert (await client.answer()).body == b"no"
            client.send(b"rest")
            (connection,) = connections_of(server)
            await until(lambda: not vars(connection)["_in_body"])
            assert connection.timeout_keep_alive_task is not None

    run(test())


def test_strangers_do_not_fill_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server:
            async with connected(server) as client:
                client.send(b"no request\r\n\r\n")
                assert (await client.answer()).status == 400
            async with connected(server) as client:
                client.get("/", "Connection: Upgrade", "Upgrade: websocket")
                assert (await client.answer()).status == 200
                client.get("/")
                assert (await client.answer()).status == 200

    run(test())
    assert caplog.records == []
