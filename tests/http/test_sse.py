"""Server-sent events: frames as they come, signs of life in between, and an end that is only there when all is well."""

import asyncio
from dataclasses import dataclass, field

import pytest
from starlette.types import Message

from quarterdeck.http.sse import event_stream
from tests.crew.played import now_s, played

BEAT = b"beat"
EVERY_S = 15.0


@dataclass
class Client:
    """What it got, and when; it may take its time to read."""

    reads_s: float = 0.0
    sent: list[tuple[float, Message]] = field(default_factory=list[tuple[float, Message]])

    async def send(self, message: Message) -> None:
        await asyncio.sleep(self.reads_s)
        self.sent.append((round(now_s()), message))

    @property
    def bodies(self) -> list[tuple[float, bytes]]:
        return [(at_s, message["body"]) for at_s, message in self.sent if message.get("body")]


@played
async def test_a_client_hears_something_whenever_nothing_else_was_sent_for_a_while() -> None:
    client, began_s = Client(), now_s()
    async with event_stream(client.send, BEAT, EVERY_S) as stream:
        await asyncio.sleep(20)
        await stream.send(b"a")
        await asyncio.sleep(14)
        await stream.send(b"b")
        await asyncio.sleep(31)
    times = [(at_s - round(began_s), body) for at_s, body in client.bodies]
    assert times == [(15, BEAT), (20, b"a"), (34, b"b"), (49, BEAT), (64, BEAT)]


@played
async def test_the_response_begins_at_once_and_is_for_no_cache_and_no_buffer() -> None:
    client = Client()
    async with event_stream(client.send, BEAT, EVERY_S):
        ((_, start),) = client.sent
    assert start["status"] == 200
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-store",
        b"x-accel-buffering": b"no",
    }
    assert client.sent[-1][1] == {"type": "http.response.body", "body": b"", "more_body": False}


@played
async def test_frames_on_their_way_to_a_slow_client_are_not_mixed_with_signs_of_life() -> None:
    client = Client()
    async with event_stream(client.send, BEAT, EVERY_S) as stream:
        client.reads_s = 40.0
        await stream.send(b"a")
        await stream.send(b"b")
    assert [body for _, body in client.bodies] == [b"a", b"b"]


@played
async def test_a_stream_that_breaks_has_no_end_and_no_further_signs_of_life() -> None:
    client = Client()
    with pytest.raises(ZeroDivisionError):
        async with event_stream(client.send, BEAT, EVERY_S):
            raise ZeroDivisionError
    await asyncio.sleep(100)
    assert len(client.sent) == 1


@played
async def test_a_sign_of_life_that_cannot_be_sent_is_no_secret() -> None:
    async def send(message: Message) -> None:
        if message.get("body") == BEAT:
            raise ConnectionError("the pipe is broken")

    with pytest.raises(ConnectionError):
        async with event_stream(send, BEAT, EVERY_S):
            await asyncio.sleep(20)


@played
async def test_a_response_that_is_not_begun_begins_with_the_first_sign_of_life() -> None:
    client, began_s = Client(), now_s()
    async with event_stream(client.send, BEAT, EVERY_S, begin=False) as stream:
        await asyncio.sleep(14)
        assert not stream.has_begun
        await asyncio.sleep(2)
        assert stream.has_begun
    (started_s, start), (beat_s, beat), (_, end) = client.sent
    assert (start["type"], beat["body"], end["more_body"]) == ("http.response.start", BEAT, False)
    assert started_s - round(began_s) == beat_s - round(began_s) == 15


@played
async def test_what_breaks_before_the_response_begins_leaves_it_to_whoever_answers_instead() -> None:
    client = Client()
    with pytest.raises(ZeroDivisionError):
        async with event_stream(client.send, BEAT, EVERY_S, begin=False):
            raise ZeroDivisionError
    await asyncio.sleep(100)
    assert client.sent == []
