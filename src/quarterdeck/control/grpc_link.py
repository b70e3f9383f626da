"""A connection over gRPC: one bidirectional stream of envelopes, the same object on both ends.

The stream carries bytes, and the codec is called here: what cannot be read is the peer's fault and must be told from a
broken connection, which gRPC's own deserialisers do not allow. One task writes and one reads, as gRPC demands.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import grpc.aio

from quarterdeck.control.codec import decode, encode
from quarterdeck.control.link import Envelope, LinkClosedError

ValueT = TypeVar("ValueT")

METHOD = "/quarterdeck.control.v1.Control/Converse"
SERVICE = "quarterdeck.control.v1.Control"


class Stream(Protocol):
    """What a gRPC call on the client and its context on the server have in common."""

    def read(self) -> Awaitable[Any]: ...

    def write(self, message: bytes, /) -> Awaitable[None]: ...


class GrpcLink:
    """One call. `on_close` ends it, in whatever way its side of the call has."""

    def __init__(self, stream: Stream, peer: str, on_close: Callable[[], None]) -> None:
        self._stream = stream
        self._peer = peer
        self._on_close = on_close
        self._closed = False
        self._why = ""
        self._reading: asyncio.Task[Any] | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def closed(self) -> bool:
        return self._closed

    async def send(self, envelope: Envelope) -> None:
        self._writing = asyncio.create_task(self._write(encode(envelope)), name=f"write to {self._peer}")
        await self._until_closed(self._writing)

    async def receive(self) -> Envelope:
        self._reading = asyncio.create_task(self._read(), name=f"read from {self._peer}")
        data = await self._until_closed(self._reading)
        if not isinstance(data, bytes):
            raise LinkClosedError("closed by the peer")
        return decode(data)

    def close(self) -> None:
        self.end("closed by us")

    def end(self, why: str) -> None:
        """Closes it; whoever reads or writes hears why."""
        if self._closed:
            return
        self._closed = True
        self._why = why
        for task in (self._reading, self._writing):
            if task is not None:
                task.cancel()
        self._on_close()

    async def _until_closed(self, task: "asyncio.Task[ValueT]") -> ValueT:
        """Waits for a read or a write; our own `close` ends it as the peer's would."""
        if self._closed:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed and task.cancelled():
                raise LinkClosedError(self._why) from None
            task.cancel()
            raise
        except grpc.aio.AioRpcError as error:
            raise LinkClosedError(describe(error)) from None
        except (grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            # How grpc.aio says that the call ended between two of our operations.
            raise LinkClosedError(f"the call has ended: {error}") from None

    async def _read(self) -> object:
        return await self._stream.read()

    async def _write(self, data: bytes) -> None:
        await self._stream.write(data)


def describe(error: grpc.aio.AioRpcError) -> str:
    """Why a call failed, in one line."""
    details = (error.details() or "no details").replace("\n", " ")
    return f"{error.code().name.lower()}: {details}"
