"""Recruiters, workers and roots that are restarted, killed and stuck: no worker is lost, a search retries at most."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.crew import Crew, Recruiter, Worker, until
from tests.e2e.log_lines import Logs, search, searching, write_logs
from tests.e2e.proxy import Proxy

pytestmark = pytest.mark.xdist_group("e2e-recruiter")

CREW = 3
IDLE_S = 1.0
RETRY_MAX_S = 1.0
BACK_WITHIN_S = 1.0
"""After an outage of less than half a second."""
OUTAGE_S = 0.4


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return write_logs(tmp_path_factory.mktemp("logs") / "app", 2, 100_000)


def hire(crew: Crew, *recruiters: str, number: int = CREW, **settings: object) -> list[Worker]:
    """Workers without a coordinator: nobody listens where they would join one."""
    own: dict[str, object] = {
        "recruiter__urls": ",".join(recruiters),
        "recruiter__leave_when_abandoned": "false",
        "recruiter__reserved_idle_s": IDLE_S,
        "recruiter__retry_max_s": RETRY_MAX_S,
        "reconnect_max_s": 60,
        **settings,
    }
    return [crew.worker(f"h{each}", join=["127.0.0.1:1"], node=f"node-{each}", **own) for each in range(number)]


@pytest.fixture
def recruiter(crew: Crew) -> Recruiter:
    return crew.recruiter().wait_up().stay()


@pytest.fixture
def proxied(recruiter: Recruiter) -> Iterator[Proxy]:
    """A network between the workers and the recruiter."""
    with Proxy(recruiter.http) as proxy:
        yield proxy


def test_a_registered_worker_that_dies_leaves_the_pool_and_comes_back_when_it_is_started_again(
    crew: Crew, recruiter: Recruiter
) -> None:
    workers = hire(crew, recruiter.http)
    recruiter.wait_free(CREW)
    workers[0].kill()
    recruiter.wait_free(CREW - 1, within_s=5)
    assert len(recruiter.door.get("/recruiter/listfree")["workers"]) == CREW - 1
    workers[0].start()
    recruiter.wait_free(CREW)


def test_after_a_short_outage_all_workers_are_back_within_a_second(
    crew: Crew, recruiter: Recruiter, proxied: Proxy
) -> None:
    hire(crew, proxied.url)
    recruiter.wait_free(CREW)
    for _ in range(3):
        proxied.refuse()
        proxied.cut()
        recruiter.wait_free(0, within_s=5)
        time.sleep(OUTAGE_S)  # how long it lasts is what this is about
        proxied.restore()
        recruiter.wait_free(CREW, within_s=BACK_WITHIN_S)


def test_after_a_restart_of_the_recruiter_all_workers_are_back_within_one_backoff_interval(
    crew: Crew, recruiter: Recruiter
) -> None:
    hire(crew, recruiter.http)
    recruiter.wait_free(CREW)
    recruiter.kill()
    recruiter.start().wait_up()
    recruiter.wait_free(CREW, within_s=RETRY_MAX_S * 1.25 + 0.5)


def test_workers_whose_root_dies_before_it_asks_are_found_by_their_idle_timer(crew: Crew, recruiter: Recruiter) -> None:
    hire(crew, recruiter.http)
    recruiter.wait_free(CREW)
    given = recruiter.door.post("/recruiter/recruit", {"N": CREW})["workers"]
    assert len({worker["node"] for worker in given}) == CREW
    assert recruiter.free() == 0
    recruiter.wait_free(CREW, within_s=IDLE_S + 5)


def test_a_worker_by_itself_ends_when_it_is_abandoned(crew: Crew, recruiter: Recruiter) -> None:
    [worker] = hire(crew, recruiter.http, number=1, recruiter__leave_when_abandoned="true")
    recruiter.wait_free(1)
    recruiter.door.post("/recruiter/recruit", {"N": 1})
    assert worker.wait_end(within_s=IDLE_S + 15) == 0
    worker.start()
    recruiter.wait_free(1)


def test_a_root_that_is_killed_during_its_requests_loses_its_workers_to_the_pool(
    crew: Crew, recruiter: Recruiter, logs: Logs
) -> None:
    root = crew.coordinator("root", search__recruiters=recruiter.http).wait_up()
    workers = hire(crew, recruiter.http)
    recruiter.wait_free(CREW)
    workers[0].send(signal.SIGSTOP)  # it has its chunk, and the search waits for it
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: search(root, "*", [logs.source]))
        until(lambda: recruiter.free() == 0, "all were recruited")
        root.kill()
        assert asked.exception(60) is not None
    workers[0].send(signal.SIGCONT)
    recruiter.wait_free(CREW, within_s=IDLE_S + 10)


def test_a_root_that_is_stuck_is_found_by_the_progress_deadline(
    crew: Crew, recruiter: Recruiter, tmp_path: Path
) -> None:
    logs = write_logs(tmp_path / "many", 1, 200_000)
    [worker] = hire(crew, recruiter.http, number=1, recruiter__reserved_progress_s=1)
    recruiter.wait_free(1)
    recruiter.door.post("/recruiter/recruit", {"N": 1})
    document = {"query": "*", "chunk_paths": [f"{logs.folder}/app-0.ndjson"]}
    with worker.door.posted("/worker/chunksearch", document):  # and nothing of the answer is read
        until(lambda: worker.door.get("/monitor/scaling")["searches_in_flight"] == 1, "it searches")
        recruiter.wait_free(1, within_s=IDLE_S + 15)
        assert worker.door.get("/monitor/scaling")["searches_in_flight"] == 0


def test_a_word_of_an_older_reservation_does_nothing_to_a_newer_one(
    crew: Crew, recruiter: Recruiter, logs: Logs
) -> None:
    [worker] = hire(crew, recruiter.http, number=1)
    recruiter.wait_free(1)
    [old] = recruiter.door.post("/recruiter/recruit", {"N": 1})["workers"]
    recruiter.wait_free(1, within_s=IDLE_S + 10)
    [new] = recruiter.door.post("/recruiter/recruit", {"N": 1})["workers"]
    assert old["reservation"] != new["reservation"]
    worker.door.post("/worker/release", {}, **{"X-Reservation": old["reservation"]})
    assert worker.door.get("/monitor/scaling")["reserved"] == 1
    document = {"query": "| count()", "chunk_paths": [f"{logs.folder}/app-0.ndjson"]}
    with worker.door.posted("/worker/chunksearch", document, **{"X-Reservation": old["reservation"]}) as connection:
        assert connection.getresponse().status == 409
    with worker.door.posted("/worker/chunksearch", document, **{"X-Reservation": new["reservation"]}) as connection:
        assert connection.getresponse().read().splitlines() == [b'{"count":100000}']
    worker.door.post("/worker/release", {}, **{"X-Reservation": new["reservation"]})
    recruiter.wait_free(1, within_s=IDLE_S)


def test_two_recruiters_are_upgraded_one_after_the_other_while_searches_run(crew: Crew, logs: Logs) -> None:
    pair = [crew.recruiter("left"), crew.recruiter("right")]
    for each in pair:
        each.wait_up().stay()
    # Both are roots, and each recruits from both.
    urls = [each.http for each in pair]
    root = crew.coordinator("root", search__recruiters=",".join(urls)).wait_up()
    hire(crew, *urls, number=4)
    until(lambda: sum(each.free() for each in pair) == 4, "all are in one pool or the other")
    truth = logs.truth("SELECT count(*) AS count FROM logs WHERE level = 'error'")
    for each in pair:
        other = next(one for one in pair if one is not each)
        with searching(root, "level=error | count()", [logs.source]) as under_way:
            each.send(signal.SIGTERM)
            assert each.wait_end() == 0
        assert under_way.result().rows == truth
        until(lambda other=other: other.free() == 4, "all have moved to the other one", within_s=10)
        found = search(root, "level=error | count()", [logs.source])
        assert found.rows == truth
        assert found.workers
        each.start().wait_up()
    found = search(root, "level=error | count()", [logs.source])
    assert found.rows == truth
