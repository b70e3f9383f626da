"""Errors as a client sees them: one JSON form, and the status from the core's table, whoever raised the error.

    {"error": {"code": "not_found", "what": "…", "why": "…", "next_step": "…", "retryable": false}}

Rules: a client never sees a traceback. An unexpected error goes to a callback, by default the log, and to the client as
`internal`. Once a response has begun, nothing can be added to it. Then the error goes on to the server, which cuts the
connection, so that nobody takes half an answer for a whole one.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.tracebacks import empty_frames
from quarterdeck.http.error_documents import rendered

_LOG: Final = logging.getLogger(__name__)
_LONGEST_SHOWN: Final = 80
"""How much of a wrong value is repeated to who sent it, in characters."""
_MOST_SHOWN: Final = 20
"""How many problems of one request are reported."""

_CODES: Final[Mapping[int, ErrorCode]] = {
    404: ErrorCode.NOT_FOUND,
    429: ErrorCode.RESOURCE_EXHAUSTED,
    503: ErrorCode.UNAVAILABLE,
    504: ErrorCode.DEADLINE_EXCEEDED,
}
"""What a status means that the framework chose. Any other below 500 is the caller's fault, any above is ours."""

Headers = Sequence[tuple[str, str]]
Unexpected = Callable[[Exception], None]


def log_unexpected(error: Exception) -> None:
    _LOG.error("a request met an error that nobody expected", exc_info=error)


def error_response(
    error: QuarterdeckError, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """The error for a handler to return; `status` where HTTP knows one that the table has not."""
    return Response(rendered(error), status or error.row.http_status, headers, "application/json")


async def send_error(send: Send, error: QuarterdeckError, status: int | None = None, headers: Headers = ()) -> None:
    """The error as the whole response of an ASGI application without a framework."""
    body = rendered(error)
    own = (("content-type", "application/json"), ("content-length", str(len(body))))
    raw_headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (*own, *headers)]
    await send({"type": "http.response.start", "status": status or error.row.http_status, "headers": raw_headers})
    await send({"type": "http.response.body", "body": body})


class AnswerCutOffError(Exception):
    """Raised to the server, which cuts the connection: what went wrong was told where it happened."""


class ErrorsAsJson:
    """Middleware for any ASGI application: what it raises becomes a response."""

    def __init__(self, app: ASGIApp, on_unexpected: Unexpected = log_unexpected) -> None:
        self._app = app
        self._on_unexpected = on_unexpected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except ClientDisconnect:
            pass  # there is nobody to answer, and nothing went wrong here
        except QuarterdeckError as error:
            if has_begun:
                raise AnswerCutOffError from error
            await send_error(send, error)
        except Exception as error:
            # Starlette wraps what a handler of ours could no longer answer.
            if has_begun and isinstance(error.__cause__, QuarterdeckError):
                raise AnswerCutOffError from error.__cause__
            self._on_unexpected(error)
            if has_begun:
                raise
            await send_error(send, _unexpected(scope))


def add_error_handlers(app: FastAPI, on_unexpected: Unexpected = log_unexpected) -> None:
    """Make a FastAPI application answer every error in our form. Call it before other middleware is added: what is
    added later lies further out, and its own mistakes are not seen here."""
    app.add_exception_handler(QuarterdeckError, _answer_own)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_framework)
    # Not a handler for Exception: after that one Starlette raises the error again, and the server cuts the connection.
    app.add_middleware(ErrorsAsJson, on_unexpected=on_unexpected)


async def _answer_own(_request: Request, error: Exception) -> Response:
    assert isinstance(error, QuarterdeckError)
    return error_response(error)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = validation_problems(error.errors())
    empty_frames(error)  # FastAPI has the error in a frame that the error leads to, and there the body that was wrong
    what = f"the request for {request.url.path} cannot be understood"
    return error_response(QuarterdeckError(ErrorCode.INVALID_ARGUMENT, what, problems, "correct it and ask again"))


async def _answer_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    empty_frames(error)  # as above: the part of a body that had come before its client was too slow, or too much
    if isinstance(error.__cause__, QuarterdeckError):  # of who counts a body, and the framework says something general
        return error_response(error.__cause__)
    path, method = request.url.path, request.method
    code = _CODES.get(error.status_code, ErrorCode.INTERNAL if error.status_code >= 500 else ErrorCode.INVALID_ARGUMENT)
    headers = dict(error.headers or {})
    allowed = headers.get("Allow", "")
    if allowed:
        allowed = headers["Allow"] = _methods_at(request) or allowed
    if error.status_code == 404 and error.detail == "Not Found":
        told = QuarterdeckError(code, f"there is nothing at {path}", "no such path is served here", "check the path")
    elif error.status_code == 405 and allowed:
        told = QuarterdeckError(code, f"{method} does not work at {path}", f"it takes {allowed}", "use what it takes")
    else:
        told = QuarterdeckError(code, f"{method} {path} was refused", str(error.detail), "change the request")
    return error_response(told, error.status_code, headers)


def _methods_at(request: Request) -> str:
    """Of all routes for the path; the framework tells those of the first one."""
    found: set[str] = set()
    for route in _routes_of(request.app):
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _routes_of(router: Any) -> Iterator[object]:
    """With those of the routers that it includes."""
    for route in router.routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from _routes_of(included)


def validation_problems(errors: Iterable[Mapping[str, Any]]) -> str:
    """What pydantic found, in words for the sender of the request."""
    return "; ".join(_problems(errors))


def _problems(errors: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for problem in islice(errors, _MOST_SHOWN):
        place = ".".join(str(part) for part in problem["loc"])
        shown = repr(problem.get("input"))
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
        message = str(problem["msg"])
        yield f"{place}: {message}" if problem["type"] == "missing" else f"{place} is {shown}: {message}"


def _unexpected(scope: Scope) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INTERNAL,
        f"{scope['method']} {scope['path']} failed",
        "an error that nobody expected",
        "look into the log of this process for this moment, and report it",
    )
