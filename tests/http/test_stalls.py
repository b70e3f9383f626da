"""The watchdog over the event loop: what stands still is found, with whom it stood still for."""

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from fastapi import FastAPI, Response
from starlette.types import Receive, Scope, Send

from quarterdeck.http.clientgone import run_while_connected
from quarterdeck.http.stalls import COLLECTOR, OTHER, Stall, StallFigures, StallWatch, Watched, log_stall, route_of
from tests.http.asked import Run, ask, respond
from tests.patience import PATIENCE_S

LIMIT_S = 0.05


class Heard:
    """What a watchdog tells."""

    def __init__(self) -> None:
        self.stalls: list[Stall] = []
        self.unlogged: list[int] = []
        self._came = threading.Event()

    def __call__(self, stall: Stall, unlogged: int) -> None:
        self.stalls.append(stall)
        self.unlogged.append(unlogged)
        self._came.set()

    async def first(self) -> Stall:
        assert await asyncio.to_thread(self._came.wait, 20)
        return self.stalls[0]


def watch(heard: Callable[[Stall, int], None], log_every_s: float = 0.0) -> StallWatch:
    return StallWatch(heard, limit_s=LIMIT_S, tick_s=0.01, log_every_s=log_every_s)


def busy(seconds: float) -> None:
    """Takes so much processor time, however busy the machine is."""
    began_s = time.thread_time()
    while time.thread_time() - began_s < seconds:
        pass


def stalled_by(run: Run, scene: Callable[[], Awaitable[object]]) -> Stall:
    heard = Heard()

    async def test() -> None:
        with watch(heard):
            await scene()
            await heard.first()

    run(test())
    # On a machine that is busy with something else there may be others; the one we made took the most of the processor.
    return max(heard.stalls, key=lambda stall: stall.cpu_s)


def test_a_route_that_holds_up_the_loop_is_named_by_its_template(run: Run) -> None:
    app = FastAPI()

    async def slow(name: str) -> Response:
        busy(0.3)
        return Response(name)

    app.add_api_route("/things/{name}", slow)
    stall = stalled_by(run, lambda: ask(Watched(app), "/things/seven"))
    assert stall.route == "/things/{name}"
    assert 0.2 < stall.cpu_s <= stall.duration_s + 0.1
    assert stall.duration_s > 0.2


def test_what_a_request_does_in_a_task_of_its_own_is_its_route(run: Run) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        busy(0.3)

    async def raw(scope: Scope, receive: Receive, send: Send) -> None:
        async def never() -> Any:
            await asyncio.Event().wait()

        await run_while_connected(never, work())
        await respond(send, b"done")

    assert stalled_by(run, lambda: ask(Watched(raw, ["/raw/"]), "/raw/17")).route == "/raw/"


def test_what_nobody_asked_for_has_its_task_and_its_place(run: Run) -> None:
    async def chore() -> None:
        busy(0.3)

    stall = stalled_by(run, lambda: asyncio.create_task(chore(), name="a chore"))
    assert (stall.route, stall.task) == (OTHER, "a chore")


def test_code_of_ours_is_named_with_its_line(run: Run) -> None:
    async def chore() -> None:
        slow_number(1)

    stall = stalled_by(run, chore)
    assert stall.place.startswith("quarterdeck.made_up.slow_number:")


_MADE_UP: dict[str, Any] = {"__name__": "quarterdeck.made_up", "busy": busy}
exec("def slow_number(number):\n    busy(0.3)\n    return number", _MADE_UP)
slow_number: Callable[[int], int] = _MADE_UP["slow_number"]


def test_the_garbage_collector_is_a_stall_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        for callback in list(gc.callbacks):
            callback("start", {})
        busy(0.3)
        for callback in list(gc.callbacks):
            callback("stop", {})

    stall = stalled_by(run, scene)
    assert stall.route == COLLECTOR
    assert stall.gc_s > 0.2


def test_waiting_is_no_stall_of_the_processor(run: Run) -> None:
    async def scene() -> None:
        threading.Event().wait(0.3)

    heard = Heard()

    async def test() -> None:
        with watch(heard):
            await scene()
            async with asyncio.timeout(PATIENCE_S):
                while not any(stall.duration_s > 0.2 for stall in heard.stalls):  # noqa: ASYNC110 - a thread tells
                    await asyncio.sleep(0.001)
        assert all(stall.cpu_s < 0.2 for stall in heard.stalls)

    run(test())


def test_a_loop_that_turns_does_not_stand_still(run: Run) -> None:
    heard = Heard()

    async def test() -> None:
        with watch(heard):
            for _ in range(20):
                busy(0.005)
                await asyncio.sleep(0)

    run(test())
    assert [stall for stall in heard.stalls if stall.cpu_s > LIMIT_S] == []


def test_a_watch_that_ends_while_it_asks_for_a_sign_ends() -> None:
    class Late(threading.Event):
        """Is cleared when the end has begun, in the moment in which nobody would set it again."""

        def clear(self) -> None:
            watching._stopping.wait()  # pyright: ignore[reportPrivateUsage]
            self.wait()
            super().clear()

    watching = watch(Heard())
    watching._turned = Late()  # pyright: ignore[reportPrivateUsage]

    async def test() -> None:
        with watching:
            await asyncio.sleep(0.1)  # until it asks

    asyncio.run(test())


def test_stalls_are_counted_by_route_and_told_now_and_then() -> None:
    heard = Heard()

    async def test() -> StallWatch:
        with watch(heard, log_every_s=3600.0) as watching:
            for number in range(1, 4):
                busy(0.2)
                async with asyncio.timeout(PATIENCE_S):
                    while sum(one.count for one in watching.figures.values()) < number:  # noqa: ASYNC110 - a thread counts
                        await asyncio.sleep(0.001)
        return watching

    figures = asyncio.run(test()).figures
    assert figures[OTHER].count >= 3
    assert figures[OTHER].seconds > 0.4
    assert len(heard.stalls) == 1


def test_a_watchdog_leaves_no_thread_and_no_callback_behind(run: Run) -> None:
    before = list(gc.callbacks)

    async def test() -> None:
        with watch(Heard()):
            assert len(gc.callbacks) == len(before) + 1
            busy(0.02)

    run(test())
    assert gc.callbacks == before


def test_a_loop_that_ends_first_ends_the_watch() -> None:
    watching = watch(Heard())

    async def begin() -> None:
        watching.__enter__()

    uvloop.run(begin())
    watching.__exit__(None, None, None)


def test_a_stall_is_logged_with_all_that_is_known(caplog: pytest.LogCaptureFixture) -> None:
    log_stall(Stall("/api/v1/series", 16.0, 15.5, 0.1, "quarterdeck.metrics.routes.labels:80", "Task-7"), 3)
    log_stall(Stall(OTHER, 0.2, 0.1, 0.0, "", ""), 0)
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "the event loop stood still for 16.000 s (15.500 s of its own processor time, 0.100 s of it the garbage "
        "collector): /api/v1/series at quarterdeck.metrics.routes.labels:80 in task 'Task-7'; 3 more before it"
    )
    assert second.endswith("collector): other")


def test_a_path_that_clients_make_up_is_no_route() -> None:
    assert route_of({"path": "/made/up", "quarterdeck.prefixes": ("/raw/",)}) == OTHER
    assert StallFigures() == StallFigures(0, 0.0)
