"""Whom to dial: a fixed list, a name that DNS resolves, or anything else that can list addresses."""

import asyncio
import re
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
        try:
            found = await loop.getaddrinfo(self.name, self.port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            # How Python says that a part of a name is empty or too long, before it asks anybody.
            raise OSError(f"{self.name!r} cannot be a name: {error}") from None
        return frozenset(join_address(str(address[0]), self.port) for *_, address in found)


_ADDRESS = re.compile(r"(?:\[(?P<v6>[^][/\s]*:[^][/\s]*)\]|(?P<host>[^][:/\s]+)):(?P<port>[0-9]{1,5})")


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`, taken apart; an error that says what is allowed."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{address!r} is not an address",
            "it must be a host and a port",
            "write it as worker-1.example:7071, 10.0.0.7:7071 or [fd00::7]:7071",
        )
    return match["v6"] or match["host"], int(match["port"])


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def follow(
    discoveries: Sequence[Discovery],
    connect: Callable[[str], Awaitable[None]],
    interval_s: float,
    on_trouble: Callable[[OSError], None],
) -> None:
    """Runs `connect` for each address for as long as it is listed. Ends when it is canceled, or when one breaks.

    An address that can no longer be looked up is kept: that the name service is down says nothing about its names.
    """
    connections: dict[str, asyncio.Task[None]] = {}
    listed: dict[int, frozenset[str]] = {}
    try:
        while True:
            wanted = await _look_up(discoveries, listed, on_trouble)
            await _end(connections, [address for address in connections if address not in wanted])
            for address in wanted - connections.keys():
                connections[address] = asyncio.create_task(_run(connect, address), name=f"connection to {address}")
            await _watch(connections, interval_s)
    finally:
        await _end(connections, list(connections))


async def _look_up(
    discoveries: Sequence[Discovery], listed: dict[int, frozenset[str]], on_trouble: Callable[[OSError], None]
) -> frozenset[str]:
    """What is listed now; for each that cannot say, what it said last."""
    for number, discovery in enumerate(discoveries):
        try:
            listed[number] = await discovery.addresses()
        except OSError as error:
            on_trouble(error)
    return frozenset[str]().union(*listed.values())


async def _watch(connections: dict[str, asyncio.Task[None]], interval_s: float) -> None:
    """Lets time pass. One that breaks is raised at once; one that ended by itself is forgotten, to be made again."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + interval_s
    if connections:
        await asyncio.wait(connections.values(), timeout=interval_s, return_when=asyncio.FIRST_EXCEPTION)
    for address, task in list(connections.items()):
        if task.done():
            del connections[address]
            if not task.cancelled():
                task.result()
    await asyncio.sleep(until_s - loop.time())


async def _end(connections: dict[str, asyncio.Task[None]], addresses: Sequence[str]) -> None:
    """Ends some of them. They are ours until they have ended, also if we are canceled meanwhile."""
    for address in addresses:
        if not connections[address].cancelling():  # a second cancel would interrupt what it does at its end
            connections[address].cancel()
    if addresses:
        await asyncio.wait([connections[address] for address in addresses])
    for address in addresses:
        del connections[address]


async def _run(connect: Callable[[str], Awaitable[None]], address: str) -> None:
    await connect(address)
