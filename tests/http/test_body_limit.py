"""Bodies that are too large are refused before they are gathered."""

import asyncio
import copy

import pytest
from fastapi import FastAPI

from quarterdeck.http.body_limit import BodyLimit, BodyOfTooManyPartsError, BodyTooLargeError
from quarterdeck.http.errors import add_error_handlers
from tests.http.asked import Answer, connected, served


def application() -> BodyLimit:
    app = FastAPI()
    add_error_handlers(app)

    async def take(body: dict[str, str]) -> int:
        return len(body["text"])

    app.add_api_route("/take", take, methods=["POST"])
    return BodyLimit(app, limit_bytes=1000, limit_parts=100)


def request(body: bytes, *, chunked: bool) -> bytes:
    head = b"POST /take HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    if chunked:
        return head + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def status_of(raw: bytes) -> int:
    return answer_of(raw).status


def answer_of(raw: bytes) -> Answer:
    async def test() -> Answer:
        async with served(application()) as server, connected(server) as client:
            client.send(raw)
            return await client.answer()

    return asyncio.run(test())


def test_a_body_within_the_limit_is_taken() -> None:
    assert status_of(request(b'{"text": "abc"}', chunked=False)) == 200
    assert status_of(request(b'{"text": "abc"}', chunked=True)) == 200


def test_a_body_that_says_it_is_too_large_is_refused_at_once() -> None:
    assert status_of(request(b'{"text": "' + b"a" * 1000 + b'"}', chunked=False)) == 413


def test_a_body_that_turns_out_too_large_is_refused_when_it_does() -> None:
    assert status_of(request(b'{"text": "' + b"a" * 1000 + b'"}', chunked=True)) == 400


@pytest.mark.parametrize("mark", [b",", b"[", b"{", b"&"])
def test_a_body_of_too_many_parts_is_refused_before_it_is_taken_apart(mark: bytes) -> None:
    answer = answer_of(request(mark * 101, chunked=False))
    assert (answer.status, answer.json["error"]["why"]) == (
        400,
        "its body has more than 100 items, fields and brackets",
    )


def test_marks_in_a_text_are_parts_too_and_some_are_fine() -> None:
    assert status_of(request(b'{"text": "' + b"," * 99 + b'"}', chunked=False)) == 200


def test_the_errors_can_be_copied() -> None:
    for error in (BodyTooLargeError(7), BodyOfTooManyPartsError(7)):
        assert str(copy.copy(error)) == str(error)
