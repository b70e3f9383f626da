"""Requests with a body, and answers that are known to take their time."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from quarterdeck.http.client import Answer, BrokenConnectionError, HttpClient, Origin, SilentError
from tests.http.asked import respond, served, until
from tests.http.client_scene import KIB, Clock, Link, Scene, idle_in, looped, ok, rest_of, scene


async def posted(s: Scene, stall_timeout_s: float | None = None) -> tuple[asyncio.Task[Answer], Link]:
    """A request that has reached the peer, and waits for its answer."""
    asking = asyncio.create_task(s.client.post(s.origin, "/x", b"", None, stall_timeout_s))
    return asking, await s.peer.asked()


@looped
async def test_a_post_is_its_head_with_the_length_of_the_body_and_the_body() -> None:
    async with scene() as s:
        headers = {"Content-Type": "text/plain"}
        asking = asyncio.create_task(s.client.post(s.origin, "/a?b=c", b"x\r\n\r\n", headers))
        link, head = await s.peer.requests.get()
        assert head.split("\r\n") == [
            "POST /a?b=c HTTP/1.1",
            f"Host: 127.0.0.1:{s.peer.port}",
            "Content-Length: 5",
            "X-Ours: 1",
            "Content-Type: text/plain",
            "",
            "",
        ]
        assert (await s.peer.requests.get())[1] == "x\r\n\r\n"
        link.say(ok(b"abc"))
        assert await rest_of(await asking) == b"abc"
        assert idle_in(s.client) == 1


@looped
async def test_a_large_body_arrives_whole_and_the_connection_is_used_again() -> None:
    body = bytes(range(256)) * 12 * KIB  # 3 MiB

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        received, more = b"", True
        while more:
            message = await receive()
            received += bytes(message["body"])
            more = bool(message["more_body"])
        await respond(send, b"%d %d" % (len(received), received == body))

    async with served(count) as server:
        client = HttpClient(headers={}, stall_timeout_s=20)
        origin = Origin("http", "127.0.0.1", server.port)
        for _ in range(2):
            assert await rest_of(await client.post(origin, "/", body)) == b"%d 1" % len(body)
        assert idle_in(client) == 1
        assert await rest_of(await client.get(origin, "/")) == b"0 0"
        assert idle_in(client) == 1
        await client.close()


@looped
async def test_an_answer_that_takes_its_time_may_have_it(clock: Clock) -> None:
    async with scene(stall_timeout_s=20) as s:
        asking, link = await posted(s, stall_timeout_s=300)
        await clock.advance(299)
        link.say(ok(b"abc"))
        assert await rest_of(await asking) == b"abc"


@looped
async def test_an_answer_that_takes_more_than_its_time_is_given_up(clock: Clock) -> None:
    async with scene(stall_timeout_s=20) as s:
        asking, link = await posted(s, stall_timeout_s=300)
        await clock.advance(299)
        assert clock.waited_for
        await clock.advance(1)
        with pytest.raises(SilentError, match="nothing came for 300 s"):
            await asking
        await link.gone.wait()


@looped
@pytest.mark.parametrize("first_s, second_s", [(300, 20), (20, 300)])
async def test_the_next_request_on_a_connection_has_its_own_time(first_s: float, second_s: float, clock: Clock) -> None:
    async with scene(stall_timeout_s=20) as s:
        asking, link = await posted(s, stall_timeout_s=first_s)
        await until(lambda: clock.waited_for)
        link.say(ok(b""))
        await rest_of(await asking)
        if second_s == 20:
            asking, again = await s.asked()
        else:
            asking, again = await posted(s, stall_timeout_s=second_s)
        assert again is link
        await clock.advance(second_s - 1)
        assert clock.waited_for
        await clock.advance(1)
        with pytest.raises(SilentError, match=f"nothing came for {second_s} s"):
            await asking


@looped
async def test_a_post_is_not_sent_again_when_its_connection_breaks() -> None:
    async with scene() as s:
        asking, link = await posted(s)
        link.hang_up()
        with pytest.raises(BrokenConnectionError):
            await asking
        assert s.client.in_use == 0
        assert s.peer.requests.empty()


@looped
async def test_a_post_that_is_canceled_hangs_up() -> None:
    async with scene() as s:
        asking, link = await posted(s)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await link.gone.wait()
