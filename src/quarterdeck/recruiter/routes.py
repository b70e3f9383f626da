"""`/recruiter/…`: where workers register and roots recruit.

A recruiter holds thousands of registrations open and answers a thousand recruits a second, so these two are an ASGI
application without a framework. A registration costs one task, which waits for its client to go; the answer is sent
from elsewhere when the time comes, and ends that wait too. `recruiter_router` has the same paths for FastAPI, so that
they are in its documentation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.body_limit import BodyTooLargeError
from quarterdeck.http.errors import send_error
from quarterdeck.http.schemas import whole_schema
from quarterdeck.http.tenants import AskingTenant, LookingTenant, tenant_of
from quarterdeck.recruiter import wire
from quarterdeck.recruiter.service import Ending, RecruiterService, SupersededError

_REGISTER: Final = "/recruiter/register"
_RECRUIT: Final = "/recruiter/recruit"
_CONFLICT: Final = 409
_MOST_BYTES: Final = 64 * 1024
"""Of a request: several times one with all labels that a worker may have."""

_LOG: Final = logging.getLogger(__name__)
_JSON: Final = (b"content-type", b"application/json")
_NO_STORE: Final = (b"cache-control", b"no-store")

_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "The request makes no sense."},
    503: {"description": "The recruiter is shutting down: ask another."},
}
_SUPERSEDED: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The same address has registered again since."},
}


class RecruiterRoute:
    """The ASGI application for POST at the two paths."""

    def __init__(self, service: RecruiterService) -> None:
        self._service = service
        self._handlers: dict[str, _Handler] = {_REGISTER: self._register, _RECRUIT: self._recruit}
        self._answering: set[asyncio.Task[None]] = set()

    def by_path(self) -> dict[str, ASGIApp]:
        """Where it is to be asked before any framework."""
        return dict.fromkeys(self._handlers, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        handler = self._handlers.get(path)
        if handler is None:
            await send_error(
                send,
                QuarterdeckError(
                    ErrorCode.NOT_FOUND, f"there is nothing at {path}", "no such path is served here", "check the path"
                ),
            )
        elif scope["method"] != "POST":
            await send_error(
                send,
                QuarterdeckError(
                    ErrorCode.INVALID_ARGUMENT,
                    f"{scope['method']} does not work at {path}",
                    "it takes POST",
                    "use what it takes",
                ),
                405,
                [("allow", "POST")],
            )
        else:
            await self._handle(handler, scope, receive, send)

    async def _handle(self, handler: "_Handler", scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await _body(receive)
            if body is not None:
                await handler(body, tenant_of(scope), receive, send)
        except QuarterdeckError as error:
            await send_error(send, error)

    async def _recruit(self, body: bytes, tenant: str, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as any handler
        wanted = wire.parse_recruit(body)
        workers = self._service.recruit(wanted.number, wanted.label, tenant)
        await _send_json(send, wire.recruited_document(workers))

    async def _register(self, body: bytes, tenant: str, receive: Receive, send: Send) -> None:
        offer, timeout_s = wire.parse_register(body, tenant)
        registration = self._service.open(offer, timeout_s, lambda ending: self._answer(send, ending))
        try:
            # Also when the response is complete a server says that there is nothing more to wait for.
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._service.abandon(registration)

    def _answer(self, send: Send, ending: Ending) -> None:
        task = asyncio.create_task(_send_ending(send, ending), name="answer a registration")
        self._answering.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a registration could not be answered", exc_info=error)


_Handler = Callable[[bytes, str, Receive, Send], Awaitable[None]]


class _Through(Response):
    """Hands the request over as it came."""

    def __init__(self, app: RecruiterRoute) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def recruiter_router(service: RecruiterService, route: RecruiterRoute) -> APIRouter:
    """All four paths."""
    router = APIRouter(prefix="/recruiter", tags=["recruiter"])

    @router.post(
        "/register",
        response_class=Response,
        responses={**_ERRORS, **_SUPERSEDED, **_answers(wire.RegisterAnswer)},
        openapi_extra=_takes(wire.RegisterBody),
    )
    async def register(_: AskingTenant) -> Response:
        """Offer a worker, and wait until somebody recruits it.

        The request is held open, and the worker is in the pool for exactly that long. If the answer is `reserved`, the
        worker belongs from then on to whoever recruited it. If the answer is `reregister`, because the time is over or
        the recruiter shuts down, the worker should register again at once. If an address registers again, that replaces
        its earlier registration.
        """
        return _Through(route)

    @router.post(
        "/recruit",
        response_class=Response,
        responses={**_ERRORS, **_answers(wire.RecruitAnswer)},
        openapi_extra=_takes(wire.RecruitBody),
    )
    async def recruit(_: AskingTenant) -> Response:
        """Reserve workers: as many as asked for, or all that are free, spread over nodes.

        A tenant gets its own workers; one that has none gets those of the default tenant.

        Each worker stays reserved until it gets `POST /worker/release`, or hears nothing for too long.
        """
        return _Through(route)

    @router.get("/stats", response_model=wire.Stats)
    async def stats(tenant: LookingTenant) -> Response:
        """How many workers are free, were asked for and were given, in total and by node."""
        return _json_response(wire.stats_document(service.figures(tenant)))

    @router.get("/listfree", response_model=wire.FreeWorkers)
    async def listfree(tenant: LookingTenant) -> Response:
        """The workers that are free, and for how long."""
        return _json_response(wire.free_document(service.free(tenant)))

    _ = (register, recruit, stats, listfree)
    return router


def _answers(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}}


def _takes(model: type[BaseModel]) -> dict[str, Any]:
    """A body that the framework does not read and yet describes."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": whole_schema(model)}}}}


def _json_response(document: bytes) -> Response:
    return Response(document, headers={"cache-control": "no-store"}, media_type="application/json")


async def _body(receive: Receive) -> bytes | None:
    """None when the client went away before it had sent all of it."""
    parts: list[bytes] = []
    received_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        received_bytes += len(parts[-1])
        if received_bytes > _MOST_BYTES:
            raise BodyTooLargeError(_MOST_BYTES)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send_ending(send: Send, ending: Ending) -> None:
    if isinstance(ending, SupersededError):
        await send_error(send, ending, _CONFLICT)
    else:
        await _send_json(send, wire.registered_document(ending))


async def _send_json(send: Send, document: bytes) -> None:
    headers = [_JSON, _NO_STORE, (b"content-length", b"%d" % len(document))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": document})
