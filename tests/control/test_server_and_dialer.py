"""Listening and dialling over real sockets: who is let in, who is not, and what is not there."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import grpc.aio
import psutil
import pytest

from quarterdeck.control.codec import encode
from quarterdeck.control.credentials import Handshakes, channel_credentials
from quarterdeck.control.grpc_link import METHOD, GrpcLink
from quarterdeck.control.link import Link, LinkClosedError
from quarterdeck.control.options import METADATA_IDENTITY, METADATA_PROTOCOL, METADATA_TOKEN, PROTOCOL
from quarterdeck.control.server import ControlServer
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.tls import TlsFiles
from tests.control.harbour import (
    LOOPBACK,
    Stopwatch,
    address_of,
    closing_words,
    dialling,
    echo,
    hosting,
    listening,
    number,
    raw_call,
    serves_others,
    until,
)
from tests.ports import dead_port
from tests.security.certificates import Crew


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


# Who is let in


def test_a_caller_with_the_token_is_let_in_and_one_without_is_told_that_it_is_about_the_token() -> None:
    async def scenario() -> None:
        async with listening(echo, admits=lambda header: header == "Bearer right") as server:
            async with dialling("good", authorization="Bearer right") as dialer:
                good = await dialer.dial(address_of(server))
                for wrong in ("Bearer wrong", "right", "", None):
                    async with dialling("bad", authorization=wrong) as intruder:
                        with pytest.raises(LinkClosedError, match="unauthenticated: the token is missing or is not"):
                            await intruder.dial(address_of(server))
                await good.send(number(1))
                assert await good.receive() == number(1)
                good.close()
            assert server.counters == {"wrong_token": 4}

    run(scenario())


def test_a_caller_that_is_not_let_in_always_hears_why() -> None:
    async def scenario() -> None:
        async with listening(echo, admits=lambda header: False) as server, dialling() as dialer:
            for _ in range(100):
                with pytest.raises(LinkClosedError, match="token"):
                    await dialer.dial(address_of(server))

    run(scenario())


def test_a_server_that_takes_the_connection_and_not_the_call_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.control.dialer._CONNECT_S", 0.2)
    never = asyncio.Event()

    async def dither(*_: object) -> None:
        await never.wait()

    async def scenario() -> None:
        async with listening(echo) as server, dialling() as dialer:
            monkeypatch.setattr(server, "_check", dither)
            with pytest.raises(LinkClosedError, match=r"did not answer the call within 0\.2 s"):
                await dialer.dial(address_of(server))

    run(scenario())


@pytest.mark.parametrize("version", ["1", "", None])
def test_a_caller_of_another_protocol_is_told_which_ones_they_are(version: str | None) -> None:
    async def scenario() -> None:
        async with listening(echo) as server:
            said = [(METADATA_IDENTITY, "old")]
            if version is not None:
                said.append((METADATA_PROTOCOL, version))
            async with raw_call(server, *said) as call:
                assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION
                details = await call.details() or ""
                assert f"version {PROTOCOL}" in details
                assert f"the caller {version or 'none'};" in details
            assert server.counters == {"wrong_protocol": 1}
            assert await serves_others(server)

    run(scenario())


def test_a_dialer_of_another_protocol_hears_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.control.dialer.PROTOCOL", "999")

    async def scenario() -> None:
        async with listening(echo) as server, dialling() as dialer:
            with pytest.raises(LinkClosedError, match="the caller 999; run the same release on both"):
                await dialer.dial(address_of(server))

    run(scenario())


def test_of_somebody_without_the_token_not_even_the_version_is_looked_at() -> None:
    async def scenario() -> None:
        async with listening(echo, admits=lambda header: False) as server:
            async with raw_call(server, (METADATA_TOKEN, "Basic x")) as call:
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
            assert server.counters == {"wrong_token": 1}

    run(scenario())


def test_a_caller_without_a_name_is_known_by_its_address() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), raw_call(server, (METADATA_PROTOCOL, PROTOCOL)):
            await until(lambda: bool(guests.here()))
            (far,) = guests.here()
            assert LOOPBACK in far.peer
            guests.leave_all()

    run(scenario())


def test_a_caller_that_says_more_of_itself_than_anybody_needs_is_refused() -> None:
    async def scenario() -> None:
        async with listening(echo) as server:
            said = ((METADATA_PROTOCOL, PROTOCOL), ("x-much", "a" * 100_000))
            async with raw_call(server, *said) as call:
                assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await serves_others(server)

    run(scenario())


def test_a_method_that_is_not_there_is_refused_and_nobody_is_served() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), grpc.aio.insecure_channel(address_of(server)) as channel:
            unknown: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD + "s")
            assert await unknown().code() is grpc.StatusCode.UNIMPLEMENTED
            assert not guests.here()

    run(scenario())


# TLS


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return _certified(tmp_path_factory.mktemp("crew"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return _certified(tmp_path_factory.mktemp("others"))


def _certified(folder: Path) -> TlsFiles:
    authority = Crew(folder)
    return TlsFiles(*authority.issue("member"), authority.authority)


def test_with_tls_those_with_a_certificate_of_the_crew_talk(crew: TlsFiles) -> None:
    async def scenario() -> None:
        async with listening(echo, tls=crew) as server:
            for _ in range(3):
                assert await serves_others(server, channel_credentials(crew))
            assert server.failed_handshakes == 0

    run(scenario())


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)), b"\x16\x03\x01"])
def test_with_tls_strangers_who_cannot_shake_hands_are_counted_after_a_while(crew: TlsFiles, sent: bytes) -> None:
    async def scenario() -> None:
        async with listening(echo, tls=crew) as server:
            _, writer = await asyncio.open_connection(LOOPBACK, server.port)
            writer.write(sent)
            await writer.drain()
            writer.close()
            assert await serves_others(server, channel_credentials(crew))
            assert server.failed_handshakes == 0  # it might still make its call
            with patch("quarterdeck.control.credentials._CALL_WITHIN_S", 0.0):
                await until(lambda: server.failed_handshakes == 1)
            assert await serves_others(server, channel_credentials(crew))
            assert server.failed_handshakes == 1

    run(scenario())


def test_failed_handshakes_never_fall_and_are_counted_when_it_is_sure() -> None:
    now_s = 0.0
    handshakes = Handshakes(lambda: now_s)
    for _ in range(3):
        handshakes.begun()
    handshakes.called()
    assert handshakes.failed == 0
    now_s = 5.0
    assert handshakes.failed == 2
    handshakes.called()  # late
    handshakes.called()
    assert handshakes.failed == 2
    for _ in range(10_003):
        handshakes.begun()
    assert handshakes.failed == 3  # what is kept of the past is bounded: the oldest three are taken for settled


def _no_certificate(crew: TlsFiles, others: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(crew.authority_pem)


def _of_another_authority(crew: TlsFiles, others: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(crew.authority_pem, others.key_pem, others.certificate_pem)


def _no_trust(crew: TlsFiles, others: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(others.authority_pem, crew.key_pem, crew.certificate_pem)


def _no_tls(crew: TlsFiles, others: TlsFiles) -> None:
    return None


Intruder = Callable[[TlsFiles, TlsFiles], grpc.ChannelCredentials | None]


@pytest.mark.parametrize("intruder", [_no_certificate, _of_another_authority, _no_trust, _no_tls])
def test_with_tls_others_are_refused_and_the_crew_is_served_on(
    intruder: Intruder, crew: TlsFiles, others: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.control.dialer._CONNECT_S", 1.0)  # one that is not spoken to waits so long
    monkeypatch.setattr("quarterdeck.control.credentials._CALL_WITHIN_S", 0.0)

    async def scenario() -> None:
        served: list[str] = []

        async def serve(link: Link) -> None:
            served.append(link.peer)
            await echo(link)

        async with listening(serve, tls=crew) as server:
            async with dialling("intruder", credentials=intruder(crew, others)) as dialer:
                with pytest.raises(LinkClosedError):
                    await _dial_and_read(dialer.dial(address_of(server)))
            assert await serves_others(server, channel_credentials(crew))
            assert served == ["somebody else"]
            assert server.failed_handshakes >= 1

    run(scenario())


async def _dial_and_read(dialling: Coroutine[Any, Any, Link]) -> None:
    """In TLS 1.3 a client may think for a moment that it was let in."""
    link = await dialling
    try:
        await link.receive()
    finally:
        link.close()


def test_a_plain_server_does_not_talk_to_a_caller_that_wants_tls(crew: TlsFiles) -> None:
    async def scenario() -> None:
        async with listening(echo) as server:
            async with dialling(credentials=channel_credentials(crew)) as dialer:
                with pytest.raises(LinkClosedError):
                    await dialer.dial(address_of(server))
            assert await serves_others(server)

    run(scenario())


# Nonsense on the port

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NONSENSE = {
    "64 KiB of anything": os.urandom(65536),
    "an HTTP/1 request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half a preface": PREFACE[:12],
    "a preface and nothing": PREFACE,
    "a preface and anything": PREFACE + os.urandom(4096),
    "a preface and an endless frame": PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(100_000),
    "nothing": b"",
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_on_the_port_harms_nobody(nonsense: str) -> None:
    async def scenario() -> None:
        async with listening(echo) as server, dialling() as dialer:
            good = await dialer.dial(address_of(server))
            _, writer = await asyncio.open_connection(LOOPBACK, server.port)
            writer.write(NONSENSE[nonsense])
            await _flushed(writer)
            await good.send(number(1))
            assert await good.receive() == number(1)
            assert await serves_others(server)
            writer.close()
            await _closed(writer)
            assert await serves_others(server)
            good.close()

    run(scenario())


async def _flushed(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # it was shown the door
        await writer.drain()


async def _closed(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        await writer.wait_closed()


# Dialling what is not there


def test_a_port_where_nobody_listens_fails_at_once() -> None:
    async def scenario() -> None:
        with dead_port() as port:
            async with dialling() as dialer:
                watch = Stopwatch()
                with pytest.raises(LinkClosedError, match=f"{LOOPBACK}:{port}"):
                    await dialer.dial(f"{LOOPBACK}:{port}")
                assert watch.elapsed_s() < 1.0

    run(scenario())


def test_a_name_that_nobody_has_fails() -> None:
    async def scenario() -> None:
        async with dialling() as dialer:
            with pytest.raises(LinkClosedError, match="no-such-host"):
                await dialer.dial("no-such-host.invalid:7071")

    run(scenario())


def test_a_port_that_accepts_and_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.control.dialer._CONNECT_S", 0.2)

    async def scenario() -> None:
        with socket.create_server((LOOPBACK, 0)) as silent:
            async with dialling() as dialer:
                with pytest.raises(LinkClosedError, match=r"did not answer within 0\.2 s"):
                    await dialer.dial(f"{LOOPBACK}:{silent.getsockname()[1]}")

    run(scenario())


def test_a_dial_that_is_given_up_leaves_nothing() -> None:
    async def scenario() -> None:
        with socket.create_server((LOOPBACK, 0)) as silent:
            async with dialling() as dialer:
                dial = asyncio.create_task(dialer.dial(f"{LOOPBACK}:{silent.getsockname()[1]}"))
                await asyncio.sleep(0.01)
                dial.cancel()
                await asyncio.wait((dial,))
                assert dial.cancelled()

    run(scenario())


def test_a_connection_that_was_closed_is_not_kept_by_somebody_who_keeps_the_link() -> None:
    async def scenario() -> None:
        async with listening(echo) as server, dialling() as dialer:
            link = await dialer.dial(address_of(server))
            await link.send(number(1))
            await link.receive()
            assert _connections_to(server) == 1
            link.close()
            await dialer.close()
            await until(lambda: _connections_to(server) == 0)
            assert link.peer == address_of(server)

    run(scenario())


def _connections_to(server: ControlServer) -> int:
    connections = psutil.Process().net_connections("tcp")
    return sum(bool(each.raddr) and each.raddr.port == server.port for each in connections)


# Starting and stopping


def test_a_port_that_is_taken_is_named() -> None:
    async def scenario() -> None:
        async with listening(echo) as first:
            second = ControlServer(echo)
            with pytest.raises(QuarterdeckError, match=f"cannot listen on {address_of(first)}") as caught:
                await second.start(LOOPBACK, first.port)
            assert caught.value.code is ErrorCode.UNAVAILABLE
            await second.stop()
            assert await serves_others(first)

    run(scenario())


def test_an_address_of_another_machine_is_named() -> None:
    async def scenario() -> None:
        server = ControlServer(echo)
        with pytest.raises(QuarterdeckError, match=r"cannot listen on 192\.0\.2\.1:7071"):
            await server.start("192.0.2.1", 7071)
        await server.stop()

    run(scenario())


def test_an_address_of_version_6_is_listened_on() -> None:
    async def scenario() -> None:
        server = ControlServer(echo)
        await server.start("::1", 0)
        async with dialling() as dialer:
            link = await dialer.dial(f"[::1]:{server.port}")
            await link.send(number(1))
            assert await link.receive() == number(1)
            link.close()
        await server.stop()

    run(scenario())


def test_a_server_that_stops_ends_its_connections_and_leaves_its_port() -> None:
    async def scenario() -> None:
        async with listening(echo) as server, dialling() as dialer:
            links = [await dialer.dial(address_of(server)) for _ in range(5)]
            for link in links:
                await link.send(number(1))
                await link.receive()
            watch = Stopwatch()
            await server.stop()
            assert watch.elapsed_s() < 0.9  # below its grace
            assert {await closing_words(link) for link in links} == {"closed by the peer"}
            for link in links:
                link.close()
            with pytest.raises(LinkClosedError):
                await dialer.dial(address_of(server))
            again = ControlServer(echo)
            await again.start(LOOPBACK, server.port)
            assert await serves_others(again)
            await again.stop()

    run(scenario())


def test_an_error_in_whoever_serves_ends_that_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def serve(link: Link) -> None:
            if link.peer == "unlucky":
                raise LookupError("a bug of ours")
            await echo(link)

        async with listening(serve) as server:
            async with dialling("unlucky") as dialer:
                link = await dialer.dial(address_of(server))
                assert "LookupError" in await closing_words(link)
                link.close()
            assert await serves_others(server)

    run(scenario())
    assert "a bug of ours" in caplog.text
    caplog.clear()  # the traceback in it holds everything that was alive then


def test_an_error_in_whoever_serves_somebody_that_is_gone_is_told_as_well(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        began = asyncio.Event()

        async def serve(link: Link) -> None:
            began.set()
            await closing_words(link)
            raise LookupError("a bug of ours")

        async with listening(serve) as server, raw_call(server) as call:
            await call.write(encode(number(0)))
            await began.wait()
            call.cancel()
            await until(lambda: "a bug of ours" in caplog.text)

    run(scenario())
    caplog.clear()


def test_callers_that_hang_up_at_once_leave_nothing_and_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with listening(echo) as server:
            for number_of_turns in range(60):
                async with raw_call(server) as call:
                    for _ in range(number_of_turns):
                        await asyncio.sleep(0)
                    call.cancel()
            assert await serves_others(server)

    run(scenario())
    assert not caplog.records


@pytest.mark.parametrize("caller_is_gone", [False, True])
def test_one_who_serves_on_after_the_end_is_canceled_when_the_server_stops(
    caller_is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.control.server._STOP_S", 0.1)

    async def scenario() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def serve(link: Link) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with listening(serve) as server, raw_call(server) as call:
            await began.wait()
            if caller_is_gone:
                call.cancel()
            await server.stop()
            assert ended.is_set()

    run(scenario())


def test_a_caller_that_goes_away_while_nobody_reads_is_noticed() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests):
            async with raw_call(server):
                far = await guests.arrival("raw")
                assert isinstance(far, GrpcLink)
            await until(lambda: far.closed)
            with pytest.raises(LinkClosedError, match="the connection broke"):
                await far.send(number(0))
            guests.leave_all()

    run(scenario())
