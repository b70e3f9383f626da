"""The body of an answer that is sent as it is made: it begins with its first bytes, and may give signs of life.

What fails before the first byte can still be told with a status of its own. What fails later leaves the body open:
whoever serves cuts the connection then, so that a part is not taken for the whole.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from starlette.types import Send

Header = tuple[bytes, bytes]


class StreamedBody:
    """Of one answer. `headers` may be added to until it has begun."""

    def __init__(self, send: Send, headers: Iterable[Header] = ()) -> None:
        self.headers: list[Header] = list(headers)
        self.has_begun = False
        self._send = send
        self._lock = asyncio.Lock()
        self._sent_s = _now_s()

    async def begin(self) -> None:
        """Sends status and headers; the first piece does so too."""
        if not self.has_begun:
            self.has_begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": self.headers})

    async def send(self, data: bytes) -> None:
        """Returns when the client has room for more."""
        async with self._lock:
            await self._write(data)

    async def end(self, data: bytes = b"") -> None:
        """The last bytes, if there are any."""
        await self.begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    @asynccontextmanager
    async def beating(self, sign: Callable[[], bytes], every_s: float) -> AsyncGenerator[None]:
        """While the block runs, a sign of life whenever nothing was sent for so long."""
        beating = asyncio.create_task(self._beat(sign, every_s), name="signs of life")
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait((beating,))
        if not beating.cancelled():
            beating.result()  # it could not send, and nobody has heard of it

    async def _beat(self, sign: Callable[[], bytes], every_s: float) -> None:
        while True:
            await asyncio.sleep(self._sent_s + every_s - _now_s())
            async with self._lock:  # what is on its way to a slow client is a sign of life, too
                if _now_s() >= self._sent_s + every_s:
                    await self._write(sign())

    async def _write(self, data: bytes) -> None:
        await self.begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._sent_s = _now_s()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
