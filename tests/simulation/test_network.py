"""The simulated network: in order or broken; stalls, half-open ends, lost replies, dead hosts, full windows."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from quarterdeck.control.link import Envelope, Link, LinkClosedError, Message
from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import CoordinatorBeat, CreditConfirmed
from quarterdeck.simulation.loop import SimulatedLoop
from quarterdeck.simulation.network import SimulatedNetwork

Play = Callable[[SimulatedNetwork], Coroutine[Any, Any, None]]

LATENCY_S = 0.004
"""No message takes longer when nothing slows it."""


def on_network(play: Play) -> Callable[[], None]:
    """Makes a test of a coroutine that gets a network: it runs on the simulated loop, once for each seed."""

    def test() -> None:
        for seed in range(8):
            loop = SimulatedLoop(random.Random(seed), time_limit_s=1000.0)
            try:
                loop.run_until_complete(play(SimulatedNetwork(loop, random.Random(seed), window=64)))
            finally:
                loop.close()

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def now_s() -> float:
    return asyncio.get_running_loop().time()


def numbered(number: int, message: Message | None = None) -> Envelope:
    return Envelope(SessionId("s"), number, (message or CoordinatorBeat(),))


async def connect(network: SimulatedNetwork, source: str = "a", target: str = "b") -> tuple[Link, Link]:
    """The near and the far end of a new connection."""
    accepted: list[Link] = []
    network.listen(target, accepted.append)
    near = await network.dial(source, target)
    return near, accepted[0]


async def received(link: Link) -> tuple[list[int], str]:
    """All that still comes on a connection, and how it ended."""
    numbers: list[int] = []
    while True:
        try:
            numbers.append((await link.receive()).sequence)
        except LinkClosedError as error:
            return numbers, str(error)


async def is_quiet(link: Link, for_s: float) -> bool:
    """Whether nothing comes, and the connection does not end, for a while."""
    task = asyncio.create_task(link.receive())
    done, _ = await asyncio.wait((task,), timeout=for_s)
    task.cancel()
    await asyncio.wait((task,))
    return not done


@on_network
async def test_each_end_knows_its_peer(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    assert (near.peer, far.peer) == ("b", "a")


@on_network
async def test_what_is_sent_arrives_in_order_whatever_each_message_takes(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    for number in range(50):
        await near.send(numbered(number))
        await far.send(numbered(100 + number))
    assert [(await far.receive()).sequence for _ in range(50)] == list(range(50))
    assert [(await near.receive()).sequence for _ in range(50)] == list(range(100, 150))
    assert now_s() < 3 * LATENCY_S


@on_network
async def test_nobody_listens_and_the_connection_is_refused(network: SimulatedNetwork) -> None:
    with pytest.raises(LinkClosedError, match="b refused the connection"):
        await network.dial("a", "b")


@pytest.mark.parametrize("way", [("a", "b"), ("b", "a")])
def test_a_dial_into_a_partition_times_out(way: tuple[str, str]) -> None:
    @on_network
    async def play(network: SimulatedNetwork) -> None:
        network.listen("b", lambda _: None)
        network.block(*way)
        with pytest.raises(LinkClosedError, match="did not answer in 2 s"):
            await network.dial("a", "b")
        assert 2.0 <= now_s() < 2.5

    play()


@on_network
async def test_a_dial_during_a_short_partition_succeeds_when_it_is_over(network: SimulatedNetwork) -> None:
    network.listen("b", lambda _: None)
    network.block("a", "b")
    asyncio.get_running_loop().call_later(1.0, network.unblock, "a", "b")
    await network.dial("a", "b")
    assert 1.0 <= now_s() < 1.5


# Partitions


@on_network
async def test_a_partition_stalls_traffic_and_delivers_it_in_order_when_it_heals(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.block("a", "b")
    for number in range(10):
        await near.send(numbered(number))
    assert await is_quiet(far, 30.0)
    network.unblock("a", "b")
    assert [(await far.receive()).sequence for _ in range(10)] == list(range(10))


@on_network
async def test_what_is_on_its_way_when_a_partition_begins_stalls_too(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    await near.send(numbered(0))
    network.block("a", "b")
    assert await is_quiet(far, 5.0)
    network.unblock("a", "b")
    assert (await far.receive()).sequence == 0


@on_network
async def test_a_one_way_partition_lets_the_other_way_through(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.block("a", "b")
    await near.send(numbered(0))
    await far.send(numbered(1))
    assert (await near.receive()).sequence == 1
    assert await is_quiet(far, 5.0)


@on_network
async def test_partitions_add_up(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.block("a", "b")
    network.block("a", "b")
    await near.send(numbered(0))
    network.unblock("a", "b")
    assert network.is_blocked("a", "b")
    assert await is_quiet(far, 5.0)
    network.unblock("a", "b")
    network.unblock("a", "b")
    assert (await far.receive()).sequence == 0


@on_network
async def test_healing_ends_every_partition_slowness_and_trap(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.block("a", "b")
    network.block("a", "b")
    network.slow("a", 5.0)
    network.lose_reply("a", CreditConfirmed)
    network.heal()
    began_s = now_s()
    await near.send(numbered(0, CreditConfirmed(1)))
    assert (await far.receive()).sequence == 0
    assert now_s() - began_s <= LATENCY_S
    assert network.lost_replies == 0


@on_network
async def test_a_close_during_a_partition_is_heard_of_when_it_heals(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.block("a", "b")
    await near.send(numbered(0))
    near.close()
    assert await is_quiet(far, 5.0)
    network.unblock("a", "b")
    assert await received(far) == ([0], "closed by the peer")


# Ends


@on_network
async def test_a_graceful_close_delivers_what_was_sent_before(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    for number in range(5):
        await near.send(numbered(number))
    near.close()
    near.close()
    assert await received(far) == ([0, 1, 2, 3, 4], "closed by the peer")
    assert await received(near) == ([], "closed by us")
    with pytest.raises(LinkClosedError, match="closed by us"):
        await near.send(numbered(5))


@on_network
async def test_what_arrives_after_we_closed_is_dropped(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    await near.send(numbered(0))
    far.close()
    await asyncio.sleep(1.0)
    assert await received(far) == ([], "closed by us")
    assert await received(near) == ([], "closed by the peer")


@on_network
async def test_connections_that_both_ends_closed_are_forgotten(network: SimulatedNetwork) -> None:
    for _ in range(3):
        near, far = await connect(network)
        await near.send(numbered(0))
        near.close()
        await received(far)
        far.close()
        await asyncio.sleep(0.1)
    assert not network.connections


@on_network
async def test_a_cut_ends_both_sides_and_loses_what_was_on_its_way(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    await near.send(numbered(0))
    await far.send(numbered(1))
    network.cut("b", "a", known_to=("a", "b"))
    assert await received(near) == ([], "the connection broke")
    assert await received(far) == ([], "the connection broke")
    with pytest.raises(LinkClosedError, match="broke"):
        await far.send(numbered(2))


@on_network
async def test_a_half_open_connection_swallows_what_the_one_who_does_not_know_sends(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.cut("a", "b", known_to=("a",))
    assert await received(near) == ([], "the connection broke")
    await far.send(numbered(0))
    assert await is_quiet(far, 60.0)


@on_network
async def test_a_cut_touches_no_other_connection(network: SimulatedNetwork) -> None:
    near, far = await connect(network, "a", "b")
    other, other_far = await connect(network, "a", "c")
    network.cut("a", "b", known_to=("a", "b"))
    await other.send(numbered(0))
    assert (await other_far.receive()).sequence == 0
    assert await received(near) == await received(far) == ([], "the connection broke")


@on_network
async def test_somebody_who_waits_to_receive_hears_of_a_cut(network: SimulatedNetwork) -> None:
    near, _ = await connect(network)
    asyncio.get_running_loop().call_later(1.0, lambda: network.cut("a", "b", known_to=("a",)))
    assert await received(near) == ([], "the connection broke")
    assert 1.0 <= now_s() < 1.1


@on_network
async def test_a_lost_reply_takes_its_connection_along(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.lose_reply("a", CreditConfirmed)
    await near.send(numbered(0))
    await far.send(numbered(1, CreditConfirmed(1)))  # of the other side: not meant
    assert (await near.receive()).sequence == 1
    assert (await far.receive()).sequence == 0
    await near.send(numbered(1, CreditConfirmed(1)))  # to its sender it looks sent
    assert network.lost_replies == 1
    assert await received(far) == ([], "the connection broke")
    assert await received(near) == ([], "the connection broke")


@on_network
async def test_a_reply_is_lost_once(network: SimulatedNetwork) -> None:
    network.lose_reply("a", CreditConfirmed)
    near, _ = await connect(network)
    await near.send(numbered(0, CreditConfirmed(1)))
    near, far = await connect(network)
    await near.send(numbered(0, CreditConfirmed(1)))
    assert (await far.receive()).sequence == 0


@on_network
async def test_peers_of_a_dead_host_hear_of_it(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    await near.send(numbered(0))
    await far.send(numbered(1))
    network.host_died("b")
    assert await received(near) == ([], "the peer died")
    assert await received(far) == ([], "dead")


@on_network
async def test_who_stops_listening_keeps_its_connections_and_gets_no_more(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.stop_listening("b")
    network.stop_listening("b")
    with pytest.raises(LinkClosedError, match="refused"):
        await network.dial("a", "b")
    await near.send(numbered(0))
    assert (await far.receive()).sequence == 0


@on_network
async def test_a_peer_that_cannot_be_reached_does_not_hear_of_a_death(network: SimulatedNetwork) -> None:
    near, _ = await connect(network)
    network.block("b", "a")
    network.host_died("b")
    network.unblock("b", "a")
    await near.send(numbered(0))
    assert await is_quiet(near, 60.0)


# Pace


@on_network
async def test_a_peer_that_does_not_read_makes_the_sender_wait(network: SimulatedNetwork) -> None:
    near, far = await connect(network)

    async def send_all() -> None:
        for number in range(200):
            await near.send(numbered(number))

    sender = asyncio.create_task(send_all())
    await asyncio.sleep(10.0)
    assert not sender.done()
    waiting = near.backlog()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
    assert waiting == 64
    assert [(await far.receive()).sequence for _ in range(200)] == list(range(200))
    await sender


@on_network
async def test_a_sender_that_waits_hears_of_the_end(network: SimulatedNetwork) -> None:
    near, _ = await connect(network)

    async def send_all() -> None:
        while True:
            await near.send(numbered(0))

    sender = asyncio.create_task(send_all())
    await asyncio.sleep(1.0)
    network.cut("a", "b", known_to=("a", "b"))
    with pytest.raises(LinkClosedError, match="broke"):
        await sender


@on_network
async def test_everything_from_and_to_a_slow_host_takes_longer(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.slow("b", 0.5)
    for sender, receiver in ((near, far), (far, near)):
        began_s = now_s()
        await sender.send(numbered(0))
        await receiver.receive()
        assert 0.5 < now_s() - began_s <= 0.5 + LATENCY_S
    network.slow("b", 0.0)
    began_s = now_s()
    await near.send(numbered(1))
    await far.receive()
    assert now_s() - began_s <= LATENCY_S


@on_network
async def test_what_is_sent_when_a_host_is_fast_again_does_not_overtake(network: SimulatedNetwork) -> None:
    near, far = await connect(network)
    network.slow("a", 1.0)
    await near.send(numbered(0))
    network.slow("a", 0.0)
    await near.send(numbered(1))
    assert [(await far.receive()).sequence for _ in range(2)] == [0, 1]
    assert now_s() > 1.0
