"""The doors of a process: whom it dials, and who is told when nobody opens."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from fastapi import APIRouter

from quarterdeck.control.link import Link
from quarterdeck.control.server import ControlServer
from quarterdeck.core.backoff import Backoff
from quarterdeck.crew.process.doors import Doors, Peers
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import StopSignals
from quarterdeck.http.client import HttpClient, Origin
from quarterdeck.http.connection import HttpLimits
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.telemetry.metrics import Rejection
from tests.patience import PATIENCE_S
from tests.ports import dead_port

LOOPBACK = "127.0.0.1"
GUARD = Guard(None, None, insecure=False)


def run(scene: Callable[[AsyncExitStack, Doors], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
            await scene(stack, Doors(GUARD))

    asyncio.run(main())


def at(*addresses: str, dns: str | None = None) -> Peers:
    return Peers("coordinators", addresses, dns, 60.0, Backoff(0.01, 0.01))


async def nobody(link: Link) -> bool:
    raise AssertionError(f"{link.peer} was served")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nobody announces it
        await asyncio.sleep(0.005)


def test_one_that_is_turned_away_hears_so_each_time() -> None:
    async def scene(stack: AsyncExitStack, doors: Doors) -> None:
        server = ControlServer(nobody, admits=lambda _: False)
        await server.start(LOOPBACK, 0)
        stack.push_async_callback(server.stop)
        turned_away: list[None] = []
        address = f"{LOOPBACK}:{server.port}"
        await doors.dial(stack, "w", at(address), nobody, StopSignals(), lambda: turned_away.append(None))
        await until(lambda: len(turned_away) >= 3)

    run(scene)


def test_one_that_reaches_nobody_was_not_turned_away() -> None:
    async def scene(stack: AsyncExitStack, doors: Doors) -> None:
        port = stack.enter_context(dead_port())
        turned_away: list[None] = []
        address = f"{LOOPBACK}:{port}"
        await doors.dial(stack, "w", at(address), nobody, StopSignals(), lambda: turned_away.append(None))
        await asyncio.sleep(0.2)
        assert turned_away == []

    run(scene)


def test_without_anybody_to_dial_nothing_is_begun() -> None:
    async def scene(stack: AsyncExitStack, doors: Doors) -> None:
        tasks = asyncio.all_tasks()
        await doors.dial(stack, "w", at(), nobody, StopSignals(), lambda: None)
        assert asyncio.all_tasks() == tasks

    run(scene)


def test_a_list_and_a_name_are_both_looked_at() -> None:
    assert [type(each).__name__ for each in at("a:1", dns="b:2").discoveries()] == ["StaticDiscovery", "DnsDiscovery"]


def test_a_route_that_holds_up_the_loop_is_known_by_its_name() -> None:
    router = APIRouter()

    async def slow(number: int) -> int:
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.3:
            pass
        return number

    router.add_api_route("/slow/{number}", slow)
    sources = MonitorSources({}, list, lambda _: (b"", "text/plain"), dict)

    async def scene(stack: AsyncExitStack, doors: Doors) -> None:
        server = await doors.open_http(stack, (LOOPBACK, 0), "a test", sources, routers=[router])
        client = HttpClient(headers={}, stall_timeout_s=10.0)
        stack.push_async_callback(client.close)
        answer = await client.get(Origin("http", LOOPBACK, server.port), "/slow/7")
        assert await answer.read() == b"7"
        answer.close()
        await until(lambda: "/slow/{number}" in doors.stalls())
        assert doors.stalls()["/slow/{number}"].seconds > 0.1

    run(scene)


def test_who_is_refused_for_want_of_room_is_counted() -> None:
    sources = MonitorSources({}, list, lambda _: (b"", "text/plain"), dict)

    async def main() -> None:
        doors = Doors(GUARD, HttpLimits(connections=1))
        async with AsyncExitStack() as stack:
            server = await doors.open_http(stack, (LOOPBACK, 0), "a test", sources)
            _, first = await asyncio.open_connection(LOOPBACK, server.port)
            await until(lambda: len(server.room.table) == 1)
            reader, second = await asyncio.open_connection(LOOPBACK, server.port)
            assert await reader.read() == b""
            assert doors.rejections()[Rejection.HTTP_CONNECTIONS] == 1
            for writer in (first, second):
                writer.close()
                await writer.wait_closed()

    asyncio.run(main())


def test_doors_that_are_closed_have_turned_nobody_away() -> None:
    async def scene(stack: AsyncExitStack, doors: Doors) -> None:
        assert doors.rejections() == dict.fromkeys(Rejection, 0)

    run(scene)
