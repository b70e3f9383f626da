"""HEAD is GET without the body."""

import asyncio

from fastapi import FastAPI

from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.head import HeadAsGet
from tests.http.asked import ask, connected, served

APP = FastAPI()
add_error_handlers(APP)


@APP.get("/thing")
async def thing() -> dict[str, str]:
    return {"a": "thing"}


@APP.post("/other")
async def other() -> None:
    pass


def test_what_can_be_got_has_a_head() -> None:
    async def play() -> None:
        got, head = [await ask(HeadAsGet(APP), "/thing", method) for method in ("GET", "HEAD")]
        assert got.json == {"a": "thing"}
        assert (head.status, head.headers, head.body) == (200, got.headers, b"")

    asyncio.run(play())


def test_what_cannot_be_got_has_none() -> None:
    async def play() -> None:
        assert (await ask(HeadAsGet(APP), "/other", "HEAD")).status == 405
        assert (await ask(HeadAsGet(APP), "/nothing", "HEAD")).status == 404

    asyncio.run(play())


def test_over_a_connection_the_next_answer_follows_the_head_at_once() -> None:
    async def play() -> None:
        async with served(HeadAsGet(APP)) as server, connected(server) as client:
            client.send(b"HEAD /thing HTTP/1.1\r\nHost: here\r\n\r\n")
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert b"content-length: 13\r\n" in head
            client.get("/thing")
            assert (await client.answer()).json == {"a": "thing"}

    asyncio.run(play())
