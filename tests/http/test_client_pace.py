"""A client and a peer of different speed: silence, slowness, and a change of mind."""

import asyncio
import hashlib
import os
import sys
from typing import Any

import pytest
import trustme

from quarterdeck.http.client import (
    HttpClient,
    Origin,
    SilentError,
)
from tests.http.asked import until
from tests.http.client_scene import (
    KIB,
    ONE_READ,
    Clock,
    chunked,
    idle_in,
    inside,
    listening,
    looped,
    ok,
    rest_of,
    scene,
    trusting,
)

# Silence


@looped
async def test_a_peer_that_says_nothing_is_given_up() -> None:
    async with scene(stall_timeout_s=0.05) as s:
        asking, link = await s.asked()
        with pytest.raises(SilentError, match=r"nothing came for 0\.05 s"):
            await asking
        assert s.client.in_use == 0
        await link.gone.wait()


@looped
@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_peer_is_given_up_when_it_stops_before_the_end_of_the_head(
    data: bytes, clock: Clock, received: list[int]
) -> None:
    async with scene() as s:
        asking, link = await s.asked()
        await clock.advance(19)
        link.say(data)
        await until(lambda: bool(received))
        await clock.advance(19)
        assert clock.waited_for
        await clock.advance(1)
        with pytest.raises(SilentError, match="nothing came for 20 s"):
            await asking
        assert s.client.in_use == 0
        await link.gone.wait()


@looped
@pytest.mark.parametrize("data", [ok(b"abcd")[:-1], chunked(b"abc")[:-5], b"HTTP/1.1 200 OK\r\n\r\nabc"])
async def test_a_peer_is_given_up_when_it_stops_in_the_body(data: bytes, clock: Clock) -> None:
    async with scene() as s:
        answer, link = await s.answered(data)
        assert await answer.read() == b"abc"
        reading = asyncio.create_task(answer.read())
        await clock.advance(19.9)
        assert clock.waited_for
        await clock.advance(0.1)
        with pytest.raises(SilentError):
            await reading
        with pytest.raises(SilentError):
            await answer.read()
        answer.close()
        await link.gone.wait()


@looped
async def test_a_peer_that_is_slow_but_steady_is_not_given_up(clock: Clock) -> None:
    async with scene() as s:
        asking, link = await s.asked()
        await clock.advance(19)
        link.say(ok(b"abcdef")[:-6])
        answer = await asking
        for byte in (b"a", b"b", b"c", b"d", b"e", b"f"):
            reading = asyncio.create_task(answer.read())
            await clock.advance(19)
            link.say(byte)
            assert await reading == byte
        assert await rest_of(answer) == b""


@looped
async def test_a_slow_reader_is_not_taken_for_a_silent_peer(clock: Clock) -> None:
    async with scene() as s:
        answer, link = await s.answered(ok(b"abcd")[:-4])
        clock.pass_by(1000)
        link.say(b"abc")
        assert await answer.read() == b"abc"
        clock.pass_by(1000)
        reading = asyncio.create_task(answer.read())
        await clock.advance(19)
        assert clock.waited_for
        await clock.advance(1)
        with pytest.raises(SilentError):
            await reading
        answer.close()


@looped
async def test_what_came_in_the_last_moment_counts(clock: Clock) -> None:
    async with scene() as s:
        answer, link = await s.answered(ok(b"abcdef")[:-6])
        reading = asyncio.create_task(answer.read())
        await until(lambda: clock.waited_for)
        inside(answer).data_received(b"abc")
        clock.pass_by(20)
        assert await reading == b"abc"
        link.say(b"def")
        assert await rest_of(answer) == b"def"
        assert idle_in(s.client) == 1


# A reader that does not read


@looped
async def test_a_reader_that_does_not_read_holds_the_peer_back(received: list[int]) -> None:
    block, count = os.urandom(1_000_003), 50
    async with scene() as s:
        answer, link = await s.answered(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(block) * count))
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(count):
                link.say(block)
                await link.writer.drain()
                sent += 1

        sending = asyncio.create_task(send())
        connection = inside(answer)
        await until(lambda: connection._paused)
        reads = len(received)
        await asyncio.sleep(0.02)  # what does not happen cannot be waited for
        assert len(received) == reads
        assert sent < count
        largest, digest = 0, hashlib.sha1()
        while piece := await answer.read():
            largest = max(largest, len(piece))
            digest.update(piece)
        answer.close()
        await sending
        assert 512 * KIB < largest <= 512 * KIB + ONE_READ
        assert digest.digest() == hashlib.sha1(block * count).digest()
        assert idle_in(s.client) == 1


@looped
async def test_many_small_chunks_hold_the_peer_back_earlier() -> None:
    async with scene() as s:
        data = chunked(*[b"ab"] * 300_000)
        answer, link = await s.answered(data[: -len(b"0\r\n\r\n")])
        connection = inside(answer)
        await until(lambda: connection._paused)
        pieces: list[bytes] = connection._pieces
        assert sum(map(sys.getsizeof, pieces)) < 5 * 1024 * KIB
        link.say(b"0\r\n\r\n")
        assert await rest_of(answer) == b"ab" * 300_000


# Cancellation


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@looped
async def test_a_request_that_is_canceled_while_it_connects_leaves_nothing(authority: trustme.CA) -> None:
    async with listening() as peer:
        client = HttpClient(headers={}, stall_timeout_s=20, ssl=trusting(authority))
        asking = asyncio.create_task(client.get(Origin("https", "127.0.0.1", peer.port), "/"))
        await until(lambda: bool(peer.links))
        assert client.in_use == 1
        await cancel(asking)
        assert client.in_use == 0
        await peer.links[0].gone.wait()
        await client.close()


@looped
async def test_a_request_that_is_canceled_at_any_turn_of_the_loop_leaves_nothing() -> None:
    async with scene() as s:
        done = False
        for turns in range(100):
            asking = s.ask()
            for _ in range(turns):
                await asyncio.sleep(0)
            if done := not s.peer.requests.empty():
                await cancel(asking)
                break
            await cancel(asking)
            assert (s.client.in_use, idle_in(s.client)) == (0, 0)
        assert done


@looped
@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n"])
async def test_a_request_that_is_canceled_while_it_waits_for_the_head_leaves_nothing(data: bytes) -> None:
    async with scene() as s:
        asking, link = await s.asked()
        link.say(data)
        await asyncio.sleep(0)
        await cancel(asking)
        assert (s.client.in_use, idle_in(s.client)) == (0, 0)
        await link.gone.wait()


@looped
async def test_a_request_that_is_canceled_when_its_answer_has_come_leaves_nothing(received: list[int]) -> None:
    async with scene() as s:
        asking, link = await s.asked()
        link.say(ok(b"abc"))
        await until(lambda: bool(received))
        if not asking.done():
            await cancel(asking)
        else:
            (await asking).close()
        assert s.client.in_use == 0


@looped
async def test_a_read_that_is_canceled_leaves_nothing_once_the_answer_is_closed(clock: Clock) -> None:
    async with scene() as s:
        answer, link = await s.answered(ok(b"abc")[:-1])
        assert await answer.read() == b"ab"
        reading = asyncio.create_task(rest_of(answer))
        await until(lambda: clock.waited_for)
        await cancel(reading)
        assert (s.client.in_use, idle_in(s.client)) == (0, 0)
        await link.gone.wait()


@looped
async def test_an_answer_can_be_read_on_after_a_read_that_was_canceled(clock: Clock) -> None:
    async with scene() as s:
        answer, link = await s.answered(ok(b"abc")[:-3])
        reading = asyncio.create_task(answer.read())
        await until(lambda: clock.waited_for)
        await cancel(reading)
        link.say(b"abc")
        assert await rest_of(answer) == b"abc"
