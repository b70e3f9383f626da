"""Bodies that are too large are refused before they are gathered."""

import asyncio
import copy

from fastapi import FastAPI

from quarterdeck.http.body_limit import BodyLimit, BodyTooLargeError
from quarterdeck.http.errors import add_error_handlers
from tests.http.asked import connected, served


def application() -> BodyLimit:
    app = FastAPI()
    add_error_handlers(app)

    async def take(body: dict[str, str]) -> int:
        return len(body["text"])

    app.add_api_route("/take", take, methods=["POST"])
    return BodyLimit(app, limit_bytes=1000)


def request(body: bytes, *, chunked: bool) -> bytes:
    head = b"POST /take HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    if chunked:
        return head + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def status_of(raw: bytes) -> int:
    async def test() -> int:
        async with served(application()) as server, connected(server) as client:
            client.send(raw)
            return (await client.answer()).status

    return asyncio.run(test())


def test_a_body_within_the_limit_is_taken() -> None:
    assert status_of(request(b'{"text": "abc"}', chunked=False)) == 200
    assert status_of(request(b'{"text": "abc"}', chunked=True)) == 200


def test_a_body_that_says_it_is_too_large_is_refused_at_once() -> None:
    assert status_of(request(b'{"text": "' + b"a" * 1000 + b'"}', chunked=False)) == 413


def test_a_body_that_turns_out_too_large_is_refused_when_it_does() -> None:
    assert status_of(request(b'{"text": "' + b"a" * 1000 + b'"}', chunked=True)) == 400


def test_the_error_can_be_copied() -> None:
    assert str(copy.copy(BodyTooLargeError(7))) == str(BodyTooLargeError(7))
