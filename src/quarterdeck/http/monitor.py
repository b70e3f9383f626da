"""What probes, Prometheus and an autoscaler ask of a process: is it healthy, may it get traffic, what are its figures.

It knows nothing about the process: each answer comes from a callable, which is called on the event loop and must be
quick.
"""

import asyncio
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

_NO_STORE: Final = {"Cache-Control": "no-store"}
_WORTH_GZIP_BYTES: Final = 1024
_GZIP_LEVEL: Final = 1  # figures repeat themselves: higher levels save a few per cent more for several times the work
_REST: Final = 9
"""To write the figures down takes at most a tenth of the loop's time, however many ask for them."""


@dataclass(frozen=True, slots=True)
class MonitorSources:
    """Where the answers come from."""

    about: Mapping[str, str]
    """What `/health` tells besides that all is well, such as version and role. Nothing secret: it needs no token."""
    missing: Callable[[], Sequence[str]]
    """What keeps the process from being ready, each in a few words; nothing when it is ready."""
    metrics: Callable[[str], tuple[bytes, str]]
    """The figures, and their content type, for the value of an `Accept` header (empty when there is none)."""
    scaling: Callable[[], Mapping[str, float]]
    """Flat numbers for KEDA's metrics-api scaler, such as `queue_depth` and `oldest_age_s`."""
    metrics_form: Callable[[str], str] = lambda accept: accept
    """Which form of the figures an `Accept` header means. All clients of one form get the same text."""


def monitor_router(sources: MonitorSources) -> APIRouter:
    """`/health`, `/ready`, `/metrics` and `/monitor/scaling`."""
    router = APIRouter(tags=["monitor"])
    figures = SharedFigures(sources)

    async def health() -> Response:
        """The process is up and its event loop runs."""
        return JSONResponse({"status": "ok", **sources.about}, headers=_NO_STORE)

    async def ready() -> Response:
        """Whether the process should get traffic; if not, 503 and what is missing."""
        missing = list(sources.missing())
        status = 503 if missing else 200
        return JSONResponse({"ready": not missing, "missing": missing}, status, headers=_NO_STORE)

    async def metrics(request: Request) -> Response:
        """All figures, in the format of Prometheus."""
        body, content_type = await figures.taken(request.headers.get("accept", ""))
        headers = {**_NO_STORE, "Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if len(body) >= _WORTH_GZIP_BYTES and _accepts_gzip(request.headers.get("accept-encoding", "")):
            body = gzip.compress(body, _GZIP_LEVEL)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def scaling() -> Response:
        """How much there is to do, as flat numbers for an autoscaler."""
        return JSONResponse(dict(sources.scaling()), headers=_NO_STORE)

    routes = {"/health": health, "/ready": ready, "/metrics": metrics, "/monitor/scaling": scaling}
    for path, handler in routes.items():
        router.add_api_route(path, handler, methods=["GET"])
    return router


class SharedFigures:
    """Writing the figures takes some milliseconds of the event loop, and anybody may ask. So a request that comes too
    soon after the last writing waits a little, and all that wait share the next one. Nobody gets figures from before it
    asked."""

    def __init__(self, sources: MonitorSources) -> None:
        self._sources = sources
        self._free_at_s = 0.0
        self._next: dict[str, asyncio.Future[tuple[bytes, str]]] = {}
        """By form."""

    async def taken(self, accept: str) -> tuple[bytes, str]:
        loop = asyncio.get_running_loop()
        if not self._next and loop.time() >= self._free_at_s:
            return self._take(loop, accept)
        form = self._sources.metrics_form(accept)
        waiting = self._next.get(form)
        if waiting is None:
            waiting = self._next[form] = loop.create_future()
            loop.call_at(self._free_at_s, self._tell, loop, form, accept)
        return await asyncio.shield(waiting)  # a client that leaves does not end it for the others

    def _tell(self, loop: asyncio.AbstractEventLoop, form: str, accept: str) -> None:
        waiting = self._next.pop(form)
        try:
            waiting.set_result(self._take(loop, accept))
        except Exception as error:  # noqa: BLE001 - raised where they are waited for
            waiting.set_exception(error)

    def _take(self, loop: asyncio.AbstractEventLoop, accept: str) -> tuple[bytes, str]:
        began_s = loop.time()
        try:
            return self._sources.metrics(accept)
        finally:
            self._free_at_s = loop.time() + _REST * (loop.time() - began_s)


def _accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is named, or covered by `*`, with a weight that is not 0."""
    weights: dict[str, float] = {}
    for part in accept_encoding.split(","):
        coding, _, parameter = part.partition(";")
        name, _, value = parameter.partition("=")
        try:
            weights[coding.strip().lower()] = float(value) if name.strip().lower() == "q" else 1.0
        except ValueError:
            weights[coding.strip().lower()] = 0.0  # what cannot be read is not an invitation
    return weights.get("gzip", weights.get("*", 0.0)) > 0
