"""Whom to dial: a fixed list, a name that DNS resolves, or anything else that can list addresses."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError


class Discovery(Protocol):
    async def addresses(self) -> frozenset[str]:
        """All that there are now, as host:port; raises `OSError` when it cannot be found out."""
        ...


@dataclass(frozen=True, slots=True)
class StaticDiscovery:
    """Addresses that were written down."""

    listed: frozenset[str]

    async def addresses(self) -> frozenset[str]:
        return self.listed


@dataclass(frozen=True, slots=True)
class DnsDiscovery:
    """Every address that a name has, all with one port: a headless service, for example."""

    name: str
    port: int

    async def addresses(self) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.name, self.port, type=socket.SOCK_STREAM)
        return frozenset(join_address(str(address[0]), self.port) for *_, address in found)


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`, taken apart; an error that says what is allowed."""
    host, colon, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not port.isdecimal() or not 0 <= int(port) < 65536 or (":" in bare and bare == host):
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{address!r} is not an address",
            "it must be a host and a port",
            "write it as worker-1.example:7071, 10.0.0.7:7071 or [fd00::7]:7071",
        )
    return bare, int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def follow(
    discoveries: Sequence[Discovery],
    connect: Callable[[str], Awaitable[None]],
    interval_s: float,
    on_trouble: Callable[[OSError], None],
) -> None:
    """Runs `connect` for each address for as long as it is listed. Ends when it is canceled.

    An address that can no longer be looked up is kept: that the name service is down says nothing about its names.
    """
    connections: dict[str, asyncio.Task[None]] = {}
    try:
        while True:
            wanted = await _look_up(discoveries, on_trouble)
            if wanted is not None:
                await _let_go(connections, wanted)
                for address in wanted - connections.keys():
                    connections[address] = asyncio.create_task(_run(connect, address), name=f"connection to {address}")
            await asyncio.sleep(interval_s)
    finally:
        await _let_go(connections, frozenset())


async def _look_up(discoveries: Sequence[Discovery], on_trouble: Callable[[OSError], None]) -> frozenset[str] | None:
    found: set[str] = set()
    try:
        for discovery in discoveries:
            found |= await discovery.addresses()
    except OSError as error:
        on_trouble(error)
        return None
    return frozenset(found)


async def _let_go(connections: dict[str, asyncio.Task[None]], wanted: frozenset[str]) -> None:
    gone = [connections.pop(address) for address in list(connections) if address not in wanted]
    for task in gone:
        task.cancel()
    if gone:
        await asyncio.wait(gone)


async def _run(connect: Callable[[str], Awaitable[None]], address: str) -> None:
    await connect(address)
