"""What whoever asks gets: answers that are right and soon there, and nothing left behind of clients that went away."""

import contextlib
import http.client
import json
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.conftest import FOUR, WAVE
from tests.e2e.crew import Coordinator, Document, Worker, until
from tests.e2e.door import hang_up
from tests.e2e.held import Held
from tests.e2e.logs import at_s
from tests.e2e.promql import Ask, answer, begun
from tests.e2e.samples import Samples, Store

pytestmark = [pytest.mark.xdist_group("e2e-shared"), pytest.mark.usefixtures("store", "small")]

SMALL = Samples("small", series=120, times=400)
LONG = WAVE.ask(" + ".join(f"max(quantile_over_time(0.{digit}, $m[1h]))" for digit in range(1, 9)), step_s=20).of(FOUR)
"""Half a minute of computing, in a hundred works."""
LIGHT = [
    Ask("small", {"time": SMALL.end_ms / 1000}, FOUR, "/api/v1/query"),
    Ask("sum by (job) (rate(wave[5m]))", {"time": WAVE.end_ms / 1000}, FOUR, "/api/v1/query"),
    WAVE.ask('$m{n="00007"}').of(FOUR),
    WAVE.ask('rate($m{n=~"0000."}[5m])').of(FOUR),
    SMALL.ask("sum by (job) (rate($m[5m])) / on (job) count by (job) ($m)").of(FOUR),
    SMALL.ask("histogram_quantile(0.9, $m)").of(FOUR),
]
TRIES = 20
CANCELED_WITHIN_S = 0.9
LEAVERS = 5
STORM = 300
AT_ONCE = 8
LONGEST_S = 0.1
"""How long a client has patience at most."""
PARITY = [
    "$m",
    "rate($m[5m])",
    "sum by (job) (rate($m[5m]))",
    "avg without (n) ($m)",
    "topk by (job) (2, $m)",
    "quantile by (zone) (0.9, $m)",
    "stddev by (job) ($m)",
    "count_values('v', $m % 3)",
    "sum($m) / count($m)",
    "$m{zone='z1'} + on (n) group_left $m",
    "$m > 700 and on (n) $m{job=~'job-[12]'}",
    "max_over_time(rate($m[5m])[30m:1m])",
    "$m offset 10m - $m",
    "sum($m @ end())",
    "label_replace($m{n='00001'}, 'x', '$1', 'job', 'job-(.*)')",
    "absent($m{n='nobody'})",
    "resets($m[30m])",
    "scalar(sum($m)) * vector(2)",
]


@pytest.fixture(scope="session")
def small(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    store.put(SMALL, FOUR, 16, tmp_path_factory.mktemp("small"))
    return SMALL


@pytest.mark.usefixtures("hands")
@pytest.mark.parametrize("text", PARITY)
def test_the_answer_of_the_crew_is_that_of_the_engine_alone(coordinator: Coordinator, text: str) -> None:
    ask = SMALL.ask(text).of(FOUR)
    reply = answer(coordinator.door, ask)
    assert _rounded(reply.result) == _rounded(SMALL.truth(ask))


def _rounded(result: list[Document]) -> list[Document]:
    """In the order of their labels, and without the last digits: partial sums add up in another order."""
    rounded = [{**one, "values": [(at, f"{float(value):.12g}") for at, value in one["values"]]} for one in result]
    return sorted(rounded, key=lambda one: json.dumps(one["metric"], sort_keys=True))


@pytest.mark.usefixtures("hands")
@pytest.mark.parametrize("ask", LIGHT, ids=lambda ask: ask.text)
def test_a_light_query_is_answered_in_less_than_a_second(coordinator: Coordinator, ask: Ask) -> None:
    took_s: list[float] = []
    for _ in range(TRIES):
        began_s = time.monotonic()
        assert answer(coordinator.door, ask).status == http.client.OK
        took_s.append(time.monotonic() - began_s)
    assert statistics.median(took_s) < 1.0


@pytest.mark.usefixtures("hands")
def test_queries_write_nothing_into_the_database(coordinator: Coordinator, store: Store) -> None:
    """All the while another process has the lock without which nobody can write; whoever tried would wait and fail."""
    with store.looked_into() as observer, store.looked_into() as holder:
        before = _contents(store), observer.execute("PRAGMA data_version").fetchone()
        holder.execute("BEGIN IMMEDIATE")
        try:
            with ThreadPoolExecutor(AT_ONCE) as clients:
                asks = [LIGHT[number % len(LIGHT)] for number in range(200)]
                replies = list(clients.map(partial(answer, coordinator.door), asks))
        finally:
            holder.execute("ROLLBACK")
        assert {reply.status for reply in replies} == {http.client.OK}
        assert (_contents(store), observer.execute("PRAGMA data_version").fetchone()) == before


def _contents(store: Store) -> list[bytes]:
    log = Path(f"{store.catalog}-wal")
    return [store.catalog.read_bytes(), log.read_bytes() if log.exists() else b""]


def test_a_client_that_hangs_up_cancels_its_query_on_every_worker_at_once(
    coordinator: Coordinator, hands: list[Worker]
) -> None:
    latencies: list[float] = []
    for _ in range(LEAVERS):
        with begun(coordinator.door, LONG) as connection:
            until(lambda: all(worker.busy == 1 for worker in hands), "all workers have works of it")
            (query,) = coordinator.running()
            hang_up(connection)
            left_s = time.time()
        until(lambda: not coordinator.running(), "the query has ended")
        for worker in hands:
            stopped = until(
                lambda worker=worker, query=query: worker.log.find("work stopped", query_id=query["query_id"]),
                f"{worker.name} has stopped",
            )
            latencies.append(max(at_s(record) for record in stopped) - left_s)
        assert coordinator.query(query["query_id"])["state"] == "canceled"
    until(lambda: all(worker.busy == worker.queued == 0 for worker in hands), "no worker does anything")
    assert statistics.median(latencies) < CANCELED_WITHIN_S


def test_hundreds_of_canceled_queries_leave_nothing_behind(coordinator: Coordinator, hands: list[Worker]) -> None:
    chance = random.Random(7)
    members = [coordinator, *hands]
    canceled_before = _count(coordinator, "canceled")
    with ThreadPoolExecutor(AT_ONCE) as clients:  # so that all pools are as large as they get
        list(clients.map(partial(answer, coordinator.door), LIGHT * AT_ONCE))
    before = {member.name: Held.by(member) for member in members}

    asks = [chance.choice([LONG, LONG, SMALL.ask("$m", step_s=15).of(FOUR), *LIGHT]) for _ in range(STORM)]
    with ThreadPoolExecutor(AT_ONCE) as clients:
        for each in [clients.submit(_ask_and_leave, coordinator, ask, chance.random() * LONGEST_S) for ask in asks]:
            each.result()

    until(lambda: not coordinator.running(), "no query runs")
    assert _count(coordinator, "canceled") > canceled_before, "some clients have left a query that ran"
    until(lambda: all(worker["in_flight"] == 0 for worker in coordinator.workers().values()), "no work is in flight")
    until(lambda: all(worker.busy == worker.queued == 0 for worker in hands), "no worker does anything")
    until(lambda: not any(worker.artifact_files for worker in hands), "no artifact is left")
    until(lambda: all(worker.door.metric("quarterdeck_worker_artifacts") == 0 for worker in hands), "nor in memory")
    until(lambda: not list((coordinator.folder / "spool").iterdir()), "no fetched result is left")
    scaling = coordinator.door.get("/monitor/scaling")
    assert (scaling["queries_running"], scaling["queries_queued"], scaling["queue_depth"]) == (0, 0, 0)
    for member in members:
        until(
            lambda member=member: Held.by(member).is_about(before[member.name]),
            f"{member.name} has let go of what it had; before it was {before[member.name]}",
            within_s=20,
        )
    ask = SMALL.ask("$m").of(FOUR)
    assert answer(coordinator.door, ask).result == SMALL.truth(ask)


def _count(coordinator: Coordinator, outcome: str) -> float:
    return coordinator.door.metrics()["quarterdeck_coordinator_query_seconds_count"].get((outcome,), 0.0)


def _ask_and_leave(coordinator: Coordinator, ask: Ask, patience_s: float) -> None:
    """Asks, reads for a while what comes, and closes the connection."""
    leaves_at_s = time.monotonic() + patience_s
    with begun(coordinator.door, ask) as connection:
        assert connection.sock is not None
        connection.sock.settimeout(patience_s)
        with contextlib.suppress(TimeoutError, http.client.HTTPException):
            response = connection.getresponse()
            while time.monotonic() < leaves_at_s and response.read(1000):
                pass
