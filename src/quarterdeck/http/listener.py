"""One listening socket: it opens with helpful errors, and turns what it accepts into connections.

It accepts by itself instead of using `loop.create_server`. That one does not let go of a connection during its TLS
handshake: such a connection would outlive the server.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.connections import ConnectionTable, address_of

_LOG: Final = logging.getLogger(__name__)
_HIGHEST_PORT: Final = 65535
_BACKLOG: Final = 1024
_BATCH: Final = 64
"""How many connections are accepted in one turn of the event loop, so that a flood does not stop everything else."""
_PAUSE_S: Final = 0.5
"""How long nothing is accepted after an error such as running out of file descriptors."""
_HANDSHAKE_TIMEOUT_S: Final = 10.0
_TLS_GOODBYE_S: Final = 2.0
"""How long a client may take to agree that a TLS connection ends."""


class Listener:
    """Make it with `open_listener`. `close` lets go of everything that has not become a connection."""

    def __init__(self, listening: socket.socket, table: ConnectionTable) -> None:
        self._listening = listening
        self._table = table
        self._make_protocol: Callable[[], asyncio.Protocol] = asyncio.Protocol
        self._ssl: ssl.SSLContext | None = None
        self._admissions: set[asyncio.Task[None]] = set()
        self._resuming: asyncio.TimerHandle | None = None
        self.failed_handshakes = 0
        self.port: Final = int(listening.getsockname()[1])

    def accept(self, make_protocol: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None) -> None:
        """Begin to accept."""
        self._make_protocol, self._ssl = make_protocol, context
        self._watch()

    async def close(self) -> None:
        """Accept no more. Handshakes that are not over are broken off."""
        self._unwatch()
        self._listening.close()
        if self._ssl is not None:
            # A task that was never begun would not let go of its socket; those made in this turn begin in the next.
            await asyncio.sleep(0)
            for task in self._admissions:
                task.cancel()
        # Without TLS there is no handshake to wait for: a connection is there a turn later, and its owner closes it.
        # To cancel one is a trap: uvloop then closes the socket and never tells the protocol.
        if self._admissions:
            await asyncio.wait(self._admissions)

    def _watch(self) -> None:
        self._resuming = None
        asyncio.get_running_loop().add_reader(self._listening, self._accept_waiting)

    def _unwatch(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None

    def _accept_waiting(self) -> None:
        for _ in range(_BATCH):
            try:
                accepted, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # nobody is waiting, or who was has gone; if more are, the loop calls again
            except OSError as error:
                _LOG.warning("cannot accept a connection: %s; trying again in %s s", error, _PAUSE_S)
                self._unwatch()
                self._resuming = asyncio.get_running_loop().call_later(_PAUSE_S, self._watch)
                return
            if not self._table.may_open():
                accepted.close()
                continue
            accepted.setblocking(False)
            task = asyncio.create_task(self._admit(accepted), name="admit an HTTP connection")
            self._admissions.add(task)
            task.add_done_callback(self._admissions.discard)
            if self._ssl is not None:
                self._count(Handshake(address_of(peer), task))

    def _count(self, handshake: "Handshake") -> None:
        """As a connection, which it is not yet. Without TLS there is one a turn of the loop later."""
        self._table.opened(handshake)
        handshake.task.add_done_callback(lambda _: self._table.closed(handshake))

    async def _admit(self, accepted: socket.socket) -> None:
        tls = self._ssl is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._ssl,
                ssl_handshake_timeout=_HANDSHAKE_TIMEOUT_S if tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_S if tls else None,
            )
        except OSError as error:  # which TLS errors and time limits are too
            self.failed_handshakes += 1
            _LOG.debug("a connection was not made: %r", error)


class Handshake:
    """A connection that is being made."""

    def __init__(self, address: str, task: "asyncio.Task[None]") -> None:
        self.address = address
        self.task = task

    def hang_up(self) -> None:
        self.task.cancel()


async def open_listener(host: str, port: int, table: ConnectionTable) -> Listener:
    """Bind and listen; see `open_socket`."""
    return Listener(await open_socket(host, port), table)


async def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says what to do. Port 0 takes a free one.

    A name with several addresses is bound at one of them, IPv4 first; `::` takes IPv4 connections too.
    """
    if not 0 <= port <= _HIGHEST_PORT:
        # The resolver would take it modulo 65536, and we would listen somewhere else.
        raise _refusal(host, port, ValueError(f"there are ports from 0 to {_HIGHEST_PORT}"))
    family, address = await _resolve(host, port)
    # With the protocol named: asyncio sets TCP_NODELAY only then, and without it each small answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setblocking(False)
        # So that a restarted process gets its port back while connections of the last one linger in the kernel.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _refusal(host, port, error) from error
    return listening


async def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host or "0.0.0.0",  # noqa: S104 - whether that may be is decided before, by security.exposure
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except (OSError, UnicodeError) as error:
        raise _refusal(host, port, error) from error
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, address


def _refusal(host: str, port: int, error: Exception) -> QuarterdeckError:
    what = f"cannot listen on {at_port(host, port)}"
    match error:
        case OSError(errno=errno.EADDRINUSE):
            why, step = (
                "another process listens there",
                f"stop that one (`ss -ltnp sport = :{port}`) or take another port",
            )
            return QuarterdeckError(ErrorCode.UNAVAILABLE, what, why, step)
        case OSError(errno=errno.EACCES):
            why, step = "this user may not use that port", "take a port of 1024 or above"
        case OSError(errno=errno.EADDRNOTAVAIL):
            why, step = "this machine has no such address", "use one that it has, such as 127.0.0.1"
        case socket.gaierror():
            why, step = (
                f"the name has no address ({error.strerror})",
                "use an address, or a name that this machine knows",
            )
        case OSError():
            why, step = error.strerror or str(error), "check address and port"
        case _:
            why, step = str(error), "check address and port"
    return QuarterdeckError(ErrorCode.INVALID_ARGUMENT, what, why, step)


def at_port(host: str, port: int) -> str:
    """Host and port as they stand in a URL.

    >>> at_port("::1", 7070)
    '[::1]:7070'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
