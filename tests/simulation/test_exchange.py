"""Requests on the simulated network: answered, refused, streamed, given up, and what faults make of them."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from quarterdeck.http.client import BrokenConnectionError, Origin, SilentError, UnreachableError
from quarterdeck.simulation.exchange import Data, ExchangeNetwork, Message, SimulatedHttpClient
from quarterdeck.simulation.failures import UnhandledInSimulation
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.process import Process

ROUND_TRIP_S = 0.02
"""A request and its answer take no longer when nothing slows them."""


@dataclass
class Place:
    """A server `b`, and what it was asked; clients are in processes of their own."""

    network: ExchangeNetwork
    loop: SimulatedLoop
    server: Process = field(default_factory=lambda: Process("b.1"))
    done: list[str] = field(default_factory=list[str])
    gone: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    free: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.network.serve("b", self.server, self.app)
        self.client = SimulatedHttpClient(self.network, "a", stall_timeout_s=5.0)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        request = await receive()
        gone = asyncio.create_task(self.wait_gone(path, receive))
        try:
            await self.answer(path, request["body"], dict(scope["headers"]), send)
        finally:
            gone.cancel()
        self.done.append(path)

    async def answer(self, path: str, body: bytes, headers: dict[bytes, bytes], send: Send) -> None:
        match path:
            case "/echo":
                await say(send, body + headers.get(b"x-more", b""))
            case "/refuse":
                await say(send, b"not today", 409)
            case "/break":
                raise ZeroDivisionError
            case "/parts":
                await send({"type": "http.response.start", "status": 200})
                for number in range(20):
                    await send({"type": "http.response.body", "body": b"%d " % number, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            case "/half":
                await send({"type": "http.response.start", "status": 200})
                await send({"type": "http.response.body", "body": b"some", "more_body": True})
            case _:
                await self.free.wait()
                await say(send, b"freed")

    async def wait_gone(self, path: str, receive: Receive) -> None:
        assert (await receive())["type"] == "http.disconnect"
        self.gone.append((path, now_s()))

    async def ask(self, path: str, body: bytes = b"", *, patience_s: float | None = None, pace_s: float = 0.0) -> bytes:
        """All of an answer that is no error, read at some pace."""
        answer = await self.client.post(Origin("http", "b", 80), path, body, {"X-More": "!"}, patience_s)
        try:
            if answer.status != 200:
                raise AssertionError(f"{answer.status}: {await answer.read()!r}")
            whole = b""
            while data := await answer.read():
                whole += data
                await asyncio.sleep(pace_s)
            return whole
        finally:
            answer.close()


async def say(send: Send, body: bytes, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status})
    await send({"type": "http.response.body", "body": body})


Play = Callable[[Place], Coroutine[Any, Any, None]]


def in_place(play: Play) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a place: it runs on the simulated loop, once for each seed."""

    async def run(loop: SimulatedLoop, seed: int) -> None:
        await play(Place(ExchangeNetwork(loop, random.Random(seed)), loop))

    def test() -> None:
        for seed in range(8):
            loop = SimulatedLoop(random.Random(seed), time_limit_s=1000.0)
            try:
                loop.run_until_complete(run(loop, seed))
            finally:
                loop.close()

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def now_s() -> float:
    return asyncio.get_running_loop().time()


def is_data(message: Message) -> bool:
    return isinstance(message, Data)


@in_place
async def test_a_request_is_answered(place: Place) -> None:
    assert await place.ask("/echo", b"hello") == b"hello!"
    assert now_s() < ROUND_TRIP_S
    await asyncio.sleep(0.1)
    assert not place.network.connections
    assert place.network.serving["b.1"] == 0


@in_place
async def test_the_status_is_told(place: Place) -> None:
    with pytest.raises(AssertionError, match="409: b'not today'"):
        await place.ask("/refuse")


@in_place
async def test_an_answer_comes_in_order_and_a_client_that_is_slow_makes_the_server_wait(place: Place) -> None:
    asking = asyncio.create_task(place.ask("/parts", pace_s=1.0))
    await asyncio.sleep(10.0)
    assert place.done == []
    assert place.network.serving["b.1"] == 1
    assert await asking == b" ".join(b"%d" % number for number in range(20)) + b" "
    assert place.done == ["/parts"]


@in_place
async def test_an_answer_that_is_not_finished_is_a_broken_connection(place: Place) -> None:
    with pytest.raises(BrokenConnectionError, match="closed by the peer"):
        await place.ask("/half")


@in_place
async def test_a_host_that_does_not_serve_is_not_reached(place: Place) -> None:
    with pytest.raises(UnreachableError, match="refused the connection"):
        await place.client.post(Origin("http", "c", 80), "/echo", b"")
    place.network.block("a", "b")
    with pytest.raises(UnreachableError, match="did not answer"):
        await place.ask("/echo")


@in_place
async def test_a_client_that_gives_up_is_noticed(place: Place) -> None:
    asking = asyncio.create_task(place.ask("/wait", patience_s=60.0))
    await asyncio.sleep(1.0)
    asking.cancel()
    await asyncio.wait((asking,))
    await asyncio.sleep(0.1)
    ((path, at_s),) = place.gone
    assert path == "/wait"
    assert 1.0 < at_s < 1.0 + ROUND_TRIP_S


@in_place
async def test_what_is_answered_to_a_client_that_has_gone_is_dropped(place: Place) -> None:
    asking = asyncio.create_task(place.ask("/wait", patience_s=60.0))
    await asyncio.sleep(1.0)
    asking.cancel()
    await asyncio.sleep(1.0)
    place.free.set()
    await asyncio.sleep(1.0)
    assert place.done == ["/wait"]
    assert not place.network.connections


@in_place
async def test_a_client_that_is_killed_is_noticed(place: Place) -> None:
    client = Process("a.1")
    place.loop.spawn(client, place.ask("/wait", patience_s=60.0))
    await asyncio.sleep(1.0)
    place.network.host_died("a")
    place.loop.kill(client)
    await asyncio.sleep(0.1)
    assert [path for path, _ in place.gone] == ["/wait"]


@in_place
async def test_a_client_that_is_cut_off_is_not_noticed_until_it_can_be_heard(place: Place) -> None:
    asking = asyncio.create_task(place.ask("/wait", patience_s=600.0))
    await asyncio.sleep(1.0)
    place.network.block("a", "b")
    asking.cancel()
    await asyncio.sleep(50.0)
    assert place.gone == []
    place.network.unblock("a", "b")
    await asyncio.sleep(0.1)
    assert len(place.gone) == 1


@in_place
async def test_a_server_that_dies_is_an_error_for_its_client(place: Place) -> None:
    asking = asyncio.create_task(place.ask("/wait"))
    await asyncio.sleep(1.0)
    place.network.host_died("b")
    place.loop.kill(place.server)
    with pytest.raises(BrokenConnectionError, match="the peer died"):
        await asking
    assert now_s() < 1.0 + ROUND_TRIP_S


@in_place
async def test_what_a_server_has_said_before_it_ended_by_itself_arrives(place: Place) -> None:
    first, second = asyncio.create_task(place.ask("/wait")), asyncio.create_task(place.ask("/other"))
    await asyncio.sleep(1.0)
    place.free.set()
    while not place.done:  # noqa: ASYNC110 - simulated
        await asyncio.sleep(0.0)
    place.loop.kill(place.server)
    place.network.stop_listening("b")
    place.network.host_exited("b")
    ends = await asyncio.gather(first, second, return_exceptions=True)
    assert b"freed" in ends
    assert all(end == b"freed" or isinstance(end, BrokenConnectionError) for end in ends)
    with pytest.raises(UnreachableError):
        await place.ask("/echo")
    await asyncio.sleep(0.1)
    assert not place.network.connections


@in_place
async def test_a_paused_server_lets_its_client_wait(place: Place) -> None:
    place.loop.pause(place.server)
    asking = asyncio.create_task(place.ask("/echo", patience_s=60.0))
    await asyncio.sleep(50.0)
    assert not asking.done()
    place.loop.resume(place.server)
    assert await asking == b"!"


@in_place
async def test_a_silent_server_is_given_up_after_the_silence_allowed(place: Place) -> None:
    with pytest.raises(SilentError):
        await place.ask("/wait", patience_s=7.0)
    assert 7.0 <= now_s() < 7.1
    await asyncio.sleep(0.1)
    assert len(place.gone) == 1


@in_place
async def test_an_answer_is_lost_after_its_effect_and_only_its_own_connection_breaks(place: Place) -> None:
    other = asyncio.create_task(place.ask("/wait"))
    await asyncio.sleep(1.0)
    place.network.lose_next("b", is_data)
    with pytest.raises(BrokenConnectionError, match="broke"):
        await place.ask("/echo")
    assert place.done == ["/echo"]
    assert place.network.lost_replies == 1
    place.free.set()
    assert await other == b"freed"


@in_place
async def test_of_an_answer_that_is_lost_silently_the_client_hears_nothing(place: Place) -> None:
    place.network.lose_next("b", is_data, silently=True)
    with pytest.raises(SilentError):
        await place.ask("/echo", patience_s=60.0)
    assert place.done == ["/echo"]
    assert await place.ask("/echo") == b"!"


def test_an_application_that_fails_ends_the_run() -> None:
    @in_place
    async def play(place: Place) -> None:
        await place.ask("/break")

    with pytest.raises(UnhandledInSimulation, match="ZeroDivisionError"):
        play()
