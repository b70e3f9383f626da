"""Coordinators that see different workers: the same answers, warm caches, and none that disturbs another."""

import time
from dataclasses import replace

import pytest

from tests.e2e.crew import Worker, until
from tests.e2e.fleet import Fleet
from tests.e2e.logs import at_s
from tests.e2e.promql import answer, asked, begun

pytestmark = pytest.mark.xdist_group("e2e-fleet")

QUERIES = [
    "sum by (job) (rate($m[5m]))",
    "avg by (zone) ($m)",
    "stddev by (job) (rate($m[5m]))",
    "topk(5, sum by (n) (increase($m[1h])))",
    "quantile by (zone) (0.9, rate($m[10m]))",
    "max by (job) (quantile_over_time(0.9, $m[1h]))",
    "sum(rate($m[5m])) / sum(rate($m{job='job-1'}[5m]))",
    "$m{n=~'0000.'}",
    "avg_over_time(sum by (job) (rate($m[5m]))[30m:1m])",
    "count_values('v', $m % 5)",
]
WARM_QUERIES = 20
ENOUGH_HITS = 0.95
STOPPED_WITHIN_S = 2.5
"""Before a silent coordinator counts as lost."""
LOOKUPS = "quarterdeck_worker_parquet_cache_lookups_total"


@pytest.mark.parametrize("text", QUERIES)
def test_two_coordinators_with_different_workers_give_the_same_bytes(fleet: Fleet, text: str) -> None:
    ask = fleet.tide.ask(text, step_s=120)
    wide, narrow = answer(fleet.wide.door, ask), answer(fleet.narrow.door, ask)
    assert wide.result
    assert wide.body == narrow.body
    assert fleet.narrow.query(narrow.query_id)["by_worker"].keys() == {fleet.last.name}


def test_an_instant_query_has_the_same_bytes_too(fleet: Fleet) -> None:
    at = {"time": fleet.tide.end_ms / 1000}
    ask = replace(fleet.tide.ask("sum by (job) (rate($m[5m]))"), options=at, path="/api/v1/query")
    assert answer(fleet.wide.door, ask).result
    assert answer(fleet.wide.door, ask).body == answer(fleet.narrow.door, ask).body


def test_a_query_is_spread_over_all_workers_that_its_coordinator_dials(fleet: Fleet) -> None:
    reply = answer(fleet.wide.door, fleet.tide.ask("sum by (job) (rate($m[5m]))", step_s=3600))
    assert fleet.wide.query(reply.query_id)["by_worker"].keys() == {worker.name for worker in fleet.workers}


def lookups(workers: list[Worker]) -> tuple[float, float]:
    """Hits and misses of all of them."""
    found = [worker.door.metrics()[LOOKUPS] for worker in workers]
    return sum(one["hit",] for one in found), sum(one["miss",] for one in found)


def test_on_a_stable_crew_nearly_all_reads_hit_the_parquet_cache(fleet: Fleet) -> None:
    ask = fleet.tide.ask("sum by (job) (rate($m[5m]))", step_s=3600)
    segments = answer(fleet.wide.door, ask.where(explain="analyze")).document["data"]["explain"]["segments"]["read"]
    hits, misses = lookups(fleet.workers)
    assert misses >= segments, "it was copied into the cache"
    for _ in range(WARM_QUERIES):
        assert answer(fleet.wide.door, ask).result
    more_hits, more_misses = (
        after - before for after, before in zip(lookups(fleet.workers), (hits, misses), strict=True)
    )
    assert more_hits + more_misses == WARM_QUERIES * segments
    assert more_hits / (more_hits + more_misses) >= ENOUGH_HITS


def test_workers_stop_the_queries_of_a_killed_coordinator_and_go_on_for_another(fleet: Fleet) -> None:
    long = fleet.tide.ask(" + ".join(f"max(quantile_over_time(0.{digit}, $m[1h]))" for digit in range(1, 9)), step_s=5)
    ask = fleet.tide.ask("max by (job) (quantile_over_time(0.9, $m[1h]))", step_s=120)
    with begun(fleet.wide.door, long):
        until(lambda: all(worker.busy == 1 for worker in fleet.workers), "its works run")
        (query,) = fleet.wide.running()
        with asked(fleet.narrow.door, ask) as reply:
            until(fleet.narrow.running, "another coordinator's query is under way")
            fleet.wide.kill()
            killed_s = time.time()
    assert reply.result().result == fleet.tide.truth(ask)
    counts = fleet.narrow.query(reply.result().query_id)
    assert counts["attempts"] == counts["works"], "nobody's work but the dead one's was touched"
    for worker in fleet.workers:
        stopped = until(
            lambda worker=worker: worker.log.find("work stopped", query_id=query["query_id"]), "its work was stopped"
        )
        assert max(at_s(record) for record in stopped) - killed_s < STOPPED_WITHIN_S
    until(lambda: all(worker.busy == worker.queued == 0 for worker in fleet.workers), "nothing runs for it")
    assert not any(worker.artifact_files for worker in fleet.workers)
