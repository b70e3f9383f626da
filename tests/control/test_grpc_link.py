"""One connection over gRPC, over real sockets: order, last words, and ends that are heard at once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import grpc.aio
import pytest

from quarterdeck.control import conversation
from quarterdeck.control.codec import MAX_ENVELOPE_BYTES, encode
from quarterdeck.control.conversation import Conversation
from quarterdeck.control.grpc_link import GrpcLink
from quarterdeck.control.link import Envelope, Link, LinkClosedError, Message, ProtocolError
from quarterdeck.core.ids import LeafId, QueryId, SessionId, WorkId
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import AssignWork, CoordinatorBeat
from quarterdeck.core.workcoord.model import WorkKey, WorkSpec
from quarterdeck.core.workcoord.peer import LossReason
from tests.control.harbour import (
    PATIENCE_S,
    Stopwatch,
    address_of,
    closing_words,
    connected,
    dialling,
    echo,
    goodbye,
    hear_to_the_end,
    hosting,
    listening,
    number,
    raw_call,
    serves_others,
    until,
)

AT_ONCE_S = 0.5
"""Far below what any timeout of ours or of gRPC's takes, and far above what a busy machine needs."""

Sides = Callable[[Link, Link], tuple[Link, Link]]


def dialled(near: Link, far: Link) -> tuple[Link, Link]:
    """The side that dialled is the one that acts."""
    return near, far


def listened(near: Link, far: Link) -> tuple[Link, Link]:
    return far, near


either_side = pytest.mark.parametrize("sides", [dialled, listened])


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


# Talking


@either_side
def test_either_side_may_speak_first(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, _):
            first, second = sides(near, far)
            await first.send(number(0))
            assert await second.receive() == number(0)
            await second.send(number(1))
            assert await first.receive() == number(1)

    run(scenario())


@either_side
def test_what_is_sent_arrives_whole_and_in_order_while_the_other_side_talks_too(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, _):
            first, second = sides(near, far)

            async def talk(link: Link) -> None:
                for count in range(200):
                    await link.send(number(count, size=count * 50))

            async def listen(link: Link) -> None:
                for count in range(200):
                    assert await link.receive() == number(count, size=count * 50)

            await asyncio.gather(talk(first), talk(second), listen(first), listen(second))

    run(scenario())


def test_the_dialled_side_knows_the_caller_by_its_name_and_the_caller_knows_the_address() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), dialling("w0") as dialer:
            near = await dialer.dial(address_of(server))
            far = await guests.arrival("w0")
            assert (near.peer, far.peer) == (address_of(server), "w0")
            near.close()
            guests.leave(far)

    run(scenario())


@either_side
def test_a_receive_that_is_given_up_loses_nothing(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, _):
            first, second = sides(near, far)
            for count in range(20):
                waiting = asyncio.create_task(first.receive())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait((waiting,))
                assert waiting.cancelled()
                await second.send(number(count))
                assert await first.receive() == number(count)

    run(scenario())


# Last words


@either_side
def test_last_words_are_heard_before_the_end(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            reading = asyncio.create_task(first.receive())
            await second.send(number(0))
            assert await reading == number(0)
            reading = asyncio.create_task(first.receive())  # a conversation always has one under way
            await first.send(goodbye(0))
            guests.leave(first)
            with pytest.raises(LinkClosedError, match="closed by us"):
                await reading
            assert await second.receive() == goodbye(0)
            with pytest.raises(LinkClosedError, match="closed by the peer"):
                await second.receive()
            with pytest.raises(LinkClosedError):
                await second.receive()

    run(scenario())


@either_side
def test_last_words_are_heard_however_many_connections_end_at_once(sides: Sides) -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests):

            async def one(index: int) -> None:
                async with dialling(f"w{index}") as dialer:
                    near = await dialer.dial(address_of(server))
                    far = await guests.arrival(f"w{index}")
                    first, second = sides(near, far)
                    listening = asyncio.create_task(hear_to_the_end(second))
                    answers = asyncio.create_task(hear_to_the_end(first))
                    await second.send(number(0))
                    for count in range(index % 7):
                        await first.send(number(count, size=10_000 * (index % 3)))
                    await first.send(goodbye(index % 7))
                    guests.leave(first)
                    assert (await listening)[-1] == goodbye(index % 7)
                    await answers
                    guests.leave(second)

            for _ in range(3):
                await asyncio.gather(*(one(index) for index in range(30)))

    run(scenario())


@either_side
def test_last_words_are_heard_by_a_peer_that_is_talking(sides: Sides) -> None:
    async def scenario() -> None:
        for _ in range(10):
            async with connected() as (near, far, guests):
                first, second = sides(near, far)
                talking = asyncio.create_task(_write_for_ever(second, size=20_000))
                await first.receive()
                await first.send(goodbye(0))
                guests.leave(first)
                assert (await hear_to_the_end(second))[-1] == goodbye(0)
                guests.leave(second)
                with pytest.raises(LinkClosedError):
                    await talking

    run(scenario())


# Ends that are heard at once


@either_side
def test_closing_wakes_whoever_reads_and_whoever_writes(sides: Sides, impatient: None) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            writing = await _stuck_write(first)
            reading = asyncio.create_task(first.receive())
            await asyncio.sleep(0)
            watch = Stopwatch()
            first.close()
            first.close()  # again is fine
            for task in (reading, writing):
                with pytest.raises(LinkClosedError, match="closed by us"):
                    await task
            assert watch.elapsed_s() < AT_ONCE_S
            for operation in (first.receive(), first.send(number(0))):
                with pytest.raises(LinkClosedError, match="closed by us"):
                    await operation
            guests.leave(first)
            await until(lambda: not _operations())
            guests.leave(second)

    run(scenario())


def _operations() -> list[str]:
    """The reads and writes that are under way."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith(("read from", "write to"))]


def test_an_operation_that_fails_after_the_close_is_nobody_s_unheard_complaint() -> None:
    async def scenario() -> None:
        stream = FailingStream()
        link = GrpcLink(stream, "peer", lambda: None)
        waiting = [asyncio.create_task(link.send(number(0))), asyncio.create_task(link.receive())]
        await asyncio.sleep(0)
        link.close()
        await asyncio.wait(waiting)
        assert {str(task.exception()) for task in waiting} == {"closed by us"}
        stream.fail.set()
        await until(lambda: not _operations())

    run(scenario())  # the fixture that looks for leaks hears what asyncio would complain of


class FailingStream:
    """A call whose operations all fail, when the test says so."""

    def __init__(self) -> None:
        self.fail = asyncio.Event()

    async def read(self) -> bytes:
        await self.fail.wait()
        raise grpc.aio.UsageError("the call is over")

    async def write(self, message: bytes, /) -> None:
        await self.fail.wait()
        raise grpc.aio.UsageError("the call is over")


@either_side
def test_what_is_being_written_when_its_sender_gives_up_comes_before_what_is_sent_next(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            writing = await _stuck_write(first)
            writing.cancel()
            await asyncio.wait((writing,))
            assert writing.cancelled()
            next_one = asyncio.create_task(first.send(goodbye(1)))
            await asyncio.sleep(0)
            listening = asyncio.create_task(hear_to_the_end(second))
            await next_one
            guests.leave(first)
            heard = await listening
            assert heard[-1] == goodbye(1)
            assert heard[-2] == number(0, size=LARGE_BYTES)

    run(scenario())


def test_what_the_caller_began_to_write_before_it_closed_still_arrives_however_early_that_is() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), dialling() as dialer:
            near = await dialer.dial(address_of(server))
            writing = asyncio.create_task(near.send(goodbye(0)))
            await asyncio.sleep(0)
            near.close()
            with pytest.raises(LinkClosedError):
                await writing
            far = await guests.arrival()
            assert await hear_to_the_end(far) == [goodbye(0)]
            guests.leave(far)

    run(scenario())


def test_what_is_being_written_when_the_caller_closes_still_arrives() -> None:
    async def scenario() -> None:
        async with connected() as (near, far, _):
            writing = await _stuck_write(near)
            near.close()
            with pytest.raises(LinkClosedError):
                await writing
            heard = await hear_to_the_end(far)
            assert heard[-1] == number(0, size=LARGE_BYTES)

    run(scenario())


@either_side
def test_the_peer_s_close_wakes_whoever_reads(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            reading = asyncio.create_task(second.receive())
            await asyncio.sleep(0)
            watch = Stopwatch()
            guests.leave(first)
            with pytest.raises(LinkClosedError, match="closed by the peer"):
                await reading
            assert watch.elapsed_s() < AT_ONCE_S

    run(scenario())


@either_side
def test_the_peer_s_close_wakes_whoever_writes(sides: Sides, impatient: None) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            writing = await _stuck_write(second)
            watch = Stopwatch()
            guests.leave(first)
            await asyncio.wait((writing,))
            assert watch.elapsed_s() < AT_ONCE_S
            # A side that dialled reads on for a moment, for nobody: writes may succeed until it has hung up.
            with pytest.raises(LinkClosedError):
                await _write_for_ever(second, size=LARGE_BYTES)
            assert await closing_words(second) != ""

    run(scenario())


def test_a_write_after_the_peer_has_ended_the_call_says_that_it_did() -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            guests.leave(far)
            assert await closing_words(near) == "closed by the peer"
            with pytest.raises(LinkClosedError, match="closed by the peer"):
                await near.send(number(0))

    run(scenario())


LARGE_BYTES = 1_000_000


async def _write_for_ever(link: Link, size: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await link.send(number(0, size=size))


async def _stuck_write(link: Link) -> "asyncio.Task[None]":
    """Writes to a peer that does not read until nothing goes out any more."""
    while True:
        writing = asyncio.create_task(link.send(number(0, size=LARGE_BYTES)))
        done, _ = await asyncio.wait((writing,), timeout=0.1)
        if not done:
            return writing
        writing.result()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers that do not read are waited for at the end; a test need not wait so long."""
    monkeypatch.setattr("quarterdeck.control.dialer._PART_S", 0.1)
    monkeypatch.setattr("quarterdeck.control.server._STOP_S", 0.1)


# What cannot be read


@pytest.mark.parametrize("garbage", [b"\xff", b"\x1a\x00", b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_envelope_is_the_peer_s_fault_and_not_a_broken_connection(garbage: bytes) -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), raw_call(server) as call:
            far = await guests.arrival("raw")
            await call.write(garbage)
            with pytest.raises(ProtocolError):
                await far.receive()
            await call.write(encode(number(1)))
            assert await far.receive() == number(1)
            guests.leave_all()

    run(scenario())


def test_the_side_that_dialled_sees_garbage_for_what_it_is_too() -> None:
    async def scenario() -> None:
        async with connected() as (near, far, _):
            assert isinstance(far, GrpcLink)
            stream = far._stream  # pyright: ignore[reportPrivateUsage]
            assert stream is not None
            await stream.write(b"\xff")
            with pytest.raises(ProtocolError):
                await near.receive()

    run(scenario())


def test_an_empty_message_is_an_envelope_with_nothing_in_it() -> None:
    async def scenario() -> None:
        async with hosting() as (server, guests), raw_call(server) as call:
            far = await guests.arrival("raw")
            await call.write(b"")
            assert await far.receive() == Envelope(None, 0, ())
            guests.leave_all()

    run(scenario())


def test_a_message_that_is_too_large_ends_that_connection_and_no_other() -> None:
    async def scenario() -> None:
        async with listening(echo) as server, dialling() as dialer:
            good = await dialer.dial(address_of(server))
            async with raw_call(server) as call:
                await call.write(bytes(MAX_ENVELOPE_BYTES + 1))
                assert (await call.code()).name == "RESOURCE_EXHAUSTED"
            await good.send(number(1))
            assert await good.receive() == number(1)
            good.close()
            assert await serves_others(server)

    run(scenario())


@either_side
def test_an_envelope_of_ours_that_is_too_large_ends_the_connection_with_a_reason(sides: Sides) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            with pytest.raises(LinkClosedError, match="are allowed"):
                await first.send(number(0, size=MAX_ENVELOPE_BYTES))
            guests.leave(first)
            assert await closing_words(second) != ""

    run(scenario())


# A peer that does not read


def _work(name: int, size_bytes: int) -> AssignWork:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId(str(name)))
    return AssignWork(WorkSpec(key, WorkKind("leaf"), bytes(size_bytes)), 1)


def _conversation(link: Link) -> Conversation:
    talking = Conversation(link)
    talking.session_id = SessionId("s")
    return talking


def _ignore(_: object) -> None:
    """Takes messages."""


@pytest.mark.parametrize(("limit", "limit_bytes"), [(40, 1 << 40), (1 << 40, 4_000_000)], ids=["messages", "bytes"])
@either_side
def test_a_peer_that_never_reads_is_cut_off_and_nothing_grows_beyond_the_limits(
    sides: Sides, limit: int, limit_bytes: int, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "OUTBOX_LIMIT", limit)
    monkeypatch.setattr(conversation, "OUTBOX_LIMIT_BYTES", limit_bytes)

    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, _ = sides(near, far)
            talking = _conversation(first)
            talk = asyncio.create_task(talking.talk(_ignore))
            sent = 0
            while not talk.done():
                talking.send(_work(sent, 100_000))
                sent += 1
                waiting = talking._outbox  # pyright: ignore[reportPrivateUsage]
                assert len(waiting) <= limit
                assert sum(len(message.spec.payload) for message in waiting) <= limit_bytes + 100_000  # pyright: ignore
                await asyncio.sleep(0.001)
                assert sent < 1000, "gRPC takes everything"
            assert await talk == conversation.DOES_NOT_READ
            assert talking.loss is LossReason.NOT_READING
            guests.leave_all()

    run(scenario())


@either_side
def test_a_write_that_waits_too_long_for_its_reader_is_the_end(
    sides: Sides, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "STALL_S", 0.2)

    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, _ = sides(near, far)
            talking = _conversation(first)
            for name in range(100):
                talking.send(_work(name, 500_000))
            watch = Stopwatch()
            assert await talking.talk(_ignore) == conversation.DOES_NOT_READ
            assert talking.loss is LossReason.NOT_READING
            assert 0.2 <= watch.elapsed_s() < PATIENCE_S
            guests.leave_all()

    run(scenario())


@either_side
def test_a_peer_that_reads_again_in_time_loses_nothing(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with connected() as (near, far, guests):
            first, second = sides(near, far)
            talking = _conversation(first)
            talk = asyncio.create_task(talking.talk(_ignore))
            for name in range(30):
                talking.send(_work(name, 500_000))
            await until(lambda: 0 < len(talking._outbox) < 30)  # pyright: ignore[reportPrivateUsage]
            talking.send(CoordinatorBeat(1.0))
            listening = asyncio.create_task(_messages_to_the_end(second))
            await until(lambda: not talking._outbox)  # pyright: ignore[reportPrivateUsage]
            talking.finish()
            assert await talk == "closed by us"
            guests.leave(first)
            heard = await listening
            assert heard == [*(_work(name, 500_000) for name in range(30)), CoordinatorBeat(1.0)]

    run(scenario())


async def _messages_to_the_end(link: Link) -> list[Message]:
    return [message for envelope in await hear_to_the_end(link) for message in envelope.messages]
