"""`ConnectionTable`: how many connections there are, in total and for each client, and which of them could be closed.

A connection waits while its client owes us something: the rest of a TLS handshake, of a head or of a body, or the next
request. It is being answered while we owe something, such as a registration that is held open for minutes. Only
connections that wait are limited by address: thousands of workers behind one address register, and each of them is
answered.

Over its limit, an address loses the connection that has waited longest, if that is longer than a moment: a crowd that
comes all at once is not an attack. If there are too many in total, the one that has waited longest for another request
is closed, whoever's it is; if there is none, the newcomer is.
"""

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol

PATIENCE_S: Final = 1.0
"""How long a connection may wait before it can be closed for a newcomer."""


class Held(Protocol):
    """A connection, as far as the table cares."""

    address: str

    def hang_up(self) -> None:
        """Closes it; the table is told when it is gone."""
        ...


class ConnectionTable:
    """Used on one event loop, or under one virtual clock."""

    def __init__(self, most: int, most_waiting_of_one: int, now_s: Callable[[], float]) -> None:
        self._most = most
        self._most_waiting_of_one = most_waiting_of_one
        self._now_s = now_s
        self._open = 0
        self._waiting: dict[str, dict[Held, float]] = {}
        """By address, each since when; the one that has waited longest first."""
        self._idle: dict[Held, None] = {}
        """Those of them that wait for another request, the longest first."""
        self.refused = 0
        """Connections that were turned away, or closed to make room."""

    def __len__(self) -> int:
        return self._open

    def waiting_of(self, address: str) -> int:
        """Of one client."""
        return len(self._waiting.get(address, ()))

    def may_open(self) -> bool:
        """Whether there is room for another one, which is asked before it is made."""
        if self._open < self._most:
            return True
        longest = next(iter(self._idle), None)
        self.refused += 1
        if longest is None:
            return False
        self._close(longest)
        return True

    def opened(self, connection: Held) -> None:
        """It is there, and its first request is waited for."""
        self._open += 1
        self._wait(connection)

    def waits(self, connection: Held, *, is_idle: bool = True) -> None:
        """It was answered: its next request is waited for, or the rest of it."""
        self._wait(connection)
        if is_idle:
            self._idle[connection] = None

    def is_asking(self, connection: Held) -> None:
        """The first bytes of a request have come: it is not idle, and waits as long as it did."""
        self._idle.pop(connection, None)

    def is_answered(self, connection: Held) -> None:
        """A whole request has come."""
        self._forget(connection)

    def closed(self, connection: Held) -> None:
        """It is gone."""
        self._forget(connection)
        self._open -= 1

    def _wait(self, connection: Held) -> None:
        same = self._waiting.get(connection.address)
        if same is None:
            same = self._waiting[connection.address] = {}
        same.pop(connection, None)
        same[connection] = self._now_s()
        if len(same) > self._most_waiting_of_one:
            longest, since_s = next(iter(same.items()))
            if self._now_s() - since_s > PATIENCE_S:
                self.refused += 1
                self._close(longest)

    def _close(self, connection: Held) -> None:
        self._forget(connection)
        connection.hang_up()

    def _forget(self, connection: Held) -> None:
        self._idle.pop(connection, None)
        same = self._waiting.get(connection.address)
        if same is not None:
            same.pop(connection, None)
            if not same:
                del self._waiting[connection.address]


def address_of(peer: tuple[Any, ...] | None) -> str:
    """The client's, of what a socket says of it."""
    return _network(str(peer[0])) if peer else ""


@lru_cache(maxsize=4096)
def _network(host: str) -> str:
    """Whose connection it is: an address of IPv4, or the network of 64 bits that a client of IPv6 has to itself.

    >>> _network("127.0.0.1"), _network("::ffff:127.0.0.1"), _network("2001:db8::1:2")
    ('127.0.0.1', '127.0.0.1', '2001:db8::')
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))
