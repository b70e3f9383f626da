"""Serves artifacts over HTTP: a raw ASGI application for GET and HEAD below `/artifacts/`, with one range of bytes.

A small file is read and sent in one go. A large one goes in pieces, each read in a thread when the client has taken the
one before, so a slow client costs memory for one piece; meanwhile the file is pinned in the disk budget. A client that
goes away, or takes nothing for too long, ends it. Who may ask is decided in front of it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack, suppress
from typing import Any, Final, TypeAlias

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.format import CONTENT_TYPE, PATH_PREFIX
from quarterdeck.crew.artifacts.ranges import ByteRange, UnsatisfiableRangeError, requested_range
from quarterdeck.crew.artifacts.spool import ArtifactSpool, SpooledFile
from quarterdeck.http.clientgone import ClientGoneError, run_while_connected
from quarterdeck.http.errors import send_error
from quarterdeck.stores.threads import in_thread

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_SMALL_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 256 * 1024
_CONTENT_TYPE: Final = (b"content-type", CONTENT_TYPE.encode())
_ACCEPT_RANGES: Final = (b"accept-ranges", b"bytes")
_CONDITIONS: Final = frozenset({b"range", b"if-range", b"if-none-match"})

_GONE: Final = QuarterdeckError(
    ErrorCode.NOT_FOUND,
    "the artifact was not sent",
    "there is none of that name, or not any more",
    "have the work done again",
)
_OTHER_METHOD: Final = QuarterdeckError(
    ErrorCode.INVALID_ARGUMENT, "the artifact was not sent", "it can only be read", "use GET or HEAD"
)
_NO_SUCH_RANGE: Final = QuarterdeckError(
    ErrorCode.INVALID_ARGUMENT,
    "the artifact was not sent",
    "the range begins behind its end",
    "ask for bytes that it has",
)


class ArtifactRoute:
    """The ASGI application. `sent_bytes` is what it has given to the network, of transfers that broke off too."""

    def __init__(self, spool: ArtifactSpool, *, stall_timeout_s: float = 60.0) -> None:
        """`stall_timeout_s` is how long a client may take nothing at all: longer is kinder to a bad network, and lets
        a dead client hold a large file on the disk for as long."""
        self.sent_bytes = 0
        self._spool = spool
        self._stall_timeout_s = stall_timeout_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"artifacts are served over HTTP, not {scope['type']}")
        method: str = scope["method"]
        if method not in {"GET", "HEAD"}:
            await send_error(send, _OTHER_METHOD, 405, [("allow", "GET, HEAD")])
            return
        path: str = scope["path"]
        file = self._spool.find(path[len(PATH_PREFIX) :]) if path.startswith(PATH_PREFIX) else None
        if file is None:
            await send_error(send, _GONE)
            return
        asked = {name: value for name, value in scope["headers"] if name in _CONDITIONS}
        await self._serve(file, method, asked, receive, send)

    async def _serve(
        self, file: SpooledFile, method: str, asked: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        etag = b'"%s"' % file.checksum.encode()
        if _matches(asked.get(b"if-none-match"), etag):
            await _send_head(send, 304, [(b"etag", etag)])
            await _send_body(send, b"")
            return
        headers = [_CONTENT_TYPE, _ACCEPT_RANGES, (b"etag", etag)]
        part, status = ByteRange(0, file.size_bytes), 200
        if method == "GET" and b"range" in asked and asked.get(b"if-range", etag) == etag:
            try:
                wanted = requested_range(asked[b"range"], file.size_bytes)
            except UnsatisfiableRangeError:
                await send_error(send, _NO_SUCH_RANGE, 416, [("content-range", f"bytes */{file.size_bytes}")])
                return
            if wanted is not None:
                part, status = wanted, 206
                headers.append((b"content-range", part.content_range(file.size_bytes)))
        headers.append((b"content-length", b"%d" % part.length))
        if method == "HEAD":
            await _send_head(send, status, headers)
            await _send_body(send, b"")
        elif part.length <= _SMALL_BYTES:
            await self._send_small(file, part, status, headers, send)
        else:
            with suppress(ClientGoneError):
                await run_while_connected(receive, self._send_large(file, part, status, headers, send))

    async def _send_small(self, file: SpooledFile, part: ByteRange, status: int, headers: Headers, send: Send) -> None:
        body = _small_body(file, part)
        if body is None:
            await send_error(send, _GONE)
            return
        await _send_head(send, status, headers)
        await _send_body(send, body)
        self.sent_bytes += len(body)

    async def _send_large(self, file: SpooledFile, part: ByteRange, status: int, headers: Headers, send: Send) -> None:
        reading = _Reading(self._spool, file)
        try:
            if not await in_thread(reading.open):
                await send_error(send, _GONE)
                return
            await _send_head(send, status, headers)
            at, end = part.start, part.start + part.length
            while at < end:
                piece = await in_thread(lambda: reading.read(at, min(_PIECE_BYTES, end - at)))  # noqa: B023 - awaited
                at += len(piece)
                async with asyncio.timeout(self._stall_timeout_s):
                    await _send_body(send, piece, more=at < end)
                self.sent_bytes += len(piece)
        finally:
            await in_thread(reading.close)


class _Reading:
    """A file of the spool while it is read. Its methods run in threads, one at a time."""

    def __init__(self, spool: ArtifactSpool, file: SpooledFile) -> None:
        self._spool = spool
        self._file = file
        self._held = ExitStack()
        self._descriptor = -1

    def open(self) -> bool:
        """Whether the file is still there; from now on it stays."""
        try:
            path = self._held.enter_context(self._spool.budget.pinned(self._file.name))
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (KeyError, FileNotFoundError):
            return False
        self._held.callback(os.close, self._descriptor)
        return True

    def read(self, at: int, length: int) -> bytes:
        return _read_whole(self._descriptor, at, length, self._file)

    def close(self) -> None:
        self._held.close()


def _small_body(file: SpooledFile, part: ByteRange) -> bytes | None:
    """Without a thread: a file just written is still in memory, and read before a thread would have woken up."""
    if file.data is not None:
        return file.data[part.start : part.start + part.length]
    assert file.path is not None
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _read_whole(descriptor, part.start, part.length, file)
    finally:
        os.close(descriptor)


def _read_whole(descriptor: int, at: int, length: int, file: SpooledFile) -> bytes:
    data = os.pread(descriptor, length, at)
    if len(data) != length:
        raise RuntimeError(f"artifact {file.name} of {file.attempt} has {at + len(data)} bytes, not {file.size_bytes}")
    return data


def _matches(condition: bytes | None, etag: bytes) -> bool:
    if condition is None:
        return False
    tags = [tag.strip().removeprefix(b"W/") for tag in condition.split(b",")]
    return etag in tags or tags == [b"*"]


async def _send_head(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_body(send: Send, body: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
