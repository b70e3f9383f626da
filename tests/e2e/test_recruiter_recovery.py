"""Recruiters, workers and roots that are restarted, killed and stuck: no worker is lost, a search retries at most."""

import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.crew import Crew, Document, Recruiter, Worker, until
from tests.e2e.log_lines import Logs, search, searching, write_logs
from tests.e2e.proxy import Proxy
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.xdist_group("e2e-recruiter")

CREW = 3
IDLE_S = 1.0
RETRY_MAX_S = 20.0
"""The longest wait between two tries to register: whoever waited like that would be noticed."""
OUTAGE_S = 0.4
"""Less than half a second."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return write_logs(tmp_path_factory.mktemp("logs") / "app", 2, 100_000)


def hire(crew: Crew, *recruiters: str, names: Sequence[str], **settings: object) -> list[Worker]:
    """Workers without a coordinator: nobody listens where they would join one."""
    own: dict[str, object] = {
        "recruiter__urls": ",".join(recruiters),
        "recruiter__leave_when_abandoned": "false",
        "recruiter__reserved_idle_s": IDLE_S,
        "recruiter__retry_max_s": RETRY_MAX_S,
        "reconnect_max_s": 60,
        **settings,
    }
    return [crew.worker(name, join=["127.0.0.1:1"], node=f"node-{name}", **own) for name in names]


@dataclass(frozen=True, slots=True)
class Office:
    """A recruiter with three workers in its pool, and a network between them."""

    crew: Crew
    recruiter: Recruiter
    network: Proxy
    workers: list[Worker]

    def recruit(self, number: int) -> list[Document]:
        """Those that were given, in the order of their addresses."""
        given = self.recruiter.door.post("/recruiter/recruit", {"N": number})["workers"]
        return sorted(given, key=lambda worker: str(worker["addr"]))


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with Crew(tmp_path_factory.mktemp("office")) as crew:
        recruiter = crew.recruiter().stay()
        with Proxy(recruiter.http) as network:
            workers = hire(crew, network.url, names=[f"h{number}" for number in range(CREW)])
            yield Office(crew, recruiter, network, workers)


@pytest.fixture
def office(standing: Office) -> Office:
    """All of them there and free: what a test has ended is started again."""
    standing.network.restore()
    for member in (standing.recruiter, *standing.workers):
        if not member.is_running:
            member.start()
        member.send(signal.SIGCONT)
    standing.recruiter.wait_free(CREW)
    return standing


def test_a_registered_worker_that_dies_leaves_the_pool_and_comes_back_when_it_is_started_again(office: Office) -> None:
    office.workers[0].kill()
    office.recruiter.wait_free(CREW - 1)
    assert len(office.recruiter.door.get("/recruiter/listfree")["workers"]) == CREW - 1
    office.workers[0].start()
    office.recruiter.wait_free(CREW)


def test_after_a_short_outage_all_workers_are_back_long_before_the_longest_wait_between_two_tries(
    office: Office,
) -> None:
    """That it takes less than a second is a matter of the machine that decides how long they wait, and tested there."""
    for _ in range(3):
        office.network.refuse()
        office.network.cut()
        office.recruiter.wait_free(0)
        time.sleep(OUTAGE_S)  # how long it lasts is what this is about
        office.network.restore()
        office.recruiter.wait_free(CREW, within_s=RETRY_MAX_S / 2)


def test_after_a_restart_of_the_recruiter_all_workers_are_back(office: Office) -> None:
    office.recruiter.kill()
    office.recruiter.start().wait_up()
    office.recruiter.wait_free(CREW)


def test_workers_whose_root_dies_before_it_asks_are_found_by_their_idle_timer(office: Office) -> None:
    given = office.recruit(CREW)
    assert len({worker["node"] for worker in given}) == CREW
    assert office.recruiter.free() == 0
    office.recruiter.wait_free(CREW)


def test_a_root_that_is_killed_during_its_requests_loses_its_workers_to_the_pool(office: Office, logs: Logs) -> None:
    root = office.crew.coordinator("root", search__recruiters=office.recruiter.http).wait_up()
    office.workers[0].send(signal.SIGSTOP)  # it has its chunk, and the search waits for it
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: search(root, "*", [logs.source]))
        until(lambda: office.recruiter.free() == 0, "all were recruited")
        root.kill()
        assert asked.exception(PATIENCE_S) is not None
    office.workers[0].send(signal.SIGCONT)
    office.recruiter.wait_free(CREW)


def test_a_word_of_an_older_reservation_does_nothing_to_a_newer_one(office: Office, logs: Logs) -> None:
    old = office.recruit(CREW)[0]
    office.recruiter.wait_free(CREW)
    new = office.recruit(CREW)[0]
    assert old["addr"] == new["addr"]
    assert old["reservation"] != new["reservation"]
    (worker,) = (one for one in office.workers if one.http.endswith(str(new["addr"])))
    worker.door.post("/worker/release", {}, **{"X-Reservation": old["reservation"]})
    assert worker.door.get("/monitor/scaling")["reserved"] == 1
    document = {"query": "| count()", "chunk_paths": [f"{logs.folder}/app-0.ndjson"]}
    with worker.door.posted("/worker/chunksearch", document, **{"X-Reservation": old["reservation"]}) as connection:
        assert connection.getresponse().status == 409
    with worker.door.posted("/worker/chunksearch", document, **{"X-Reservation": new["reservation"]}) as connection:
        assert connection.getresponse().read().splitlines() == [b'{"count":100000}']
    worker.door.post("/worker/release", {}, **{"X-Reservation": new["reservation"]})
    until(lambda: worker.door.get("/monitor/scaling")["reserved"] == 0, "it was released")


def test_a_worker_by_itself_ends_when_it_is_abandoned_and_one_whose_root_is_stuck_finds_it_out(
    crew: Crew, tmp_path: Path
) -> None:
    recruiter = crew.recruiter().wait_up()
    [leaving] = hire(crew, recruiter.http, names=["leaving"], recruiter__leave_when_abandoned="true")
    [staying] = hire(crew, recruiter.http, names=["staying"], recruiter__reserved_progress_s=1)
    logs = write_logs(tmp_path / "many", 1, 200_000)
    recruiter.wait_free(2)
    recruiter.door.post("/recruiter/recruit", {"N": 2})
    document = {"query": "*", "chunk_paths": [f"{logs.folder}/app-0.ndjson"]}
    with staying.door.posted("/worker/chunksearch", document):  # and nothing of the answer is read
        until(lambda: staying.door.get("/monitor/scaling")["searches_in_flight"] == 1, "it searches")
        recruiter.wait_free(1)
        assert staying.door.get("/monitor/scaling")["searches_in_flight"] == 0
    assert leaving.wait_end() == 0
    leaving.start()
    recruiter.wait_free(2)


def test_two_recruiters_are_upgraded_one_after_the_other_while_searches_run(crew: Crew, logs: Logs) -> None:
    pair = [crew.recruiter("left"), crew.recruiter("right")]
    for each in pair:
        each.wait_up().stay()
    # Both are roots, and each recruits from both.
    urls = [each.http for each in pair]
    root = crew.coordinator("root", search__recruiters=",".join(urls)).wait_up()
    hire(crew, *urls, names=["a", "b", "c", "d"], recruiter__retry_max_s=1)
    until(lambda: sum(each.free() for each in pair) == 4, "all are in one pool or the other")
    truth = logs.truth("SELECT count(*) AS count FROM logs WHERE level = 'error'")
    for each in pair:
        other = next(one for one in pair if one is not each)
        with searching(root, "level=error | count()", [logs.source]) as under_way:
            each.send(signal.SIGTERM)
            assert each.wait_end() == 0
        assert under_way.result().rows == truth
        until(lambda other=other: other.free() == 4, "all have moved to the other one")
        found = search(root, "level=error | count()", [logs.source])
        assert found.rows == truth
        assert found.workers
        each.start().wait_up()
    found = search(root, "level=error | count()", [logs.source])
    assert found.rows == truth
