"""Who cannot dial a control port hears what is in the way, and what to do about it."""

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from quarterdeck.control import diagnosis
from quarterdeck.control.credentials import channel_credentials
from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.link import LinkClosedError
from quarterdeck.security.tls import TlsFiles
from tests.control.harbour import LOOPBACK, address_of, echo, listening
from tests.ports import dead_port
from tests.security.certificates import Crew


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """On the loop that the processes have: not all that asyncio takes it takes too."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(coroutine)


@pytest.fixture(autouse=True, scope="module")
def what_libuv_keeps_is_there_already() -> None:
    """A pipe for signals, from the first loop of a process on."""
    uvloop.new_event_loop().close()


def files_of(crew: Crew, name: str) -> TlsFiles:
    return TlsFiles(*crew.issue(name), crew.authority)


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(tmp_path)


@pytest.fixture
def strangers(tmp_path: Path) -> Crew:
    folder = tmp_path / "strangers"
    folder.mkdir()
    return Crew(folder)


async def failure(address: str, tls: TlsFiles | None = None, authorization: str | None = None) -> str:
    dialer = GrpcDialer(
        Identity("w0", lambda _: authorization),
        credentials=channel_credentials(tls),
        context=None if tls is None else tls.control_context(),
    )
    with pytest.raises(LinkClosedError) as raised:
        await dialer.dial(address)
    await dialer.close()
    assert address in str(raised.value)
    assert ";" in str(raised.value), "it says what to do"
    return str(raised.value)


@asynccontextmanager
async def answering(words: bytes) -> AsyncGenerator[str]:
    """A server of something else."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(words)
        writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    try:
        yield f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def test_a_name_that_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find)

    async def scenario() -> None:
        assert "the name no-such-host.invalid was not found" in await failure("no-such-host.invalid:7071")

    run(scenario())


def test_a_port_on_which_nothing_listens() -> None:
    async def scenario() -> None:
        with dead_port() as port:
            assert "the connection was refused: nothing listens there" in await failure(f"{LOOPBACK}:{port}")

    run(scenario())


def test_a_machine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "LOOK_S", 0.2)

    async def scenario() -> None:
        with socket.create_server((LOOPBACK, 0)) as silent:  # the system accepts, and nobody ever reads
            address = f"{LOOPBACK}:{silent.getsockname()[1]}"
            assert "it does not answer" in await diagnosis.why_not_connected(address, None)

    run(scenario())


def test_a_network_without_a_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: object, **__: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(asyncio, "open_connection", connect)

    async def scenario() -> None:
        why = await diagnosis.why_not_connected("192.0.2.1:7071", None)
        assert "there is no way to it (Network is unreachable)" in why

    run(scenario())


def test_a_peer_with_tls_for_one_without(crew: Crew) -> None:
    async def scenario() -> None:
        async with listening(echo, tls=files_of(crew, "server")) as server:
            assert "it speaks TLS, and this process does not" in await failure(address_of(server))

    run(scenario())


def test_a_peer_without_tls_for_one_with_it(crew: Crew) -> None:
    async def scenario() -> None:
        async with listening(echo) as server:
            assert "it does not speak TLS, and this process does" in await failure(
                address_of(server), files_of(crew, "client")
            )

    run(scenario())


def test_a_certificate_of_another_authority(crew: Crew, strangers: Crew) -> None:
    async def scenario() -> None:
        async with listening(echo, tls=files_of(strangers, "server")) as server:
            assert "its certificate is not trusted" in await failure(address_of(server), files_of(crew, "client"))

    run(scenario())


def test_a_certificate_for_another_name(crew: Crew) -> None:
    leaf = crew.ca.issue_cert("elsewhere.example")
    certificate, key = crew.folder / "elsewhere.pem", crew.folder / "elsewhere.key"
    leaf.cert_chain_pems[0].write_to_path(str(certificate))
    leaf.private_key_pem.write_to_path(str(key))

    async def scenario() -> None:
        async with listening(echo, tls=TlsFiles(certificate, key, crew.authority)) as server:
            why = await failure(address_of(server), files_of(crew, "client"))
            assert f"its certificate is not one for {LOOPBACK}" in why

    run(scenario())


def test_a_peer_that_does_not_accept_our_certificate(crew: Crew, strangers: Crew) -> None:
    """We trust it, and it does not trust us."""
    certificate, key = strangers.issue("client")
    both = crew.folder / "both.pem"
    both.write_bytes(crew.authority.read_bytes() + strangers.authority.read_bytes())

    async def scenario() -> None:
        async with listening(echo, tls=files_of(crew, "server")) as server:
            why = await failure(address_of(server), TlsFiles(certificate, key, both))
            assert "it does not accept the certificate of this process" in why

    run(scenario())


def test_the_http_port_instead_of_the_control_port() -> None:
    async def scenario() -> None:
        async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
            assert "a server of HTTP/1 answers there; name the control port" in await failure(address)

    run(scenario())


def test_something_else_that_listens_there(crew: Crew) -> None:
    async def scenario() -> None:
        async with answering(b"220 mail.example\r\n") as address:
            assert "something else listens there" in await failure(address)
            assert "something else listens there" in await failure(address, files_of(crew, "client"))

    run(scenario())


def test_a_wrong_token_says_how_the_right_one_is_named() -> None:
    async def scenario() -> None:
        async with listening(echo, admits=lambda header: header == "Bearer right") as server:
            for wrong in ("Bearer wrong", None):
                why = await failure(address_of(server), authorization=wrong)
                assert "unauthenticated: the token is missing or is not the crew's" in why
                assert "token_file" in why

    run(scenario())


def test_another_version_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.control.dialer.PROTOCOL", "999")

    async def scenario() -> None:
        async with listening(echo) as server:
            assert "run the same release on both" in await failure(address_of(server))

    run(scenario())
