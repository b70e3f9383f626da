"""Workers that come and go in the middle of a PromQL query: the answer is the same, and nobody waits for the dead."""

import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import FOUR, SHARDS, SPARE_PLACES, WAVE, in_rotation
from tests.e2e.crew import Coordinator, Crew, Document, Worker, until
from tests.e2e.logs import at_s
from tests.e2e.promql import Ask, Reply, answer, asked
from tests.e2e.proxy import Proxy
from tests.e2e.samples import Store

pytestmark = pytest.mark.xdist_group("e2e-shared")

REASSIGNED_WITHIN_S = 0.9
"""From the end of the connection: less than a heartbeat, so nobody has waited for one that did not come."""
TTL_S = 0.5
ROUNDS = 20
HEAVY = WAVE.ask("max by (job) (quantile_over_time(0.9, $m[1h]))", step_s=20).of(FOUR)
"""Some seconds of computing, in a work for each shard."""
ISLANDER = "islander"
"""Of all names one that makes it the home of several works, beside four others."""
EXPLAINED = WAVE.ask("sum(sum_over_time($m[5m]))", step_s=3600, explain="analyze").of(FOUR)
LIGHT = WAVE.ask("sum by (job) (rate($m[5m]))", step_s=600).of(FOUR)


def is_under_way(coordinator: Coordinator, worker: Worker) -> bool:
    """Whether the one query has some results, and more to come from this worker."""
    delivered = sum(query["delivered"] for query in coordinator.running())
    return delivered >= 1 and coordinator.workers()[worker.name]["in_flight"] >= 2


def homes(reply: Reply) -> dict[str, str]:
    """For each work, by its place in the query, the worker whose result was used."""
    works = [work for leaf in reply.document["data"]["explain"]["leaves"] for work in leaf["works"]]
    return {
        work["work_id"].partition("/")[2]: attempt["worker_id"]
        for work in works
        for attempt in work["attempts"]
        if attempt["outcome"] == "done"
    }


@pytest.mark.usefixtures("store")
def test_one_query_is_spread_over_all_workers_and_its_answer_is_that_of_the_engine_alone(
    coordinator: Coordinator, hands: list[Worker]
) -> None:
    reply = answer(coordinator.door, HEAVY)
    assert reply.result == WAVE.truth(HEAVY)
    query = coordinator.query(reply.query_id)
    # Each is the home of four; what had to wait longer than an idle worker has moved to that one.
    assert set(query["by_worker"]) == {worker.name for worker in hands}
    assert sum(query["by_worker"].values()) == SHARDS
    assert (query["works"], query["attempts"], query["delivered"]) == (SHARDS, SHARDS, SHARDS)


@dataclass(frozen=True, slots=True)
class Castaway:
    """A worker behind two networks that a test can break, which keeps results for a moment only."""

    worker: Worker
    line: Proxy
    results: Proxy


@pytest.fixture(scope="module")
def castaways(coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Castaway]:
    with (
        Crew(tmp_path_factory.mktemp("castaway")) as crew,
        Proxy(coordinator.control) as line,
        Proxy() as results,
    ):
        worker = crew.worker(
            ISLANDER,
            join=[line.address],
            tenant=FOUR,
            queue_places=SPARE_PLACES,
            advertise_url=results.url,
            artifact_ttl_s=TTL_S,
            kinds="leaf",
        )
        yield Castaway(worker, line, results)
    coordinator.wait_without(ISLANDER)


@pytest.fixture
def castaway(coordinator: Coordinator, castaways: Castaway, hands: list[Worker], store: Store) -> Castaway:
    """In rotation, and its results within reach."""
    assert hands
    assert store
    castaways.line.restore()
    castaways.results.restore()
    in_rotation(coordinator, [castaways.worker])
    castaways.results.lead_to(castaways.worker.http)
    return castaways


def test_a_query_outlives_a_blip_of_the_network_and_the_worker_is_back_as_the_same_and_answers(
    coordinator: Coordinator, castaway: Castaway
) -> None:
    worker, line = castaway.worker, castaway.line
    before = coordinator.workers()[worker.name]
    with asked(coordinator.door, HEAVY) as reply:
        until(lambda: coordinator.workers()[worker.name]["in_flight"] >= 1, "it has works")
        line.refuse()
        line.cut()
        until(lambda: worker.name not in coordinator.workers(), "its session is lost")
        line.restore()
        coordinator.wait_for(worker)
    assert reply.result().result == WAVE.truth(HEAVY)
    query = coordinator.query(reply.result().query_id)
    assert query["attempts"] > query["works"]
    after = coordinator.workers()[worker.name]
    assert (after["worker_id"], after["incarnation"]) == (before["worker_id"], before["incarnation"])

    reply_after = answer(coordinator.door, LIGHT)
    assert reply_after.result == WAVE.truth(LIGHT)
    query = coordinator.query(reply_after.query_id)
    assert query["by_worker"][worker.name] >= 1
    assert query["attempts"] == query["works"]


def test_a_result_that_expired_before_it_was_fetched_is_computed_again_and_the_answer_has_the_same_bytes(
    coordinator: Coordinator, castaway: Castaway
) -> None:
    worker = castaway.worker
    undisturbed = answer(coordinator.door, LIGHT)
    assert coordinator.query(undisturbed.query_id)["by_worker"][worker.name] >= 1
    castaway.results.stall()
    reply = answer(coordinator.door, LIGHT)
    assert reply.body == undisturbed.body
    query = coordinator.query(reply.query_id)
    assert query["attempts"] > query["works"]
    assert worker.name not in query["by_worker"]
    lost = coordinator.log.find("result lost", query_id=reply.query_id, reason="expired")
    assert {record["session_id"] for record in lost} == {coordinator.session_of(worker)}
    until(lambda: not worker.artifact_files, "no file of it is left")


def test_a_worker_told_to_stop_in_the_middle_of_a_query_rejects_the_rest_finishes_what_runs_and_exits_with_0(
    coordinator: Coordinator, castaway: Castaway
) -> None:
    leaver = castaway.worker
    session = coordinator.session_of(leaver)
    with asked(coordinator.door, HEAVY) as reply:
        until(lambda: leaver.busy == 1 and leaver.queued >= 2, "it has a work that runs and works that wait")
        leaver.send(signal.SIGTERM)
        assert leaver.wait_end() == 0
    assert reply.result().result == WAVE.truth(HEAVY)

    query = coordinator.query(reply.result().query_id)
    returned = coordinator.log.find("work handed back", session_id=session)
    rejected = coordinator.log.find("work rejected", session_id=session)  # what was on its way to it
    assert len(returned) >= 2
    assert query["attempts"] == SHARDS + len(returned) + len(rejected), "what ran was finished and fetched"
    assert query["by_worker"][leaver.name] >= 1
    assert leaver.log.find("drained")
    assert not leaver.artifact_files


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker was killed in the middle of a query."""

    victim: str
    session: str
    broke_s: float
    reply: Reply
    query: Document
    homes_before: dict[str, str]
    homes_after: dict[str, str]


@pytest.fixture(scope="module")
def loss(coordinator: Coordinator, four: list[Worker], store: Store) -> Loss:
    """Once for all tests that look at it: a worker takes seconds to come back."""
    assert store
    victim = in_rotation(coordinator, four)[0]
    session = coordinator.session_of(victim)
    homes_before = homes(answer(coordinator.door, EXPLAINED))
    with asked(coordinator.door, HEAVY) as reply:
        until(lambda: is_under_way(coordinator, victim), "the query is under way")
        broke_s = _kill(victim)
    homes_after = homes(answer(coordinator.door, EXPLAINED))
    query = coordinator.query(reply.result().query_id)
    return Loss(victim.name, session, broke_s, reply.result(), query, homes_before, homes_after)


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


def test_a_worker_killed_in_the_middle_of_a_query_costs_attempts_and_the_answer_is_the_same(loss: Loss) -> None:
    assert loss.reply.result == WAVE.truth(HEAVY)
    assert not loss.reply.warnings
    assert loss.query["attempts"] > loss.query["works"] == SHARDS


def test_the_works_of_a_killed_worker_are_given_to_others_at_once(coordinator: Coordinator, loss: Loss) -> None:
    assert coordinator.log.find("session ended", session_id=loss.session)
    again = coordinator.log.find("work assigned again", query_id=loss.reply.query_id)
    assert len(again) == loss.query["attempts"] - SHARDS
    assert max(at_s(record) for record in again) - loss.broke_s < REASSIGNED_WITHIN_S


def test_removing_one_of_four_workers_moves_a_quarter_of_the_homes_and_no_other(loss: Loss) -> None:
    before, after = loss.homes_before, loss.homes_after
    assert len(before) == SHARDS
    moved = {work for work in before if before[work] != after[work]}
    assert moved == {work for work, worker in before.items() if worker == loss.victim}
    assert len(moved) == SHARDS / 4


class Askers:
    """Threads that ask one query after the other while the block runs, and keep what they got."""

    def __init__(self, coordinator: Coordinator, *asks: Ask) -> None:
        self.replies: list[tuple[Ask, Reply]] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on, args=(coordinator, ask)) for ask in asks]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask_on(self, coordinator: Coordinator, ask: Ask) -> None:
        while not self._over.is_set():
            self.replies.append((ask, answer(coordinator.door, ask)))

    def wait(self, more: int) -> None:
        """Until so many more are answered."""
        enough = len(self.replies) + more
        until(lambda: len(self.replies) >= enough, f"{more} queries are answered")

    def check(self) -> None:
        """Every one is answered, and right."""
        assert {reply.status for _, reply in self.replies} == {200}
        assert all(reply.result == WAVE.truth(ask) and not reply.warnings for ask, reply in self.replies)


@pytest.mark.usefixtures("store")
def test_workers_killed_one_after_the_other_while_queries_run_cost_no_query_as_long_as_others_are_left(
    coordinator: Coordinator, hands: list[Worker]
) -> None:
    with Askers(coordinator, LIGHT, LIGHT) as askers:
        for victim in hands[:2]:
            askers.wait(6)
            victim.kill()
        askers.wait(6)
    askers.check()
    assert any(query["attempts"] > query["works"] for query in coordinator.door.get("/v1/queries"))


@pytest.mark.soak
@pytest.mark.usefixtures("store")
def test_minutes_of_kills_cost_no_query_as_long_as_others_are_left(
    coordinator: Coordinator, hands: list[Worker]
) -> None:
    chance = random.Random(11)
    with Askers(coordinator, LIGHT, LIGHT, HEAVY) as askers:
        for _ in range(ROUNDS):
            for victim in chance.sample(hands, chance.randint(1, 3)):
                askers.wait(chance.randint(0, 5))
                victim.kill()
            askers.wait(3)
            in_rotation(coordinator, hands)
    askers.check()
