"""Middleware that lets in who has the token. It knows no token: whether a header is good is asked of a callable.

Health and readiness are open: a prober has no token, and they tell nothing worth one.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.errors import send_error

OPEN_PATHS: Final = frozenset({"/health", "/ready", "/-/healthy", "/-/ready"})

_CHALLENGE: Final = 'Bearer realm="quarterdeck"'
_MISSING: Final = QuarterdeckError(
    ErrorCode.UNAUTHENTICATED,
    "the request was not let in",
    "it has no token, or more than one",
    "send the crew's token as `Authorization: Bearer TOKEN`",
)
_WRONG: Final = QuarterdeckError(
    ErrorCode.UNAUTHENTICATED,
    "the request was not let in",
    "its token is not the one of this crew",
    "send the crew's token as `Authorization: Bearer TOKEN`",
)


class Authentication:
    """`matches` gets the value of the `Authorization` header, or None when there is none."""

    def __init__(self, app: ASGIApp, matches: Callable[[str | None], bool], on_rejected: Callable[[], None]) -> None:
        self._app = app
        self._matches = matches
        self._on_rejected = on_rejected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        presented: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
        # Of two headers, one for us and one for somebody behind us, neither would know which counts.
        single = presented[0].decode("latin-1") if len(presented) == 1 else None
        if self._matches(single):
            await self._app(scope, receive, send)
            return
        self._on_rejected()
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "no valid token"})
        elif single is None:
            await send_error(send, _MISSING, headers=[("www-authenticate", _CHALLENGE)])
        else:
            await send_error(send, _WRONG, headers=[("www-authenticate", f'{_CHALLENGE}, error="invalid_token"')])
