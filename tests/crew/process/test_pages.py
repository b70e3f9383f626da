"""The HTTP application of a process: everything at its place, and all of it behind the guard but the probes."""

import asyncio
from collections.abc import Sequence

import pytest
from fastapi import APIRouter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterdeck import __version__
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.process.pages import application
from quarterdeck.http.gate import GateRules
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.security.tokens import SharedToken
from tests.http.asked import Answer, ask, respond, text_app

TOKEN = "correct-horse-battery"
OPEN = GateRules(None, is_on_loopback=True, names=frozenset({"here"}))
GUARDED = GateRules(SharedToken.from_text(TOKEN).matches, is_on_loopback=False)


def sources(missing: Sequence[str] = ()) -> MonitorSources:
    return MonitorSources(
        about={"role": "test"},
        missing=lambda: missing,
        metrics=lambda accept: (b"figures", "text/plain"),
        scaling=lambda: {"queue_depth": 3},
    )


def router() -> APIRouter:
    router = APIRouter(prefix="/v1")

    @router.get("/thing")
    async def thing() -> dict[str, str]:
        return {"what": "a thing"}

    @router.get("/broken")
    async def broken() -> None:
        raise QuarterdeckError(ErrorCode.NO_WORKER, "it was not done", "nobody is there", "start a worker")

    _ = (thing, broken)
    return router


def page(
    guard: GateRules = OPEN, raw: dict[str, ASGIApp] | None = None, on_rejected: list[None] | None = None
) -> ASGIApp:
    rejected = [] if on_rejected is None else on_rejected
    return application(
        "A test", sources(), guard, routers=[router()], raw=raw, on_rejected=lambda: rejected.append(None)
    )


def get(app: ASGIApp, path: str, method: str = "GET", **headers: str) -> Answer:
    return asyncio.run(ask(app, path, method, **headers))


def test_monitors_and_routers_are_served_under_one_roof() -> None:
    app = page()
    assert get(app, "/health").json == {"status": "ok", "role": "test"}
    assert get(app, "/ready").json == {"ready": True, "missing": []}
    assert get(app, "/metrics").body == b"figures"
    assert get(app, "/monitor/scaling").json == {"queue_depth": 3}
    assert get(app, "/v1/thing").json == {"what": "a thing"}


def test_errors_of_any_route_are_told_in_our_form() -> None:
    missing, broken, wrong = get(page(), "/v1/nothing"), get(page(), "/v1/broken"), get(page(), "/v1/thing", "DELETE")
    assert (missing.status, missing.json["error"]["code"]) == (404, "not_found")
    assert missing.headers["content-type"] == "application/json"
    assert (broken.status, broken.json["error"]["next_step"]) == (503, "start a worker")
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET")


def test_the_description_has_title_version_and_the_routes() -> None:
    document = get(page(), "/openapi.json").json
    assert document["info"] == {"title": "A test", "version": __version__}
    assert {"/health", "/v1/thing"} <= set(document["paths"])


def test_what_has_a_prefix_of_its_own_is_asked_first_and_nothing_else_is() -> None:
    app = page(raw={"/v1/thing": text_app("raw"), "/files/": text_app("file")})
    assert get(app, "/v1/thing").body == b"raw"
    assert get(app, "/files/a/b").body == b"file"
    assert get(app, "/files").status == 404
    assert get(app, "/v1/files/a").status == 404
    assert get(app, "/health").status == 200


def test_with_a_token_only_the_probes_are_open() -> None:
    rejected: list[None] = []
    app = page(GUARDED, {"/files/": text_app("file")}, rejected)
    for path in ("/health", "/ready"):
        assert get(app, path).status == 200
    assert rejected == []
    closed = (
        "/v1/thing",
        "/files/a",
        "/metrics",
        "/monitor/scaling",
        "/openapi.json",
        "/redoc",
        "/nothing",
        "/health/",
    )
    for path in closed:
        assert get(app, path).status == 401
        assert get(app, path, authorization="Bearer another-horse-battery").status == 401
    assert len(rejected) == 2 * len(closed)
    authorization = f"Bearer {TOKEN}"
    assert get(app, "/files/a", authorization=authorization).body == b"file"
    assert get(app, "/v1/thing", authorization=authorization).status == 200


@pytest.mark.parametrize("guard", [OPEN, GUARDED])
def test_a_scope_without_a_path_is_nobodys_prefix(guard: GateRules) -> None:
    async def play() -> list[Message]:
        words: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
        heard: list[Message] = []

        async def receive() -> Message:
            return words.pop(0)

        async def send(message: Message) -> None:
            heard.append(message)

        async def never(scope: Scope, receive: Receive, send: Send) -> None:
            await respond(send, b"not for this")

        await page(guard, {"/": never})({"type": "lifespan"}, receive, send)
        return heard

    assert [message["type"] for message in asyncio.run(play())] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
