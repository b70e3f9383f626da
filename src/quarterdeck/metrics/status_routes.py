"""What clients of Prometheus ask about the server itself: `promtool check healthy` and `check ready`, its flags, and
what it scrapes.

This server scrapes nothing, has no rules' file and alerts nobody. It says so, where others would have lists, so that
clients that look for them go on.
"""

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from quarterdeck.metrics.api.errors import invalid_parameter
from quarterdeck.metrics.api.form import first
from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.promql.syntax.durations import show_duration_ms
from quarterdeck.metrics.routes import PREFIX, in_prometheus_form, read_form, success
from quarterdeck.metrics.service import QueryOptions

_NO_STORE: Final = {"Cache-Control": "no-store"}
_NOTHING: Final[Mapping[str, object]] = MappingProxyType(
    {
        "/targets": {"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}},
        "/scrape_pools": {"scrapePools": []},
        "/alertmanagers": {"activeAlertmanagers": [], "droppedAlertmanagers": []},
        "/status/config": {"yaml": ""},
    }
)
"""What there is none of here, by the path where clients ask for it."""


def prometheus_status_router(
    options: QueryOptions, missing: Callable[[], Sequence[str]], memory_bytes: int = 0
) -> APIRouter:
    """`missing` says what keeps this server from being ready, each in a few words. `memory_bytes` is the memory that
    its queries share; 0 is no limit."""
    router = APIRouter(tags=["metrics"], default_response_class=Response)
    began = _moment()

    async def healthy() -> Response:
        """The server is up, in the form that `promtool check healthy` expects."""
        return PlainTextResponse("Quarterdeck is healthy.\n", headers=_NO_STORE)

    async def ready() -> Response:
        """The server can answer, in the form that `promtool check ready` expects; if not, 503 and what is missing."""
        lacks = list(missing())
        text = f"Quarterdeck is not ready: {', '.join(lacks)}.\n" if lacks else "Quarterdeck is ready.\n"
        return PlainTextResponse(text, 503 if lacks else 200, headers=_NO_STORE)

    async def flags() -> Response:
        """The flags of Prometheus that mean something here, with their values."""
        return success(
            {
                "query.lookback-delta": show_duration_ms(options.lookback_ms),
                "query.max-concurrency": str(options.at_once),
                "query.max-samples": str(options.max_samples),
                "query.timeout": show_duration_ms(round(options.timeout_s * 1000)),
            }
        )

    async def runtime() -> Response:
        """When it started, and on what it runs. Values that only a program in Go has, and its folder, are empty."""
        return success(
            {
                "startTime": began,
                "CWD": "",
                "serverTime": _moment(),
                "reloadConfigSuccess": True,
                "lastConfigTime": began,
                "corruptionCount": 0,
                "goroutineCount": threading.active_count(),
                "GOMAXPROCS": os.cpu_count() or 1,
                "GOMEMLIMIT": memory_bytes,
                "GOGC": "",
                "GODEBUG": "",
                "storageRetention": "",
            }
        )

    async def no_metadata(request: Request) -> Response:
        """What targets say about their metrics; there are no targets. See `/api/v1/metadata`."""
        limit = first(await read_form(request), "limit")
        if limit and not limit.removeprefix("-").isdecimal():
            raise invalid_parameter("limit", "limit must be a number")
        return success([])

    for path, handler in (("/-/healthy", healthy), ("/-/ready", ready)):
        router.add_api_route(path, handler, methods=["GET"])
    answers = {"/status/flags": flags, "/status/runtimeinfo": runtime, "/targets/metadata": no_metadata}
    for path, handler in (answers | {path: _nothing(path) for path in _NOTHING}).items():
        whole = PREFIX + path
        router.add_api_route(whole, in_prometheus_form(handler), methods=["GET"], **described(whole, "GET"))
    return router


def _nothing(path: str) -> Callable[[], Awaitable[Response]]:
    async def nothing() -> Response:
        return success(_NOTHING[path])

    nothing.__doc__ = f"Always empty: Quarterdeck has nothing of what Prometheus has at {path.removeprefix('/')}."
    nothing.__name__ = "no" + path.replace("/", "_")
    return nothing


def _moment() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
