"""The HTTP application of a process: the monitors' pages, what the process adds, and the guard in front of all."""

from collections.abc import Callable, Iterable

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from quarterdeck import __version__
from quarterdeck.http.body_limit import BodyLimit
from quarterdeck.http.errors import add_error_handlers
from quarterdeck.http.gate import Gate, GateRules
from quarterdeck.http.head import HeadAsGet
from quarterdeck.http.monitor import MonitorSources, monitor_router


def application(
    title: str,
    sources: MonitorSources,
    rules: GateRules,
    *,
    routers: Iterable[APIRouter] = (),
    raw: "dict[str, ASGIApp] | None" = None,
    on_rejected: Callable[[], None],
) -> ASGIApp:
    """`raw` are applications without a framework, by the prefix of their paths: they are asked first. `rules` say who
    may ask what."""
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None)  # their pages load scripts from afar
    app.include_router(monitor_router(sources))
    for router in routers:
        app.include_router(router)
    add_error_handlers(app)
    headed = HeadAsGet(app)
    return Gate(BodyLimit(_by_prefix(raw, headed) if raw else headed), rules, on_rejected)


def _by_prefix(raw: dict[str, ASGIApp], otherwise: ASGIApp) -> ASGIApp:
    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        for prefix, app in raw.items():
            if path.startswith(prefix):
                await app(scope, receive, send)
                return
        await otherwise(scope, receive, send)

    return route
