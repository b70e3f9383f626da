"""A connection over gRPC: one bidirectional stream of envelopes, the same object on both ends.

The stream carries bytes, and the codec is called here. Bytes that cannot be read are the peer's fault, and must be told
apart from a broken connection; gRPC's own deserialisers do not allow that. One write and one read run at a time, as
gRPC demands. A close ends the waiting for them, but not the calls themselves: on the side that dialled, gRPC takes a
canceled read for the end of the whole call, and what was written just before it would be lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from quarterdeck.control.codec import MAX_ENVELOPE_BYTES, decode, encode
from quarterdeck.control.link import Envelope, LinkClosedError

ValueT = TypeVar("ValueT")

METHOD = "/quarterdeck.control.v1.Control/Converse"
SERVICE = "quarterdeck.control.v1.Control"

_BROKE = "the connection broke"
_BY_PEER = "closed by the peer"


class Stream(Protocol):
    """What a gRPC call on the client and its context on the server have in common."""

    def read(self) -> Awaitable[Any]: ...

    def write(self, message: bytes, /) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True)
class _Over:
    """What a read or a write comes to when the call has ended, and why. An exception would hold on to the call."""

    why: str


class GrpcLink:
    """One call. `on_close` ends it, in whatever way its side of the call has, and has the link let go of it."""

    def __init__(self, stream: Stream, peer: str, on_close: Callable[[], None]) -> None:
        self._stream: Stream | None = stream
        self._peer = peer
        self._on_close: Callable[[], None] | None = on_close
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why, once it is closed."""
        self._reading: asyncio.Task[bytes | _Over] | None = None
        self._writing: asyncio.Task[_Over | None] | None = None

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def closed(self) -> bool:
        return self._ended.done()

    async def send(self, envelope: Envelope) -> None:
        if self._writing is not None:  # its sender was canceled, it was not: it comes first
            await self._until_closed(self._writing)
        stream = self._open_stream()
        data = encode(envelope)
        if len(data) > MAX_ENVELOPE_BYTES:  # gRPC would end the call without a word why
            raise LinkClosedError(f"our envelope has {len(data):,} bytes, and {MAX_ENVELOPE_BYTES:,} are allowed")
        self._writing = asyncio.create_task(_write(stream, data), name=f"write to {self._peer}")
        await self._until_closed(self._writing)
        self._writing = None

    async def receive(self) -> Envelope:
        stream = self._open_stream()
        if self._reading is None:
            self._reading = asyncio.create_task(_read(stream), name=f"read from {self._peer}")
        data = await self._until_closed(self._reading)
        self._reading = None
        return decode(data)

    def close(self) -> None:
        self.end("closed by us")

    def end(self, why: str) -> None:
        """Closes it; whoever reads or writes hears why."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            self._ended.set_result(why)
            on_close()

    # For whoever ends the call, after the close

    async def wait_written(self) -> None:
        """Waits until the last write is out."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    async def wait_peer_ended(self) -> None:
        """Reads on, for nobody, until the peer has nothing more to say."""
        while self._stream is not None:
            if self._reading is None:
                self._reading = asyncio.create_task(_read(self._stream), name=f"read from {self._peer}")
            if isinstance(await self._reading, _Over):
                return
            self._reading = None

    def let_go(self) -> None:
        """Gives up what is still under way, and the call: gRPC stays connected for as long as somebody holds it."""
        for task in (self._reading, self._writing):
            if task is not None:
                task.cancel()
        self._stream = self._reading = self._writing = None

    # Operations

    def _open_stream(self) -> Stream:
        if self._stream is None or self._ended.done():
            raise LinkClosedError(self._ended.result())
        return self._stream

    async def _until_closed(self, task: "asyncio.Task[ValueT | _Over]") -> ValueT:
        """Waits for a read or a write. One that is done counts, even if it is closed by now."""
        await asyncio.wait((task, self._ended), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise LinkClosedError(self._ended.result())
        if task.cancelled():
            raise LinkClosedError(self._ended.result() if self._ended.done() else _BROKE)
        outcome = task.result()
        if isinstance(outcome, _Over):
            raise LinkClosedError(outcome.why)
        return outcome


async def _read(stream: Stream) -> bytes | _Over:
    try:
        data = await stream.read()
    except grpc.aio.AioRpcError as error:
        return _Over(describe(error))
    except (grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError):
        # How grpc.aio says that the call ended between two of our operations.
        return _Over(_BROKE)
    return data if isinstance(data, bytes) else _Over(_BY_PEER)


async def _write(stream: Stream, data: bytes) -> _Over | None:
    try:
        await stream.write(data)
    except grpc.aio.AioRpcError as error:
        return _Over(describe(error))
    except (grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError):
        return _Over(await _why_over(stream))
    return None


async def _why_over(stream: Stream) -> str:
    """A write says only that the call is over. On the side that made the call, that knows more."""
    if not isinstance(stream, grpc.aio.Call) or not stream.done():
        return _BROKE
    code = await stream.code()
    return _BY_PEER if code is grpc.StatusCode.OK else why_ended(code, await stream.details())


def describe(error: grpc.aio.AioRpcError) -> str:
    """Why a call failed, in one line."""
    return why_ended(error.code(), error.details())


def why_ended(code: grpc.StatusCode, details: str | None) -> str:
    return f"{code.name.lower()}: {' '.join((details or 'no details').split())}"
