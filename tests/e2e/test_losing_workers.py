"""Workers that come and go in the middle of a query: the answer is the same, and nobody waits for the dead."""

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import FILES, FOUR, ROWS, SPARE_PLACES, in_rotation
from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import Scan
from tests.e2e.lake import Lake, burning, same, truth
from tests.e2e.logs import at_s
from tests.e2e.proxy import Proxy

pytestmark = pytest.mark.xdist_group("e2e-shared")

REASSIGNED_WITHIN_S = 0.9
"""From the end of the connection: less than a heartbeat, so nobody has waited for one that did not come."""
OUT_OF_ROTATION_WITHIN_S = 10.0
"""After three heartbeats, of a second each, and what a busy machine adds."""


def delivered(coordinator: Coordinator) -> int:
    """How many results the running query has."""
    return sum(query["delivered"] for query in coordinator.running())


def in_flight(coordinator: Coordinator, worker: Worker) -> int:
    return coordinator.workers()[worker.name]["in_flight"]


def test_a_query_is_spread_over_all_workers_and_its_answer_is_the_truth_in_the_order_of_the_files(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    answer = coordinator.door.scan(Scan(burning(0.1), [lake.source], FOUR))
    assert same(answer.table, lake.truth(burning(0.1)))
    assert answer.table.column("id").to_pylist() == list(range(FILES * ROWS))
    query = coordinator.query(answer.query_id)
    assert query["by_worker"].keys() == {worker.name for worker in hands}
    assert (query["works"], query["attempts"], query["delivered"]) == (FILES, FILES, FILES)


def test_the_work_of_a_killed_worker_is_given_to_others_at_once_and_the_answer_is_the_same(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    victim = hands[0]
    session = coordinator.session_of(victim)
    with coordinator.door.asked(Scan(burning(3), [lake.source], FOUR)) as answer:
        until(lambda: delivered(coordinator) >= 2 and in_flight(coordinator, victim) >= 2, "the query is under way")
        broke_s = _kill(victim)
    assert same(answer.result().table, lake.truth(burning(3)))
    assert coordinator.query(answer.result().query_id)["attempts"] > FILES

    assert coordinator.log.find("session ended", session_id=session)
    again = coordinator.log.find("work assigned again", query_id=answer.result().query_id)
    assert again
    assert max(at_s(record) for record in again) - broke_s < REASSIGNED_WITHIN_S


def _kill(victim: Worker) -> float:
    """When its connections broke, as another peer of it saw."""
    address = urlsplit(victim.http)
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        victim.process.kill()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        broke_s = time.time()
    victim.kill()
    return broke_s


def test_a_worker_that_stands_still_is_out_of_rotation_in_time_and_comes_back_as_the_same(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    victim = hands[1]
    before = coordinator.workers()[victim.name]
    with coordinator.door.asked(Scan(burning(3), [lake.source], FOUR)) as answer:
        until(lambda: delivered(coordinator) >= 2 and in_flight(coordinator, victim) >= 2, "the query is under way")
        victim.send(signal.SIGSTOP)
        stopped_s = time.monotonic()
        until(lambda: victim.name not in coordinator.accepting(), "it is out of rotation", OUT_OF_ROTATION_WITHIN_S)
        until(lambda: victim.name not in coordinator.workers(), "it is lost", OUT_OF_ROTATION_WITHIN_S)
        assert time.monotonic() - stopped_s < OUT_OF_ROTATION_WITHIN_S
    assert same(answer.result().table, lake.truth(burning(3)))
    assert coordinator.query(answer.result().query_id)["attempts"] > FILES

    victim.send(signal.SIGCONT)
    coordinator.wait_for(victim)
    after = coordinator.workers()[victim.name]
    assert (after["worker_id"], after["incarnation"]) == (before["worker_id"], before["incarnation"])
    until(lambda: victim.busy == 0, "nothing of the old session runs")


def test_a_work_whose_worker_is_killed_twice_in_a_row_is_not_taken_for_what_killed_them(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    with coordinator.door.asked(Scan(burning(150), lake.files[:1], FOUR)) as answer:
        left = list(hands)
        for _ in range(2):
            until(lambda: any(in_flight(coordinator, worker) for worker in left), "somebody does it")
            victim = next(worker for worker in left if in_flight(coordinator, worker))
            left.remove(victim)
            _kill(victim)
            until(lambda gone=victim.name: gone not in coordinator.workers(), "its loss is known")
    assert same(answer.result().table, truth(burning(150), lake.files[:1]))
    assert coordinator.query(answer.result().query_id)["attempts"] == 3


@pytest.fixture(scope="module")
def line(coordinator: Coordinator) -> Iterator[Proxy]:
    """The network to a worker, for its control stream."""
    with Proxy(coordinator.control) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def visitors(coordinator: Coordinator, line: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    """A worker whose connection can be cut."""
    with Crew(tmp_path_factory.mktemp("visitor")) as crew:
        yield [crew.worker("visitor", join=[line.address], tenant=FOUR, queue_places=SPARE_PLACES)]
    coordinator.wait_without("visitor")


def test_a_query_outlives_a_cut_connection_and_the_worker_is_back_as_the_same_when_it_is_mended(
    coordinator: Coordinator, hands: list[Worker], line: Proxy, visitors: list[Worker], lake: Lake
) -> None:
    (visitor,) = in_rotation(coordinator, visitors)
    before = coordinator.workers()[visitor.name]
    with coordinator.door.asked(Scan(burning(3), [lake.source], FOUR)) as answer:
        until(lambda: delivered(coordinator) >= 2 and in_flight(coordinator, visitor) >= 2, "the query is under way")
        line.refuse()
        line.cut()
        until(lambda: visitor.name not in coordinator.workers(), "its session is lost")
        line.restore()
        coordinator.wait_for(visitor)
    assert same(answer.result().table, lake.truth(burning(3)))
    after = coordinator.workers()[visitor.name]
    assert (after["worker_id"], after["incarnation"]) == (before["worker_id"], before["incarnation"])
    assert coordinator.query(answer.result().query_id)["attempts"] > FILES
