"""What clients of Prometheus ask about the server itself: `promtool check healthy` and `check ready`, and its flags."""

from collections.abc import Callable, Sequence
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.promql.syntax.durations import show_duration_ms
from quarterdeck.metrics.routes import PREFIX, success
from quarterdeck.metrics.service import QueryOptions

_NO_STORE: Final = {"Cache-Control": "no-store"}


def prometheus_status_router(options: QueryOptions, missing: Callable[[], Sequence[str]]) -> APIRouter:
    """`missing` says what keeps this server from being ready, each in a few words."""
    router = APIRouter(tags=["metrics"], default_response_class=Response)

    async def healthy() -> Response:
        """The server is up, as `promtool check healthy` wants to hear it."""
        return PlainTextResponse("Quarterdeck is healthy.\n", headers=_NO_STORE)

    async def ready() -> Response:
        """The server can answer, as `promtool check ready` wants to hear it; if not, 503 and what is missing."""
        lacks = list(missing())
        text = f"Quarterdeck is not ready: {', '.join(lacks)}.\n" if lacks else "Quarterdeck is ready.\n"
        return PlainTextResponse(text, 503 if lacks else 200, headers=_NO_STORE)

    async def flags() -> Response:
        """Those flags of Prometheus that mean something here, and what they are."""
        return success(
            {
                "query.lookback-delta": show_duration_ms(options.lookback_ms),
                "query.max-concurrency": str(options.at_once),
                "query.max-samples": str(options.max_samples),
                "query.timeout": show_duration_ms(round(options.timeout_s * 1000)),
            }
        )

    for path, handler in (("/-/healthy", healthy), ("/-/ready", ready)):
        router.add_api_route(path, handler, methods=["GET"])
        router.add_api_route(path, handler, methods=["HEAD"], include_in_schema=False)
    path = f"{PREFIX}/status/flags"
    router.add_api_route(path, flags, methods=["GET"], **described(path, "GET"))
    return router
