"""Peers that die, hang or break the protocol, over real sockets: noticed soon, and nobody else is touched."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from quarterdeck.control.codec import decode, encode
from quarterdeck.control.link import Envelope
from quarterdeck.control.options import Keepalive
from quarterdeck.control.server import ControlServer
from quarterdeck.core.ids import CoordinatorId, SessionId
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.messages import CoordinatorBeat, Registered, WorkerBeat
from quarterdeck.crew.coordinator import CoordinatorDriver
from tests.control.harbour import (
    LOOPBACK,
    PATIENCE_S,
    Stopwatch,
    address_of,
    closing_words,
    dialling,
    hosting,
    listening,
    number,
    raw_call,
    until,
)
from tests.crew.played import ACCEPTING, CountedIds, LoopClock, PlayedFetcher, registration

PEER_PROCESS = Path(__file__).with_name("peer_process.py")
QUICK = Keepalive(interval_s=0.2, timeout_s=0.2)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


# Peers that die or hang


@asynccontextmanager
async def peer_process(server: ControlServer) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PEER_PROCESS), address_of(server), stdin=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def test_a_process_that_is_killed_is_noticed_at_once() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), peer_process(server) as process:
            far = await guests.arrival("process")
            await far.receive()
            watch = Stopwatch()
            process.kill()
            await closing_words(far)
            assert watch.elapsed_s() < 1.0  # 5 ms on a machine that has nothing else to do, seconds if by pings
            guests.leave_all()

    run(scenario())


def test_a_process_that_stands_still_is_noticed_without_a_session_that_beats() -> None:
    async def scenario() -> None:
        async with hosting(QUICK) as (server, guests), peer_process(server) as process:
            far = await guests.arrival("process")
            await far.receive()
            process.send_signal(signal.SIGSTOP)
            watch = Stopwatch()
            await closing_words(far)
            assert watch.elapsed_s() < 5.0
            guests.leave_all()

    run(scenario())


class Wire:
    """A proxy between a caller and a server; cut, it carries nothing more and tells nobody."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cut = False
        self._writers: list[asyncio.StreamWriter] = []
        self._pumps: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._connect, LOOPBACK, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        self._cut = True

    async def stop(self) -> None:
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await self._server.wait_closed()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward_writer = await asyncio.open_connection(LOOPBACK, self._port)
        self._writers += [writer, onward_writer]
        self._pumps += [
            asyncio.create_task(self._pump(reader, onward_writer)),
            asyncio.create_task(self._pump(onward_reader, writer)),
        ]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self._cut:
                writer.write(data)


def test_a_wire_that_is_cut_is_noticed_at_both_ends() -> None:
    async def scenario() -> None:
        async with hosting(QUICK) as (server, guests), dialling(keepalive=QUICK) as dialer:
            wire = Wire(server.port)
            near = await dialer.dial(f"{LOOPBACK}:{await wire.start()}")
            far = await guests.arrival()
            await near.send(number(1))
            assert await far.receive() == number(1)
            wire.cut()
            watch = Stopwatch()
            reasons = await asyncio.gather(closing_words(near), closing_words(far))
            assert watch.elapsed_s() < 5.0
            assert "timeout" in reasons[0]
            near.close()
            guests.leave_all()
            await dialer.close()
            await wire.stop()

    run(scenario())


@pytest.mark.soak  # gRPC pings once a second at most, and loses patience at the fourth
def test_two_that_say_nothing_for_long_stay_connected() -> None:
    async def scenario() -> None:
        often = Keepalive(interval_s=0.1, timeout_s=5.0)
        async with hosting(Keepalive(interval_s=60.0)) as (server, guests), dialling(keepalive=often) as dialer:
            near = await dialer.dial(address_of(server))
            far = await guests.arrival()
            reading = asyncio.create_task(near.receive())
            done, _ = await asyncio.wait((reading,), timeout=7.0)
            assert not done
            await far.send(number(1))
            assert await reading == number(1)
            near.close()
            guests.leave_all()

    run(scenario())


# Through the coordinator's driver


class Shore:
    """A coordinator that listens on a real port."""

    def __init__(self) -> None:
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        self.driver: CoordinatorDriver[str] = CoordinatorDriver(
            self.machine, clock=LoopClock(), ids=CountedIds(), fetcher=PlayedFetcher()
        )


@asynccontextmanager
async def coordinating() -> AsyncGenerator[tuple[Shore, ControlServer]]:
    shore = Shore()
    running = asyncio.create_task(shore.driver.run())
    try:
        async with listening(shore.driver.serve) as server:
            yield shore, server
    finally:
        running.cancel()
        await asyncio.wait((running,))


async def _register(call: "grpc.aio.StreamStreamCall[bytes, bytes]", name: str) -> SessionId:
    await call.write(encode(Envelope(None, 0, (registration(name),))))
    data = await call.read()
    assert isinstance(data, bytes)
    welcome = decode(data).messages[0]
    assert isinstance(welcome, Registered)
    return welcome.session_id


BAD_SECOND_WORDS: dict[str, Callable[[SessionId], bytes]] = {
    "garbage": lambda _: b"\xff",
    "a number out of turn": lambda session: encode(Envelope(session, 7, (WorkerBeat(ACCEPTING),))),
    "a repeated number": lambda session: encode(Envelope(session, 0, (WorkerBeat(ACCEPTING),))),
    "another session": lambda _: encode(Envelope(SessionId("s9"), 1, (WorkerBeat(ACCEPTING),))),
    "no session": lambda _: encode(Envelope(None, 1, (WorkerBeat(ACCEPTING),))),
    "a coordinator's word": lambda session: encode(Envelope(session, 1, (CoordinatorBeat(),))),
}


@pytest.mark.parametrize("words", BAD_SECOND_WORDS)
def test_a_worker_that_breaks_the_protocol_is_counted_and_loses_its_session_and_nobody_else_does(words: str) -> None:
    async def scenario() -> None:
        async with coordinating() as (shore, server), raw_call(server) as bad, raw_call(server) as good:
            session = await _register(bad, "bad")
            await _register(good, "good")
            await bad.write(BAD_SECOND_WORDS[words](session))
            async with asyncio.timeout(PATIENCE_S):
                while isinstance(await bad.read(), bytes):
                    pass
            await until(lambda: shore.machine.counters["protocol_errors"] == 1)
            assert [each.worker_id for each in shore.machine.roster.sessions()] == ["good"]
            assert shore.machine.counters["sessions_lost"] == 1
            assert not good.done()

    run(scenario())


@pytest.mark.parametrize("words", [b"\xff", encode(Envelope(None, 0, (WorkerBeat(ACCEPTING),)))])
def test_a_caller_that_does_not_begin_with_a_registration_is_counted(words: bytes) -> None:
    async def scenario() -> None:
        async with coordinating() as (shore, server), raw_call(server) as call:
            await call.write(words)
            async with asyncio.timeout(PATIENCE_S):
                assert not isinstance(await call.read(), bytes)
            assert shore.machine.counters["connections_without_registration"] == 1

    run(scenario())


def test_a_worker_that_is_gone_is_lost_at_once() -> None:
    async def scenario() -> None:
        async with coordinating() as (shore, server):
            async with raw_call(server) as call:
                await _register(call, "w0")
            watch = Stopwatch()
            await until(lambda: len(shore.machine.roster) == 0)
            assert watch.elapsed_s() < 1.0
            assert shore.machine.counters["protocol_errors"] == 0

    run(scenario())
