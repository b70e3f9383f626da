"""Who is let in: with the token everywhere, without it where nothing is told."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message

from quarterdeck.http.authentication import Authentication
from tests.http.asked import Answer, ask, ask_raw, text_app

GOOD = "Bearer the-right-one"


class Door:
    """The middleware before an application, with what it was asked and how often it refused."""

    def __init__(self, matches: Callable[[str | None], bool] = lambda header: header == GOOD) -> None:
        self.refused = 0
        self.app = Authentication(text_app("aye"), matches, self.refuse)

    def refuse(self) -> None:
        self.refused += 1

    def ask(self, path: str, **headers: str) -> Answer:
        return asyncio.run(ask(self.app, path, **headers))


def test_who_has_the_token_is_let_in() -> None:
    door = Door()
    assert door.ask("/works", authorization=GOOD).body == b"aye"
    assert door.refused == 0


@pytest.mark.parametrize("path", ["/health", "/ready", "/-/healthy", "/-/ready"])
def test_probes_need_none(path: str) -> None:
    door = Door()
    assert door.ask(path).body == b"aye"
    assert door.ask(path, authorization="Bearer wrong").body == b"aye"
    assert door.refused == 0


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/monitor/scaling", "/artifacts/x", "/health/", "/healthy", "//health", "/Ready"],
)
def test_everything_else_needs_it(path: str) -> None:
    door = Door()
    answer = door.ask(path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="quarterdeck"'
    assert answer.json["error"]["why"] == "it has no token, or more than one"
    assert b"aye" not in answer.body
    assert door.refused == 1


def test_a_wrong_token_is_told_from_none() -> None:
    answer = Door().ask("/", authorization="Bearer wrong")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="quarterdeck", error="invalid_token"'
    assert answer.json["error"]["why"] == "its token is not the one of this crew"
    assert b"wrong" not in answer.body


def test_two_tokens_are_none() -> None:
    door = Door()
    twice = [(b"authorization", GOOD.encode()), (b"authorization", GOOD.encode())]
    assert asyncio.run(ask_raw(door.app, "/", "GET", twice)).status == 401
    assert door.refused == 1


def test_bytes_that_are_no_text_reach_the_comparison() -> None:
    seen: list[str | None] = []

    def matches(header: str | None) -> bool:
        seen.append(header)
        return False

    door = Door(matches)
    assert asyncio.run(ask_raw(door.app, "/", "GET", [(b"authorization", b"Bearer \xff")])).status == 401
    assert seen == ["Bearer \xff"]


def test_a_socket_without_the_token_is_closed() -> None:
    async def test() -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            raise AssertionError("nobody asks")

        async def send(message: Message) -> None:
            sent.append(message)

        door = Door()
        await door.app({"type": "websocket", "path": "/", "headers": []}, receive, send)
        assert door.refused == 1
        return sent

    assert asyncio.run(test()) == [{"type": "websocket.close", "code": 1008, "reason": "no valid token"}]


def test_the_start_of_an_application_is_no_request() -> None:
    passed: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    door = Authentication(app, lambda header: False, lambda: None)

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nobody asks")

    asyncio.run(door({"type": "lifespan"}, nothing, nothing))
    assert passed == ["lifespan"]
