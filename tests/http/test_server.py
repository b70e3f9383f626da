"""The embedded server over real connections: starting and stopping."""

import asyncio
import logging
import signal
import socket
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.server import HttpServer
from tests.http.asked import Run, Slow, connected, connections_of, listener_of, served, text_app, until
from tests.patience import PATIENCE_S


def test_a_started_server_answers_at_its_port(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            assert server.url == f"http://127.0.0.1:{server.port}"
            client.get("/")
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, b"aye")

    run(test())


def test_a_response_has_a_date_and_does_not_name_the_server(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            client.get("/")
            answer = await client.answer()
            assert answer.headers["date"].endswith(" GMT")
            assert "server" not in answer.headers

    run(test())


def test_a_connection_serves_many_requests(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            for _ in range(3):
                client.get("/")
                assert (await client.answer()).body == b"aye"

    run(test())


def test_small_answers_are_not_held_back_by_the_kernel(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            client.get("/")
            await client.answer()
            (connection,) = connections_of(server)
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(test())


def test_several_servers_live_on_one_loop(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("one")) as one, served(text_app("two")) as two:
            assert one.port != two.port
            async with connected(one) as to_one, connected(two) as to_two:
                to_one.get("/")
                to_two.get("/")
                assert (await to_one.answer()).body == b"one"
                assert (await to_two.answer()).body == b"two"

    run(test())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_name_and_both_families_can_be_listened_on(run: Run, host: str) -> None:
    async def test() -> None:
        server = HttpServer(text_app("aye"), host, 0)
        try:
            await server.start()
        except QuarterdeckError:
            assert host == "::1"
            pytest.skip("this machine has no IPv6")
        try:
            reader, writer = await asyncio.open_connection(host, server.port)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            assert (await reader.read()).endswith(b"aye")
            writer.close()
            await writer.wait_closed()
            assert server.url == f"http://{'[::1]' if host == '::1' else host}:{server.port}"
        finally:
            await server.stop(1)

    run(test())


def test_a_server_leaves_the_signals_alone(run: Run) -> None:
    async def test() -> None:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        async with served(text_app("aye")):
            assert {number: signal.getsignal(number) for number in before} == before

    run(test())


def test_a_busy_port_is_named_with_what_to_do(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as first:
            second = HttpServer(text_app("no"), "127.0.0.1", first.port)
            with pytest.raises(QuarterdeckError) as refused:
                await second.start()
            assert refused.value.code is ErrorCode.UNAVAILABLE
            assert refused.value.what == f"cannot listen on 127.0.0.1:{first.port}"
            assert "take another port" in refused.value.next_step
            assert await second.stop(0) == 0

    run(test())


@pytest.mark.parametrize(
    "host, port, why",
    [
        ("192.0.2.1", 0, "this machine has no such address"),
        ("no-such-name.invalid", 0, "the name has no address"),
        ("127.0.0.1", 70_000, "port"),
    ],
)
def test_an_impossible_address_is_the_callers_mistake(run: Run, host: str, port: int, why: str) -> None:
    async def test() -> None:
        with pytest.raises(QuarterdeckError, match=why) as refused:
            await HttpServer(text_app("no"), host, port).start()
        assert refused.value.code is ErrorCode.INVALID_ARGUMENT

    run(test())


def test_a_stopped_servers_port_can_be_taken_again_at_once(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("one")) as first, connected(first) as client:
            client.get("/")
            await client.answer()
            await first.stop(1)  # who closes first leaves a trace in the kernel
            assert await client.rest() == b""
        again = HttpServer(text_app("two"), "127.0.0.1", first.port)
        await again.start()
        assert await again.stop(1) == 0

    run(test())


def test_a_request_is_not_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as client:
            client.get("/secret?token=hunter2")
            assert (await client.answer()).status == 200

    with caplog.at_level(logging.INFO):
        run(test())
    assert "hunter2" not in caplog.text


# Stopping


def test_stopping_closes_idle_connections_at_once(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server, connected(server) as used, connected(server) as fresh:
            used.get("/")
            await used.answer()
            fresh.send(b"GET / HT")
            assert await server.stop(60) == 0
            assert await used.rest() == b""
            assert await fresh.rest() == b""

    run(asyncio.wait_for(test(), 10))


def test_requests_that_are_not_answered_yet_are_counted(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow) as server, connected(server) as client:
            assert server.open_requests == 0
            client.get("/")
            await slow.wait_begun()
            assert server.open_requests == 1
            slow.go_on.set()
            await client.answer()
            await until(lambda: server.open_requests == 0)

    run(test())


def test_stopping_lets_a_running_request_finish(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow) as server, connected(server) as client:
            client.get("/")
            await slow.wait_begun()
            stopping = asyncio.create_task(server.stop(60))
            await asyncio.sleep(0)  # it has begun
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", server.port)
            assert not stopping.done()
            slow.go_on.set()
            answer = await client.answer()
            assert (answer.body, answer.headers["connection"]) == (b"done", "close")
            assert await stopping == 0

    run(test())


def test_a_request_that_does_not_finish_in_time_is_cut_off_quietly(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow) as server, connected(server) as client:
            client.get("/")
            await slow.wait_begun()
            assert await server.stop(0.01) == 1
            assert slow.canceled
            assert await client.rest() == b""

    with caplog.at_level(logging.WARNING):
        run(test())
    assert caplog.records == []


def test_a_request_whose_client_has_gone_is_waited_for_too(run: Run) -> None:
    async def test() -> None:
        slow = Slow()
        async with served(slow) as server:
            async with connected(server) as client:
                client.get("/")
                await slow.wait_begun()
            stopping = asyncio.create_task(server.stop(60))
            await asyncio.sleep(0)
            assert not stopping.done()
            slow.go_on.set()
            assert await stopping == 0

    run(test())


def test_a_client_that_does_not_read_does_not_hold_up_the_end(run: Run) -> None:
    async def test() -> None:
        begun = asyncio.Event()

        async def endless(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                begun.set()
                await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
                await asyncio.sleep(0)

        async with served(endless) as server, connected(server) as client:
            client.get("/")
            async with asyncio.timeout(PATIENCE_S):
                await begun.wait()
            assert await server.stop(0.01) == 1

    run(test())


def test_a_connection_that_was_accepted_in_the_moment_of_stopping_is_closed(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server:
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                listener_of(server)._accept_waiting()  # pyright: ignore[reportPrivateUsage]
                assert await server.stop(60) == 0
                client.settimeout(5)
                assert client.recv(1) == b""

    run(asyncio.wait_for(test(), 10))


def test_stopping_again_is_fine(run: Run) -> None:
    async def test() -> None:
        async with served(text_app("aye")) as server:
            assert await server.stop(1) == 0
            assert await server.stop(1) == 0

    run(test())


def test_an_application_that_breaks_costs_its_own_request_only(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a bug")

    async def test(app: ASGIApp) -> None:
        async with served(app) as server:
            for _ in range(2):
                async with connected(server) as client:
                    client.get("/")
                    answer = await client.answer()
                    assert answer.status == 500
                    assert b"a bug" not in answer.body

    run(test(broken))
    assert "a bug" in caplog.text


def test_running_out_of_descriptors_is_waited_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("quarterdeck.http.listener._PAUSE_S", 0.01)
        async with served(text_app("aye")) as server:
            listener = listener_of(server)
            real, calls = listener._listening, 0  # pyright: ignore[reportPrivateUsage]

            class Exhausted:
                def accept(self) -> tuple[socket.socket, Any]:
                    nonlocal calls
                    calls += 1
                    if calls == 1:
                        raise OSError(24, "Too many open files")
                    return real.accept()

                def fileno(self) -> int:
                    return real.fileno()

                def close(self) -> None:
                    real.close()

            monkeypatch.setattr(listener, "_listening", Exhausted())
            async with connected(server) as client:
                client.get("/")
                assert (await client.answer()).body == b"aye"
            assert calls > 1

    run(test())
