"""Who is connected: how many may be, and who goes when there are too many."""

from quarterdeck.http.connections import PATIENCE_S, ConnectionTable, address_of


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Peer:
    def __init__(self, table: ConnectionTable, address: str = "a") -> None:
        self.address = address
        self.is_open = True
        self._table = table
        table.opened(self)

    def hang_up(self) -> None:
        self.is_open = False
        self._table.closed(self)


def table(most: int = 100, of_one: int = 100) -> tuple[ConnectionTable, Clock]:
    clock = Clock()
    return ConnectionTable(most, of_one, clock), clock


def test_without_room_a_newcomer_is_turned_away() -> None:
    connections, _ = table(most=2)
    peers = [Peer(connections), Peer(connections)]
    assert not connections.may_open()
    peers[0].hang_up()
    assert connections.may_open()
    assert (len(connections), connections.refused) == (1, 1)


def test_the_one_that_was_idle_longest_makes_room() -> None:
    connections, _ = table(most=3)
    asking, first, second = (Peer(connections) for _ in range(3))
    connections.waits(first)
    connections.waits(second)
    assert connections.may_open()
    assert [peer.is_open for peer in (asking, first, second)] == [True, False, True]


def test_one_that_asks_again_is_not_idle() -> None:
    connections, _ = table(most=1)
    peer = Peer(connections)
    connections.waits(peer)
    connections.is_asking(peer)
    assert not connections.may_open()
    assert peer.is_open


def test_an_address_loses_its_own_slowest_and_nobody_elses() -> None:
    connections, clock = table(of_one=2)
    stranger = Peer(connections, "b")
    slow = [Peer(connections) for _ in range(2)]
    clock.now_s += PATIENCE_S + 0.1
    newcomer = Peer(connections)
    assert [peer.is_open for peer in (stranger, *slow, newcomer)] == [True, False, True, True]
    assert connections.waiting_of("a") == 2


def test_a_crowd_that_comes_at_once_is_let_in() -> None:
    connections, clock = table(of_one=2)
    crowd = [Peer(connections) for _ in range(50)]
    clock.now_s += PATIENCE_S / 2
    crowd.append(Peer(connections))
    assert all(peer.is_open for peer in crowd)


def test_those_that_are_answered_are_not_limited_by_address() -> None:
    connections, clock = table(of_one=2)
    workers: list[Peer] = []
    for _ in range(50):
        workers.append(Peer(connections))
        connections.is_answered(workers[-1])
        clock.now_s += PATIENCE_S + 0.1
    assert all(worker.is_open for worker in workers)
    assert connections.waiting_of("a") == 0


def test_one_that_was_answered_waits_anew() -> None:
    connections, clock = table(of_one=2)
    peers = [Peer(connections) for _ in range(2)]
    clock.now_s += PATIENCE_S + 0.1
    connections.is_answered(peers[0])
    connections.waits(peers[0])
    Peer(connections)
    assert [peer.is_open for peer in peers] == [True, False]


def test_a_client_of_ipv6_is_a_network_and_a_mapped_one_is_of_ipv4() -> None:
    assert address_of(("2001:db8::1", 5, 0, 0)) == address_of(("2001:db8::ffff:2", 6, 0, 0))
    assert address_of(("2001:db8:1::1", 5, 0, 0)) != address_of(("2001:db8:2::1", 5, 0, 0))
    assert address_of(("::ffff:10.0.0.1", 5, 0, 0)) == address_of(("10.0.0.1", 5)) == "10.0.0.1"
    assert address_of(("fe80::1%eth0", 5, 0, 0)) == "fe80::"
    assert address_of(("no:address", 5)) == "no:address"
    assert address_of(None) == ""
