"""Searches with real processes: workers are reserved and given back, a lost one costs a retry, never a line."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import RefusedError, Scan
from tests.e2e.log_lines import Logs, search, searching, write_logs

pytestmark = pytest.mark.xdist_group("e2e-search")

FILES, LINES = 3, 100_000
"""Some 50 MB: several chunks of 8 MiB, of which a worker needs several."""
CREW = 3
BY_HOST = 'level=error "timed out" | count() by host'
BY_HOST_SQL = (
    "SELECT host, count(*) AS count FROM logs WHERE level = 'error' AND contains(msg, 'timed out') GROUP BY host "
    "ORDER BY host"
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return write_logs(tmp_path_factory.mktemp("logs") / "app", FILES, LINES)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Crew(tmp_path_factory.mktemp("root")) as crew:
        yield crew.coordinator().wait_up()


@pytest.fixture(scope="module")
def three(root: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    """On three nodes; each registers again when it is abandoned."""
    with Crew(tmp_path_factory.mktemp("three")) as crew:
        yield [
            crew.worker(
                f"s{number}",
                join=[root.control],
                recruiter__urls=root.http,
                node=f"node-{number}",
                recruiter__leave_when_abandoned="false",
                recruiter__reserved_idle_s=2,
                recruiter__retry_max_s=0.5,
            )
            for number in range(CREW)
        ]


@pytest.fixture
def hands(root: Coordinator, three: list[Worker]) -> list[Worker]:
    """All of them in the pool."""
    for worker in three:
        if not worker.is_running:
            worker.start()
        worker.send(signal.SIGCONT)
    root.wait_free(CREW)
    return three


def addr(worker: Worker) -> str:
    return worker.http.partition("://")[2]


def test_a_search_is_spread_over_reserved_workers_and_gives_them_back(
    root: Coordinator, hands: list[Worker], logs: Logs
) -> None:
    found = search(root, BY_HOST, [logs.source])
    assert found.rows == logs.truth(BY_HOST_SQL)
    assert found.done["status"] == "ok"
    assert found.workers.keys() == {addr(worker) for worker in hands}
    root.wait_free(CREW)


def test_records_come_in_the_order_of_time_whoever_found_them(
    root: Coordinator, hands: list[Worker], logs: Logs
) -> None:
    found = search(root, 'level=error "timed out"', [logs.source])
    truth = logs.truth("SELECT id FROM logs WHERE level = 'error' AND contains(msg, 'timed out') ORDER BY id")
    assert [row["id"] for row in found.rows] == [row["id"] for row in truth]


def test_a_worker_that_is_lost_in_the_middle_costs_a_retry_and_no_line_is_missing_or_there_twice(
    root: Coordinator, hands: list[Worker], logs: Logs
) -> None:
    victim = hands[0]
    victim.send(signal.SIGSTOP)  # it is given away, takes its chunk, and does nothing
    with searching(root, "bytes<100", [logs.source]) as answer:
        until(lambda: root.door.get("/recruiter/stats")["granted"] >= CREW and root.free() == 0, "all were recruited")
        until(lambda: _chunks_left(root) == 1, "the others have done the rest")
        victim.kill()
    found = answer.result()
    truth = logs.truth("SELECT id FROM logs WHERE bytes < 100 ORDER BY id")
    assert [row["id"] for row in found.rows] == [row["id"] for row in truth]
    assert found.done["retried"] >= 1
    assert found.workers.get(addr(victim), 0) == 0


def test_an_engine_that_dies_in_the_middle_costs_a_retry_and_not_its_worker(
    root: Coordinator, hands: list[Worker], logs: Logs
) -> None:
    victim, before = hands[0], hands[0].pid
    (engine,) = _search_engines(victim)
    engine.suspend()  # it is asked, and does nothing
    with searching(root, "bytes<100", [logs.source]) as answer:
        until(lambda: _chunks_left(root) == 1, "the others have done the rest")
        engine.kill()
    found = answer.result()
    truth = logs.truth("SELECT id FROM logs WHERE bytes < 100 ORDER BY id")
    assert [row["id"] for row in found.rows] == [row["id"] for row in truth]
    assert found.done["retried"] >= 1
    assert victim.is_running
    assert victim.pid == before
    root.wait_free(CREW)
    assert search(root, BY_HOST, [logs.source]).rows == logs.truth(BY_HOST_SQL)


def _search_engines(worker: Worker) -> list[psutil.Process]:
    """Those that wait for a chunk."""
    (host,) = [each for each in worker.figures.children() if any("search_engine" in word for word in each.cmdline())]
    return host.children()


def test_without_any_worker_the_root_searches_alone(crew: Crew, logs: Logs) -> None:
    root = crew.coordinator().wait_up()
    found = search(root, BY_HOST, [logs.source])
    assert found.rows == logs.truth(BY_HOST_SQL)
    assert found.workers == {}


def test_a_reserved_worker_takes_no_other_work_until_it_is_released(
    root: Coordinator, hands: list[Worker], logs: Logs, tmp_path: Path
) -> None:
    given = root.door.post("/recruiter/recruit", {"number_requested": CREW})["workers"]
    assert sorted(worker["addr"] for worker in given) == sorted(addr(worker) for worker in hands)
    until(lambda: not root.accepting(), "nobody accepts work")
    with pytest.raises(RefusedError) as refused:
        root.door.scan(Scan("select 1 as x", timeout_s=0.5))
    assert refused.value.status in (503, 504)
    for worker in hands:
        worker.door.post("/worker/release", {})
    root.wait_free(CREW)
    until(lambda: len(root.accepting()) == CREW, "all accept work again")
    assert root.door.scan(Scan("select 1 as x")).table.num_rows == 1


def test_a_client_that_goes_away_gives_the_workers_back(root: Coordinator, hands: list[Worker], logs: Logs) -> None:
    hands[0].send(signal.SIGSTOP)  # so that the search cannot end by itself
    document = {"query": "*", "sources": [logs.source]}
    with root.door.posted("/v1/search", document, Accept="text/event-stream"):
        until(lambda: root.free() == 0, "all were recruited")
    until(lambda: root.free() == CREW - 1, "those that live are back")
    hands[0].send(signal.SIGCONT)
    root.wait_free(CREW)


def test_a_damaged_file_is_named_and_the_rest_is_searched(
    root: Coordinator, hands: list[Worker], tmp_path: Path
) -> None:
    logs = write_logs(tmp_path / "damaged", 2, 1000)
    truth = logs.truth("SELECT count(*) AS count FROM logs")[0]["count"]
    (logs.folder / "cut.ndjson.gz").write_bytes(b"\x1f\x8b\x08\x00nonsense")
    with (logs.folder / "app-0.ndjson").open("ab") as file:
        file.write(b'{"ts": "2026-11-01T00:00:00Z", "level": "er')
    found = search(root, "| count()", [logs.source])
    assert found.rows == [{"count": truth}]
    assert found.done["status"] == "partial"
    problems = {Path(problem["url"]).name: problem["lines"] for problem in found.done["problems"]}
    assert problems == {"cut.ndjson.gz": 0, "app-0.ndjson": 1}


@pytest.mark.parametrize(
    "document, reason",
    [
        (b"no json", "JSON"),
        ({"sources": ["/tmp"]}, "query"),
        ({"query": "level=", "sources": ["/tmp"]}, "^"),
        ({"query": "*", "sources": []}, "source"),
        ({"query": "*", "sources": ["/nowhere/at/all"]}, "/nowhere/at/all"),
        ({"query": "*", "sources": ["/tmp"], "max_workers": 0}, "max_workers"),
        ({"query": "*", "sources": ["/tmp"], "max_workers": 101}, "max_workers"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_with_a_reason(
    root: Coordinator, document: object, reason: str
) -> None:
    for path in ("/v1/search", "/worker/rootsearch"):
        with pytest.raises(RefusedError) as refused:
            root.door.post(path, document)
        assert 400 <= refused.value.status < 500
        assert reason in str(refused.value)


def test_a_field_that_no_record_has_is_an_error_that_names_those_there_are(
    root: Coordinator, hands: list[Worker], logs: Logs
) -> None:
    with pytest.raises(RefusedError) as refused:
        root.door.post("/v1/search", {"query": "levle=error", "sources": [logs.source]})
    assert refused.value.status == 400
    told = json.loads(str(refused.value).partition(": ")[2])["error"]
    assert "levle" in json.dumps(told)
    assert "level" in json.dumps(told).replace("levle", "")
    root.wait_free(CREW)


def _chunks_left(root: Coordinator) -> int:
    running = [each for each in root.door.get("/v1/searches") if each["state"] == "running"]
    return running[0]["chunks"] - running[0]["chunks_done"] if running else -1
