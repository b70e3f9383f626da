"""Dials a peer's control port. Each connection has a channel of its own, which ends with it."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import grpc.aio

from quarterdeck.control.diagnosis import why_not_connected
from quarterdeck.control.grpc_link import METHOD, GrpcLink, why_ended
from quarterdeck.control.link import Link, LinkClosedError, NotAdmittedError
from quarterdeck.control.options import (
    METADATA_ADMITTED,
    METADATA_IDENTITY,
    METADATA_PROTOCOL,
    METADATA_TOKEN,
    PROTOCOL,
    Keepalive,
    client_options,
)

_CONNECT_S = 5.0
_NEXT_STEPS = {
    grpc.StatusCode.UNAUTHENTICATED: "; give this process the crew's token: token_file or token in its settings, or "
    "QUARTERDECK_TOKEN",
    grpc.StatusCode.UNIMPLEMENTED: "; check host and port: it is not a control port of Quarterdeck",
}
_PART_S = 1.0
"""How long an ended conversation waits for the peer to have read its last words."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What we say of ourselves when we call."""

    name: str
    """Who calls; with the same name later it is the same process, or the one that replaced it."""
    authorization_for: Callable[[str], str | None] = lambda _: None
    """What goes with a call of an address as its `authorization`; None where there is nothing to show. May raise
    `LinkClosedError` for an address that may not be called."""


class GrpcDialer:
    def __init__(
        self,
        identity: Identity,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        context: ssl.SSLContext | None = None,
        keepalive: Keepalive | None = None,
    ) -> None:
        """`context` says the same as `credentials`, for the look at what is in the way."""
        self._metadata: list[tuple[str, str]] = [
            (METADATA_PROTOCOL, PROTOCOL),
            (METADATA_IDENTITY, identity.name),
        ]
        self._authorization_for = identity.authorization_for
        self._credentials = credentials
        self._context = context
        self._options = client_options(keepalive or Keepalive())
        self._partings: set[asyncio.Task[None]] = set()

    async def dial(self, address: str) -> Link:
        authorization = self._authorization_for(address)
        shown = [] if authorization is None else [(METADATA_TOKEN, authorization)]
        channel = self._channel(address)
        try:
            await self._connect(channel, address)
            converse: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
            call = converse(metadata=grpc.aio.Metadata(*self._metadata, *shown))
            await _be_admitted(call, address)
        except BaseException:
            await channel.close()
            raise
        link = GrpcLink(call, address, lambda: self._part(link, call, channel))
        return link

    async def close(self) -> None:
        """Waits for the last words of connections that have just ended."""
        while self._partings:
            await asyncio.wait(list(self._partings))

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=self._options)
        return grpc.aio.secure_channel(address, self._credentials, options=self._options)

    async def _connect(self, channel: grpc.aio.Channel, address: str) -> None:
        if await _is_connected(channel, address):
            return
        if self._credentials is not None and self._context is None:
            raise LinkClosedError(f"{address} cannot be connected to, or does not accept us")
        raise LinkClosedError(f"{address} cannot be dialled: {await why_not_connected(address, self._context)}")

    def _part(self, link: GrpcLink, call: "grpc.aio.StreamStreamCall[bytes, bytes]", channel: grpc.aio.Channel) -> None:
        task = asyncio.create_task(_end_call(link, call, channel), name="end of a control stream")
        self._partings.add(task)
        task.add_done_callback(self._partings.discard)


async def _is_connected(channel: grpc.aio.Channel, address: str) -> bool:
    """Waits until it is connected, or has failed to once: when to try again is not for gRPC to say."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
                    return False
                await channel.wait_for_state_change(state)
            return True
    except TimeoutError:
        raise LinkClosedError(
            f"{address} did not answer within {_CONNECT_S:g} s; check host and port, and whether a firewall is between"
        ) from None


async def _be_admitted(call: "grpc.aio.StreamStreamCall[bytes, bytes]", address: str) -> None:
    """Waits for the peer's word that it takes the call. To write before that would hide why it does not: gRPC makes
    an error of its own of a call that ends in the moment of a write."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            admitted = await call.initial_metadata()
            if METADATA_ADMITTED not in admitted:
                raise _not_admitted(address, await call.code(), await call.details())
    except TimeoutError:
        raise NotAdmittedError(
            f"{address} did not answer the call within {_CONNECT_S:g} s; see whether it is stopped or overloaded"
        ) from None
    except grpc.aio.AioRpcError as error:
        raise _not_admitted(address, error.code(), error.details()) from None


def _not_admitted(address: str, code: grpc.StatusCode, details: str | None) -> NotAdmittedError:
    next_step = _NEXT_STEPS.get(code, "")
    return NotAdmittedError(f"{address} did not let us in: {why_ended(code, details)}{next_step}")


async def _end_call(link: GrpcLink, call: "grpc.aio.StreamStreamCall[bytes, bytes]", channel: grpc.aio.Channel) -> None:
    """Says that nothing follows, and waits for the peer to end it too: canceled at once, last words would be lost."""
    try:
        async with asyncio.timeout(_PART_S):
            await link.wait_written()
            await call.done_writing()
            await link.wait_peer_ended()
    except (TimeoutError, grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.CancelledError):
        pass
    finally:
        link.let_go()
        await channel.close()  # cancels the call
