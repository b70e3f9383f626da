"""Middleware that refuses request bodies that are too large or have too many parts. A handler would gather such a body
in memory, and parse it on the event loop, before it looks at it.

The cost of parsing a text depends on its parts, not on its bytes, and nothing else runs meanwhile: the parsers of JSON
and of forms hold the interpreter's lock. A part begins with a mark that separates parts of JSON or a form. In quoted
text such a mark counts too, so the limit is far above what any useful request has.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.errors import send_error

LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Many times the longest request that makes sense."""
LIMIT_PARTS: Final = 100_000
"""Some 30 ms of parsing. A request for a chunk of a search has up to 40,000, and commas in its query."""
_MARKS: Final = (b",", b"[", b"{", b"&")


class BodyTooLargeError(QuarterdeckError):
    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "the request was not taken",
            f"its body has more than {limit_bytes:,} bytes",
            "ask for less at once",
        )
        self.args = (limit_bytes,)  # from which copy and pickle make it anew


class BodyOfTooManyPartsError(QuarterdeckError):
    def __init__(self, limit_parts: int) -> None:
        super().__init__(
            ErrorCode.INVALID_ARGUMENT,
            "the request was not taken",
            f"its body has more than {limit_parts:,} items, fields and brackets",
            "ask for less at once",
        )
        self.args = (limit_parts,)  # from which copy and pickle make it anew


class BodyLimit:
    def __init__(self, app: ASGIApp, limit_bytes: int = LIMIT_BYTES, limit_parts: int = LIMIT_PARTS) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._limit_parts = limit_parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length, is_chunked = 0, False
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                is_chunked = True
        if length > self._limit_bytes:
            await send_error(send, BodyTooLargeError(self._limit_bytes), 413, [("connection", "close")])
            return
        if not is_chunked and length <= min(self._limit_bytes, self._limit_parts):
            await self._app(scope, receive, send)  # as nearly all are: it has no more parts than bytes
            return
        received_bytes = received_parts = 0

        async def counted_receive() -> Message:
            nonlocal received_bytes, received_parts
            message = await receive()
            body: bytes = message.get("body", b"")
            received_bytes += len(body)
            if received_bytes > self._limit_bytes:
                raise BodyTooLargeError(self._limit_bytes)
            received_parts += sum(map(body.count, _MARKS))
            if received_parts > self._limit_parts:
                raise BodyOfTooManyPartsError(self._limit_parts)
            return message

        await self._app(scope, counted_receive, send)
