"""The doors of a process: its HTTP server, its control port, the peers it dials, and a count of who was turned away.

Both processes have the same ones; what is behind them is their own.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.types import ASGIApp

from quarterdeck.control.credentials import channel_credentials
from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.discovery import Discovery, DnsDiscovery, StaticDiscovery, follow, split_address
from quarterdeck.control.link import Link, LinkClosedError, NotAdmittedError
from quarterdeck.control.redial import keep_connected
from quarterdeck.control.server import ControlServer
from quarterdeck.core.backoff import Backoff
from quarterdeck.crew.observers.journal import log_trouble
from quarterdeck.crew.process.dial_trouble import DialTrouble
from quarterdeck.crew.process.guard import Guard
from quarterdeck.crew.process.lifecycle import StopSignals, end_task, stop_if_broken
from quarterdeck.crew.process.pages import application
from quarterdeck.http.connection import HttpLimits
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.http.server import HttpServer
from quarterdeck.http.stalls import StallFigures, StallWatch, Watched
from quarterdeck.security.credentials import NotShownError
from quarterdeck.security.local_processes import ANNOUNCE_S
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import Rejection

_log = get_logger(__name__)
_CLOSE_S = 1.0
"""How long requests may go on when the process ends."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Whom to dial, and how often to try."""

    what: str
    """What they are, for people."""
    addresses: Sequence[str]
    dns: str | None
    """A name that stands for all of them."""
    lookup_interval_s: float
    backoff: Backoff

    def discoveries(self) -> list[Discovery]:
        found: list[Discovery] = [StaticDiscovery(frozenset(self.addresses))] if self.addresses else []
        if self.dns is not None:
            found.append(DnsDiscovery(*split_address(self.dns)))
        return found


class Doors:
    """What is opened is closed with the stack that it is given."""

    def __init__(self, guard: Guard, limits: HttpLimits | None = None) -> None:
        self._guard = guard
        self._limits = limits
        self._rejected_requests = 0
        self._stalls = StallWatch()
        self.dial_trouble = DialTrouble(log_trouble, time.monotonic)
        self.http: HttpServer | None = None
        self.control: ControlServer | None = None

    async def open_http(
        self,
        stack: AsyncExitStack,
        address: tuple[str, int],
        title: str,
        sources: MonitorSources,
        *,
        routers: Iterable[APIRouter] = (),
        raw: dict[str, ASGIApp] | None = None,
        reading_prefixes: tuple[str, ...] = (),
    ) -> HttpServer:
        """`reading_prefixes` are where paths begin that only read: on loopback they need no token."""
        rules = self._guard.rules(address[0], reading_prefixes)
        app = application(title, sources, rules, routers=routers, raw=raw, on_rejected=self._reject)
        stack.enter_context(self._stalls)
        watched = Watched(app, tuple(raw or ()))
        http = self.http = HttpServer(watched, *address, self._guard.server_context, self._limits)
        await http.start()
        self._announce(stack, address[0], http.port)
        stack.push_async_callback(http.stop, _CLOSE_S)
        return http

    async def open_control(
        self, stack: AsyncExitStack, address: tuple[str, int], serve: Callable[[Link], Awaitable[object]]
    ) -> ControlServer:
        server = ControlServer(serve, tls=self._guard.tls, admits=self._guard.admits)
        self.control = server
        await server.start(*address)
        self._announce(stack, address[0], server.port)
        stack.push_async_callback(server.stop)
        return server

    async def dial(
        self,
        stack: AsyncExitStack,
        name: str,
        peers: Peers,
        serve: Callable[[Link], Awaitable[bool]],
        signals: StopSignals,
        on_turned_away: Callable[[], None],
    ) -> None:
        """Keeps connected with each of the peers, as long as it is listed."""
        discoveries = peers.discoveries()
        if not discoveries:
            return
        self._guard.check_dialling(split_address(address) for address in (*peers.addresses, *filter(None, [peers.dns])))
        tls, trouble = self._guard.tls, self.dial_trouble
        context = None if tls is None else tls.control_context()
        dialer = GrpcDialer(Identity(name, self._shown_to), credentials=channel_credentials(tls), context=context)
        stack.push_async_callback(dialer.close)

        async def connect(address: str) -> None:
            async def connected(link: Link) -> bool:
                trouble.over(address)
                return await serve(link)

            try:
                await keep_connected(dialer, address, connected, peers.backoff, random, failed)
            finally:
                trouble.over(address)

        def failed(address: str, error: LinkClosedError) -> None:
            trouble.met(address, str(error))
            if isinstance(error, NotAdmittedError):
                on_turned_away()

        def lookup_failed(error: OSError) -> None:
            _log.warning(f"{peers.what} could not be looked up", reason=str(error))

        following = asyncio.create_task(
            follow(discoveries, connect, peers.lookup_interval_s, lookup_failed), name=f"follow {peers.what}"
        )
        following.add_done_callback(lambda done: stop_if_broken(done, signals))
        stack.push_async_callback(end_task, following)

    def _announce(self, stack: AsyncExitStack, host: str, port: int) -> None:
        self._guard.announce([(host, port)])
        stack.callback(self._guard.withdraw, [(host, port)])
        announcing = asyncio.create_task(self._keep_announced(host, port), name=f"announce port {port}")
        stack.push_async_callback(end_task, announcing)

    async def _keep_announced(self, host: str, port: int) -> None:
        while True:
            await asyncio.sleep(ANNOUNCE_S)
            await asyncio.to_thread(self._guard.announce, [(host, port)], again=True)

    def _shown_to(self, address: str) -> str | None:
        """What goes with a call of a control port."""
        try:
            host, port = split_address(address)
            return self._guard.credentials.authorization_for(host, port, encrypted=self._guard.tls is not None)
        except NotShownError as error:
            raise LinkClosedError(error.message) from error

    def rejections(self) -> Mapping[Rejection, int]:
        control = self.control.counters if self.control is not None else Counter[str]()
        return {
            Rejection.HTTP_TOKEN: self._rejected_requests,
            Rejection.HTTP_HANDSHAKE: 0 if self.http is None else self.http.failed_handshakes,
            Rejection.HTTP_CONNECTIONS: 0 if self.http is None else self.http.room.table.refused,
            Rejection.HTTP_BODIES: 0 if self.http is None else self.http.room.bodies.refused,
            Rejection.HTTP_SLOW: 0 if self.http is None else self.http.room.slow,
            Rejection.CONTROL_HANDSHAKE: 0 if self.control is None else self.control.failed_handshakes,
            Rejection.CONTROL_TOKEN: control["wrong_token"],
            Rejection.CONTROL_PROTOCOL: control["wrong_protocol"],
        }

    def stalls(self) -> Mapping[str, StallFigures]:
        """By route: how often and how long the event loop stood still."""
        return self._stalls.figures

    def _reject(self) -> None:
        self._rejected_requests += 1
