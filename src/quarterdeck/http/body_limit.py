"""Middleware that refuses request bodies that are too large: a handler would gather them in memory before it looks."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.errors import send_error

LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Many times the longest request that makes sense."""


class BodyTooLargeError(QuarterdeckError):
    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "the request was not taken",
            f"its body has more than {limit_bytes:,} bytes",
            "ask for less at once",
        )
        self.args = (limit_bytes,)  # from which copy and pickle make it anew


class BodyLimit:
    def __init__(self, app: ASGIApp, limit_bytes: int = LIMIT_BYTES) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = [value for name, value in scope["headers"] if name == b"content-length"]
        if announced and int(announced[0]) > self._limit_bytes:
            await send_error(send, BodyTooLargeError(self._limit_bytes), 413, [("connection", "close")])
            return
        received_bytes = 0

        async def counted_receive() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > self._limit_bytes:
                raise BodyTooLargeError(self._limit_bytes)
            return message

        await self._app(scope, counted_receive, send)
