"""What probes, Prometheus and an autoscaler are answered."""

import asyncio
import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from fastapi import FastAPI

from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.head import HeadAsGet
from quarterdeck.http.monitor import MonitorSources, SharedFigures, monitor_router
from tests.http.asked import Answer, ask, connected, served

PATHS = ["/health", "/ready", "/metrics", "/monitor/scaling"]
FIGURES = b"quarterdeck_sessions 3\n" * 100


class Process:
    """What is monitored."""

    def __init__(self) -> None:
        self.missing: Sequence[str] = []
        self.figures = FIGURES
        self.scaling: Mapping[str, float] = {"queue_depth": 7, "oldest_age_s": 1.5}
        self.accepted: list[str] = []
        self.app = FastAPI()
        add_error_handlers(self.app, lambda error: None)
        about = {"role": "coordinator", "version": "1"}
        sources = MonitorSources(about, lambda: self.missing, self.metrics, lambda: self.scaling)
        self.app.include_router(monitor_router(sources))

    def metrics(self, accept: str) -> tuple[bytes, str]:
        self.accepted.append(accept)
        return self.figures, "text/plain; version=1.0.0"

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return asyncio.run(ask(self.app, path, method, **headers))


def test_health_is_ok_and_tells_who_it_is() -> None:
    answer = Process().ask("/health")
    assert (answer.status, answer.json) == (200, {"status": "ok", "role": "coordinator", "version": "1"})


def test_ready_is_ready_when_nothing_is_missing() -> None:
    answer = Process().ask("/ready")
    assert (answer.status, answer.json) == (200, {"ready": True, "missing": []})


def test_what_is_missing_is_told_with_503() -> None:
    process = Process()
    process.missing = ("no worker accepts work", "the spool is full")
    answer = process.ask("/ready")
    assert answer.status == 503
    assert answer.json == {"ready": False, "missing": ["no worker accepts work", "the spool is full"]}


def test_the_autoscaler_gets_flat_numbers() -> None:
    answer = Process().ask("/monitor/scaling")
    assert (answer.status, answer.json) == (200, {"queue_depth": 7, "oldest_age_s": 1.5})


def test_a_figure_that_is_no_number_is_an_error_and_not_a_zero() -> None:
    process = Process()
    process.scaling = {"queue_depth": math.nan}
    assert process.ask("/monitor/scaling").status == 500


def test_metrics_come_in_the_format_that_is_asked_for() -> None:
    process = Process()
    answer = process.ask("/metrics", accept="application/openmetrics-text")
    assert (answer.status, answer.body) == (200, FIGURES)
    assert answer.headers["content-type"] == "text/plain; version=1.0.0"
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    process.ask("/metrics")
    assert process.accepted == ["application/openmetrics-text", ""]


@pytest.mark.parametrize("encoding", ["gzip", "deflate, GZIP;q=0.5", "br;q=1, *;q=0.1"])
def test_metrics_are_compressed_for_who_can_read_that(encoding: str) -> None:
    answer = Process().ask("/metrics", accept_encoding=encoding)
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(answer.body) < len(FIGURES)
    assert gzip.decompress(answer.body) == FIGURES


@pytest.mark.parametrize("encoding", ["", "identity", "gzip;q=0", "*, gzip; q=0.0", "gzip;q=much"])
def test_metrics_are_not_compressed_for_who_cannot(encoding: str) -> None:
    answer = Process().ask("/metrics", accept_encoding=encoding)
    assert "content-encoding" not in answer.headers
    assert answer.body == FIGURES


def test_a_few_figures_are_not_worth_compressing() -> None:
    process = Process()
    process.figures = b"up 1\n"
    assert process.ask("/metrics", accept_encoding="gzip").body == b"up 1\n"


@pytest.mark.parametrize("path", PATHS)
def test_nothing_of_it_is_cached(path: str) -> None:
    assert Process().ask(path).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PATHS)
def test_head_has_the_headers_of_get_and_no_body(path: str) -> None:
    async def test() -> None:
        async with served(HeadAsGet(Process().app)) as server, connected(server) as client:
            client.get(path)
            whole = await client.answer()
            client.send(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
            head = await client.rest()
            assert f"content-length: {len(whole.body)}".encode() in head
            assert head.startswith(b"HTTP/1.1 200")
            assert head.endswith(b"\r\n\r\n")

    asyncio.run(test())


def test_each_path_is_in_the_description_of_the_interface_once() -> None:
    schema: dict[str, Any] = Process().app.openapi()
    assert {path: list(methods) for path, methods in schema["paths"].items()} == {path: ["get"] for path in PATHS}


def test_those_who_ask_for_figures_at_once_share_them_and_none_are_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        loop, now_s = asyncio.get_running_loop(), [100.0]
        timers: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(loop, "time", lambda: now_s[0])

        def call_at(at_s: float, call: Callable[..., None], *given: Any) -> None:
            timers.append((at_s, partial(call, *given)))

        monkeypatch.setattr(loop, "call_at", call_at)
        taken: list[str] = []

        def metrics(accept: str) -> tuple[bytes, str]:
            taken.append(accept)
            now_s[0] += 0.01
            return str(len(taken)).encode(), "text/plain"

        sources = MonitorSources({}, list, metrics, dict, metrics_form=lambda accept: accept[:1])
        figures = SharedFigures(sources)
        assert await figures.taken("a") == (b"1", "text/plain"), "the first gets them at once"
        asking = [asyncio.create_task(figures.taken(accept)) for accept in ("a1", "a2", "b", "a3")]
        await asyncio.sleep(0)
        asking[0].cancel()
        assert [round(at_s - now_s[0], 6) for at_s, _ in timers] == [0.09, 0.09]
        for _, call in timers:
            call()
        told = [body for body, _ in await asyncio.gather(*asking[1:])]
        assert told == [b"2", b"3", b"2"]
        assert taken == ["a", "a1", "b"]
        now_s[0] += 1.0
        assert await figures.taken("a") == (b"4", "text/plain")

    asyncio.run(test())


def test_figures_that_cannot_be_taken_are_an_error_for_all_who_wait() -> None:
    async def test() -> None:
        def metrics(accept: str) -> tuple[bytes, str]:
            raise ValueError(accept)

        figures = SharedFigures(MonitorSources({}, list, metrics, dict))
        asking = [asyncio.create_task(figures.taken("a")) for _ in range(3)]
        assert {type(each) for each in await asyncio.gather(*asking, return_exceptions=True)} == {ValueError}

    asyncio.run(test())
