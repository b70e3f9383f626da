"""Listens for control streams. A caller must speak this protocol and, if a token is set, know it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import grpc
import grpc.aio

from quarterdeck.control.credentials import Handshakes, server_credentials
from quarterdeck.control.grpc_link import SERVICE, GrpcLink
from quarterdeck.control.link import Link
from quarterdeck.control.options import (
    METADATA_ADMITTED,
    METADATA_IDENTITY,
    METADATA_PROTOCOL,
    METADATA_TOKEN,
    PROTOCOL,
    Keepalive,
    server_options,
)
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.tls import TlsFiles

_STOP_S = 1.0


class ControlServer:
    """Gives each connection that comes in to `serve`, and ends it when that returns."""

    def __init__(
        self,
        serve: Callable[[Link], Awaitable[object]],
        *,
        tls: TlsFiles | None = None,
        admits: Callable[[str | None], bool] | None = None,
        keepalive: Keepalive | None = None,
    ) -> None:
        self._serve = serve
        self._handshakes = Handshakes()
        self._credentials = server_credentials(tls, self._handshakes)
        self._admits = admits
        self._server = grpc.aio.server(options=server_options(keepalive or Keepalive()))
        self._server.add_generic_rpc_handlers((_Handlers(self._converse),))
        self._links: dict[GrpcLink, asyncio.Future[object]] = {}
        """Each with who serves it."""
        self.port = 0
        self.counters: Counter[str] = Counter()

    @property
    def failed_handshakes(self) -> int:
        """Connections that did not come to TLS, as far as can be told."""
        return self._handshakes.failed

    async def start(self, host: str, port: int) -> None:
        """Listens; `port` 0 takes any that is free, and the attribute tells which."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._credentials is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, self._credentials)
        except RuntimeError as error:  # gRPC does not say which of the two it is
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"cannot listen on {address}",
                "another process has the port, or the address is not one of this machine's",
                "choose another port, or stop the process that has this one",
            ) from error
        await self._server.start()

    async def stop(self) -> None:
        """Ends all connections, and listens no more. Who still serves one after a while is canceled."""
        for link in list(self._links):
            link.close()
        await self._server.stop(_STOP_S)
        serving = list(self._links.values())
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)

    async def _converse(self, _: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        self._handshakes.called()
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        await self._check(metadata, context)
        await context.send_initial_metadata(((METADATA_ADMITTED, PROTOCOL),))
        link = GrpcLink(context, metadata.get(METADATA_IDENTITY) or context.peer(), lambda: None)
        serving = self._links[link] = asyncio.ensure_future(self._serve(link))
        try:
            await asyncio.shield(serving)
            await _until_written(link)
        except asyncio.CancelledError:
            # How gRPC says that the peer is gone. The conversation ends by itself when it hears so.
            link.end("the connection broke")
            await asyncio.wait((serving,))
            serving.result()  # what goes wrong in it is for gRPC's log, as it is while the peer is there
        finally:
            serving.cancel()  # when we were canceled a second time, while we waited for it
            link.close()
            link.let_go()
            del self._links[link]

    async def _check(self, metadata: dict[str, str], context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        if self._admits is not None and not self._admits(metadata.get(METADATA_TOKEN)):
            self.counters["wrong_token"] += 1
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or is not the crew's")
        theirs = metadata.get(METADATA_PROTOCOL)
        if theirs != PROTOCOL:
            self.counters["wrong_protocol"] += 1
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"this process speaks version {PROTOCOL} of the control protocol, the caller {theirs or 'none'}; "
                "run the same release on both",
            )


async def _until_written(link: GrpcLink) -> None:
    """gRPC cannot say goodbye while a write is under way, and takes the attempt for an error."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await link.wait_written()


class _Handlers(grpc.GenericRpcHandler):
    """The one method of the service, with bytes in and out."""

    def __init__(self, converse: Callable[..., Awaitable[None]]) -> None:
        self._handler = grpc.method_handlers_generic_handler(
            SERVICE,
            {"Converse": grpc.stream_stream_rpc_method_handler(converse)},  # pyright: ignore[reportArgumentType] - typed for the synchronous server
        )

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._handler.service(handler_call_details)
