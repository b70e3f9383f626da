"""The embedded server over TLS."""

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack

import pytest
import trustme
from starlette.types import Receive, Scope, Send

from quarterdeck.http.connection import HttpLimits
from tests.http.asked import Client, Run, Slow, connected, listener_of, respond, served, text_app, until


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def contexts(authority: trustme.CA) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.tempfile() as path:
        server.load_cert_chain(path)
    return server, ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())


def test_a_server_speaks_tls(run: Run, authority: trustme.CA) -> None:
    async def test() -> None:
        schemes: list[str] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            schemes.append(scope["scheme"])
            await respond(send, b"aye")

        ours, theirs = contexts(authority)
        async with served(app, ours) as server, connected(server, theirs) as client:
            assert server.url.startswith("https://127.0.0.1:")
            client.get("/")
            assert (await client.answer()).body == b"aye"
            assert schemes == ["https"]

    run(test())


def test_a_handshake_that_is_not_over_does_not_outlive_the_server(run: Run, authority: trustme.CA) -> None:
    async def test() -> None:
        ours, _ = contexts(authority)
        async with served(text_app("aye"), ours) as server, connected(server) as mute:
            mute.send(b"\x16\x03\x01")
            await until(lambda: bool(listener_of(server)._admissions))  # pyright: ignore[reportPrivateUsage]
            async with asyncio.timeout(5):  # less than a handshake may take
                assert await server.stop(60) == 0
            assert await mute.rest() == b""

    run(test())


def test_a_handshake_counts_as_a_connection_that_waits(
    run: Run, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.http.connections.PATIENCE_S", -1.0)

    async def test() -> None:
        ours, _ = contexts(authority)
        limits = HttpLimits(connections_of_address=2)
        async with served(text_app("aye"), ours, limits) as server, AsyncExitStack() as stack:
            table = server.room.table
            mute: list[Client] = []
            for number in range(1, 4):
                mute.append(await stack.enter_async_context(connected(server)))
                await until(lambda number=number: len(table) + table.refused == number)
                await asyncio.sleep(0)  # a handshake that is broken off must have begun
            assert await mute[0].rest() == b""
            assert (len(table), table.refused) == (2, 1)

    run(test())


def test_a_client_that_speaks_no_tls_costs_nobody_anything(run: Run, authority: trustme.CA) -> None:
    async def test() -> None:
        ours, theirs = contexts(authority)
        async with served(text_app("aye"), ours) as server:
            async with connected(server) as plain:
                plain.get("/")
                await plain.rest()
            await until(lambda: server.failed_handshakes == 1)
            async with connected(server, theirs) as client:
                client.get("/")
                assert (await client.answer()).body == b"aye"
        assert server.failed_handshakes == 1

    run(test())


def test_a_tls_request_is_cut_off_too(run: Run, authority: trustme.CA) -> None:
    async def test() -> None:
        ours, theirs = contexts(authority)
        slow = Slow()
        async with served(slow, ours) as server, connected(server, theirs) as client:
            client.get("/")
            await slow.wait_begun()
            assert await server.stop(0.01) == 1
            assert slow.canceled

    run(test())


def test_a_connection_that_was_accepted_in_the_moment_of_stopping_is_closed(run: Run, authority: trustme.CA) -> None:
    async def test() -> None:
        ours, _ = contexts(authority)
        async with served(text_app("aye"), ours) as server:
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                listener_of(server)._accept_waiting()  # pyright: ignore[reportPrivateUsage]
                assert await server.stop(60) == 0
                client.settimeout(5)
                assert client.recv(1) == b""

    run(asyncio.wait_for(test(), 5))
