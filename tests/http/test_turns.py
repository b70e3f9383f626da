"""Many requests at once: begun in turns, so that everything else gets its own."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from quarterdeck.http.turns import MOST, Turns
from tests.http.asked import Run, connected, connections_of, respond, served, until


class Loop:
    """A loop's turns, by hand, with a clock of its own."""

    def __init__(self, turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = turns
        self.now_s = 0.0
        self.calls: list[Callable[[Any], None]] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[Any], None], *_: object) -> None:
        self.calls.append(call)

    def turn(self, took_s: float) -> None:
        self.now_s += took_s
        calls, self.calls = self.calls, []
        for call in calls:
            call(self)


def test_a_few_are_begun_at_once_and_then_nothing_is_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, begun = Turns(), list[int]()
    loop = Loop(turns, monkeypatch)
    for number in range(3):
        turns.begin(lambda number=number: begun.append(number))
    assert begun == [0, 1, 2]
    for _ in range(3):
        loop.turn(0.001)
    assert loop.calls == []


def test_many_wait_for_the_next_turns_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, begun = Turns(), list[int]()
    loop = Loop(turns, monkeypatch)
    for number in range(3 * MOST):
        turns.begin(lambda number=number: begun.append(number))
    assert (len(begun), len(turns)) == (MOST, 2 * MOST)
    loop.turn(0.001)
    assert len(begun) == 2 * MOST
    turns.begin(lambda: begun.append(3 * MOST))
    assert len(begun) == 2 * MOST, "nobody is begun before those who came earlier"
    for _ in range(4):
        loop.turn(0.001)
    assert begun == list(range(3 * MOST + 1))
    assert loop.calls == []


def test_turns_that_take_long_get_fewer_and_short_ones_more(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, begun = Turns(), list[int]()
    loop = Loop(turns, monkeypatch)
    for number in range(1000):
        turns.begin(lambda number=number: begun.append(number))
    for _ in range(10):
        loop.turn(1.0)
    assert turns.most == 1
    before = len(begun)
    loop.turn(1.0)
    assert len(begun) == before + 1
    for _ in range(10):
        loop.turn(0.001)
    assert turns.most == MOST


def test_what_else_the_loop_has_to_do_gets_its_turn_among_many_requests(run: Run) -> None:
    """A request takes 2 ms of the loop, and 300 come at once: in one turn that would be 600 ms."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        until_s = time.thread_time() + 0.002
        while time.thread_time() < until_s:
            pass
        await respond(send, b"aye")

    async def test() -> None:
        async with served(app) as server:
            clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(300)]
            await until(lambda: len(connections_of(server)) == 300)
            for _, writer in clients:
                writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            longest_s = 0.0
            answers = asyncio.gather(*(reader.readuntil(b"aye") for reader, _ in clients))
            while not answers.done():
                before_s = time.thread_time()
                await asyncio.sleep(0)
                longest_s = max(longest_s, time.thread_time() - before_s)
            await answers
            for _, writer in clients:
                writer.close()
            assert longest_s < 0.2, "in processor time, so that a busy machine does not count"

    run(test())


def test_a_client_that_goes_before_its_turn_is_not_answered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        asked: list[str] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            asked.append(scope["path"])
            await respond(send, b"aye")

        async with served(app) as server:
            held: list[Callable[[], None]] = []
            monkeypatch.setattr(server.room.turns, "begin", held.append)
            async with connected(server) as client:
                client.get("/gone")
                await until(lambda: bool(held))
            await until(lambda: not connections_of(server))
            for request in held:
                request()
            await asyncio.sleep(0)
            assert asked == []

    run(test())
