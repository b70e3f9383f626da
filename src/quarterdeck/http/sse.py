"""Server-sent events: frames are sent as they come, and a sign of life whenever there was nothing to send for a while.

It knows no frames: what is sent, and what the sign looks like, is said by who answers.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Send

CONTENT_TYPE: Final = "text/event-stream"
HEADERS: Final = (
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would gather frames until its buffer is full
)


class EventStream:
    """A response that has begun. Made by `event_stream`."""

    def __init__(self, send: Send, heartbeat: bytes, heartbeat_s: float) -> None:
        self._send = send
        self._heartbeat = heartbeat
        self._heartbeat_s = heartbeat_s
        self._lock = asyncio.Lock()
        self._sent_s = _now_s()

    async def send(self, frames: bytes) -> None:
        """Whole frames. Returns when the client has room for more."""
        async with self._lock:
            await self._write(frames)

    async def beat(self) -> None:
        """For ever: a sign of life whenever nothing was sent for as long as one may take."""
        while True:
            await asyncio.sleep(self._sent_s + self._heartbeat_s - _now_s())
            async with self._lock:  # frames that are on their way to a slow client are a sign of life, too
                if _now_s() >= self._sent_s + self._heartbeat_s:
                    await self._write(self._heartbeat)

    async def _write(self, frames: bytes) -> None:
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})
        self._sent_s = _now_s()


@asynccontextmanager
async def event_stream(
    send: Send, heartbeat: bytes, heartbeat_s: float, headers: Iterable[tuple[bytes, bytes]] = ()
) -> AsyncGenerator[EventStream]:
    """Begins the response, and ends it after the block. A block that raises leaves it open: whoever serves cuts the
    connection then, so that a part is not taken for the whole."""
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *headers]})
    stream = EventStream(send, heartbeat, heartbeat_s)
    beating = asyncio.create_task(stream.beat(), name="signs of life")
    try:
        yield stream
    finally:
        beating.cancel()
        await asyncio.wait((beating,))
    if not beating.cancelled():
        beating.result()  # it could not send, and nobody has heard of it
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _now_s() -> float:
    return asyncio.get_running_loop().time()
