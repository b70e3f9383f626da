"""Answers that are made while their client is there: begun with their first bytes, counted, canceled with it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from quarterdeck.http.streamed_body import StreamedBody
from quarterdeck.http.watched import OpenAnswers, WatchedResponse

SCOPE: Scope = {"type": "http", "headers": []}


class Client:
    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def kinds(self) -> list[str]:
        return [message["type"].removeprefix("http.response.") for message in self.sent]


class Answered(WatchedResponse):
    def __init__(self, answers: OpenAnswers, work: Callable[[StreamedBody], Coroutine[Any, Any, None]]) -> None:
        super().__init__(answers)
        self._work = work

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._work(StreamedBody(send, [(b"a", b"1")]))


def play(scene: Callable[[Client, OpenAnswers], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(scene(Client(), OpenAnswers()), 60)

    asyncio.run(run())


def test_an_answer_begins_with_its_first_bytes_and_is_counted_until_its_last() -> None:
    async def scene(client: Client, answers: OpenAnswers) -> None:
        async def work(body: StreamedBody) -> None:
            assert answers.count == 1
            assert (body.has_begun, client.sent) == (False, [])
            body.headers.append((b"b", b"2"))
            await body.send(b"x")
            await body.send(b"y")
            await body.end(b"z")

        await Answered(answers, work)(SCOPE, client.receive, client.send)
        assert answers.count == 0
        assert client.kinds == ["start", "body", "body", "body"]
        assert client.sent[0]["headers"] == [(b"a", b"1"), (b"b", b"2")]
        assert [(part["body"], part["more_body"]) for part in client.sent[1:]] == [
            (b"x", True),
            (b"y", True),
            (b"z", False),
        ]

    play(scene)


def test_an_answer_without_bytes_begins_and_ends() -> None:
    async def scene(client: Client, answers: OpenAnswers) -> None:
        await Answered(answers, StreamedBody.end)(SCOPE, client.receive, client.send)
        assert client.kinds == ["start", "body"]

    play(scene)


def test_disconnecting_cancels_the_answer_and_is_no_error() -> None:
    async def scene(client: Client, answers: OpenAnswers) -> None:
        ended: list[int] = []

        async def work(body: StreamedBody) -> None:
            await body.send(b"x")
            client.gone.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(answers.count)

        await Answered(answers, work)(SCOPE, client.receive, client.send)
        assert ended == [1]
        assert answers.count == 0
        assert client.kinds == ["start", "body"]

    play(scene)


def test_what_goes_wrong_is_raised_and_the_body_stays_open() -> None:
    async def scene(client: Client, answers: OpenAnswers) -> None:
        async def work(body: StreamedBody) -> None:
            await body.send(b"x")
            raise KeyError("broken")

        with pytest.raises(KeyError):
            await Answered(answers, work)(SCOPE, client.receive, client.send)
        assert answers.count == 0
        assert client.sent[-1]["more_body"] is True

    play(scene)
