"""Whom to dial: what counts as an address, who lists them, and connections that follow the list."""

import asyncio
import re
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.control.discovery import (
    Discovery,
    DnsDiscovery,
    StaticDiscovery,
    follow,
    join_address,
    split_address,
)
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from tests.crew.played import now_s, played, settle

# Addresses


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("worker-1.example:7071", ("worker-1.example", 7071)),
        ("10.0.0.7:7071", ("10.0.0.7", 7071)),
        ("localhost:0", ("localhost", 0)),
        ("[fd00::7]:7071", ("fd00::7", 7071)),
        ("[::]:65535", ("::", 65535)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
    assert join_address(*parts) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":",
        ":7071",
        "worker",
        "worker:",
        "worker:http",
        "worker:-1",
        "worker:+1",
        "worker: 1",
        "worker:65536",
        "worker:" + "9" * 5000,
        "worker:\N{ARABIC-INDIC DIGIT SEVEN}",
        "fd00::7:7071",
        "::1",
        "[::1]",
        "[::1]7071",
        "[::1:7071",
        "::1]:7071",
        "[]:7071",
        "[worker]:7071",
        "[[::1]]:7071",
        "http://worker:7071",
        "wor ker:7071",
        " worker:7071",
        "worker:7071 ",
        "worker/x:7071",
    ],
)
def test_anything_else_is_refused_with_an_example_of_what_is_allowed(address: str) -> None:
    with pytest.raises(QuarterdeckError, match="is not an address") as caught:
        split_address(address)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "10.0.0.7:7071" in caught.value.next_step


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.text(alphabet="[]:.a1 ٣/", max_size=12))
def test_what_is_taken_apart_can_be_put_together_again(address: str) -> None:
    try:
        host, port = split_address(address)
    except QuarterdeckError:
        return
    assert split_address(join_address(host, port)) == (host, port)


# Who lists them


def test_a_static_list_says_what_was_written_down() -> None:
    listed = frozenset({"a:1", "b:2"})
    assert asyncio.run(StaticDiscovery(listed).addresses()) == listed


def test_a_name_is_every_address_that_it_has() -> None:
    found = asyncio.run(DnsDiscovery("localhost", 7071).addresses())
    assert "127.0.0.1:7071" in found
    assert found <= {"127.0.0.1:7071", "[::1]:7071"}


def test_an_address_stands_for_itself() -> None:
    assert asyncio.run(DnsDiscovery("::1", 7071).addresses()) == {"[::1]:7071"}


def test_a_name_that_nobody_has_is_an_oserror() -> None:
    with pytest.raises(socket.gaierror):
        asyncio.run(DnsDiscovery("no-such-host.invalid", 7071).addresses())


@pytest.mark.parametrize("name", ["x" * 64 + ".example", "a..b"])
def test_a_name_that_cannot_be_one_is_an_oserror_that_names_it(name: str) -> None:
    with pytest.raises(OSError, match=re.escape(repr(name))):
        asyncio.run(DnsDiscovery(name, 7071).addresses())


# Following


class Listing:
    """A list that the test changes; an exception in it is a name service in trouble."""

    def __init__(self, *addresses: str) -> None:
        self.now: frozenset[str] | OSError = frozenset(addresses)

    async def addresses(self) -> frozenset[str]:
        if isinstance(self.now, OSError):
            raise self.now
        return self.now


class Connections:
    """What is connected to, and since when; a connection may take a while to end."""

    def __init__(self, **end_s: float) -> None:
        self.open: dict[str, float] = {}
        self._end_s = end_s

    async def connect(self, address: str) -> None:
        assert address not in self.open, "connected to twice"
        self.open[address] = now_s()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._end_s.get(address[0], 0.0))
            del self.open[address]


class Following:
    def __init__(self, connections: Connections, *discoveries: Discovery) -> None:
        self.trouble: list[str] = []
        self.task = asyncio.create_task(
            follow(discoveries, connections.connect, 5.0, lambda error: self.trouble.append(str(error)))
        )

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))
        assert self.task.cancelled()
        assert len(asyncio.all_tasks()) == 1


@played
async def test_connections_follow_the_list_and_end_with_the_following() -> None:
    listing, connections = Listing("a:1", "b:1"), Connections()
    following = Following(connections, listing)
    await settle()
    assert connections.open == {"a:1": 0.0, "b:1": 0.0}
    listing.now = frozenset({"b:1", "c:1"})
    await asyncio.sleep(5.0)
    assert connections.open == {"b:1": 0.0, "c:1": 5.0}
    listing.now = frozenset()
    await asyncio.sleep(5.0)
    assert connections.open == {}
    listing.now = frozenset({"a:1"})
    await asyncio.sleep(5.0)
    assert connections.open == {"a:1": 15.0}
    await following.end()
    assert connections.open == {}
    assert following.trouble == []


@played
async def test_connections_stay_while_the_list_cannot_be_had() -> None:
    listing, connections = Listing("a:1"), Connections()
    following = Following(connections, listing)
    await settle()
    listing.now = socket.gaierror("the name service is down")
    await asyncio.sleep(11.0)
    assert connections.open == {"a:1": 0.0}
    assert following.trouble == ["the name service is down"] * 2
    listing.now = frozenset({"b:1"})
    await asyncio.sleep(5.0)
    assert list(connections.open) == ["b:1"]
    await following.end()


@played
async def test_one_list_that_cannot_be_had_does_not_stop_the_others() -> None:
    written, named, connections = Listing("a:1"), Listing("n:1"), Connections()
    named.now = OSError("no name service yet")
    following = Following(connections, named, written)
    await settle()
    assert list(connections.open) == ["a:1"]
    named.now = frozenset({"n:1"})
    await asyncio.sleep(5.0)
    assert sorted(connections.open) == ["a:1", "n:1"]
    named.now = OSError("down again")
    written.now = frozenset({"b:1"})
    await asyncio.sleep(5.0)
    assert sorted(connections.open) == ["b:1", "n:1"]
    assert following.trouble == ["no name service yet", "down again"]
    await following.end()


@played
async def test_an_address_on_two_lists_is_connected_to_once() -> None:
    first, second, connections = Listing("a:1"), Listing("a:1"), Connections()
    following = Following(connections, first, second)
    await settle()
    first.now = frozenset()
    await asyncio.sleep(5.0)
    assert connections.open == {"a:1": 0.0}
    await following.end()


@played
async def test_an_address_that_comes_back_waits_for_its_old_connection_to_end() -> None:
    listing, connections = Listing("a:1"), Connections(a=3.0)
    following = Following(connections, listing)
    await settle()
    listing.now = frozenset()
    await asyncio.sleep(5.0)
    listing.now = frozenset({"a:1"})
    await asyncio.sleep(10.0)
    assert list(connections.open) == ["a:1"]
    await following.end()


@played
async def test_following_that_ends_while_a_connection_does_waits_for_all_of_them() -> None:
    listing, connections = Listing("a:1", "b:1"), Connections(a=3.0)
    following = Following(connections, listing)
    await settle()
    listing.now = frozenset({"b:1"})
    await asyncio.sleep(6.0)  # the first is on its way out
    assert sorted(connections.open) == ["a:1", "b:1"]
    await following.end()
    assert connections.open == {}


@played
async def test_an_error_in_a_connection_ends_the_following_and_is_not_swallowed() -> None:
    connections = Connections()

    async def connect(address: str) -> None:
        if address == "bad:1":
            await asyncio.sleep(1.0)
            raise LookupError("a bug of ours")
        await connections.connect(address)

    listing: Sequence[Discovery] = [StaticDiscovery(frozenset({"good:1", "bad:1"}))]
    with pytest.raises(LookupError, match="a bug of ours"):
        await follow(listing, connect, 60.0, lambda _: None)
    assert now_s() == pytest.approx(1.0)
    assert connections.open == {}
    assert len(asyncio.all_tasks()) == 1


@played
async def test_a_connection_that_ends_by_itself_is_made_again_while_it_is_listed() -> None:
    made: list[float] = []

    async def connect(address: str) -> None:
        made.append(now_s())
        await asyncio.sleep(2.0)

    task = asyncio.create_task(follow([StaticDiscovery(frozenset({"a:1"}))], connect, 5.0, lambda _: None))
    await asyncio.sleep(12.0)
    task.cancel()
    await asyncio.wait((task,))
    assert made == [0.0, 5.0, 10.0]
