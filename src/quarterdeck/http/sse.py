"""Server-sent events: frames are sent as they come, and a heartbeat whenever nothing was sent for a while.

It knows no frames: the route says what is sent, and what the heartbeat looks like.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Send

from quarterdeck.http.streamed_body import StreamedBody

CONTENT_TYPE: Final = "text/event-stream"
HEADERS: Final = (
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would gather frames until its buffer is full
)


@asynccontextmanager
async def event_stream(
    send: Send,
    heartbeat: bytes,
    heartbeat_s: float,
    headers: Iterable[tuple[bytes, bytes]] = (),
    *,
    begin: bool = True,
) -> AsyncGenerator[StreamedBody]:
    """Begins the response, and ends it after the block. Without `begin` it begins with what is sent first, which may be
    a heartbeat: until then, what the block raises can still be an answer of its own. Later, if the block raises, the
    response stays open, and the server cuts the connection, so that nobody takes a part for the whole."""
    body = StreamedBody(send, (*HEADERS, *headers))
    if begin:
        await body.begin()
    async with body.beating(lambda: heartbeat, heartbeat_s):
        yield body
    await body.end()
