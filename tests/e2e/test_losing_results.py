"""Results that are ready and never arrive whole: they are computed again, elsewhere, and the answer is the same."""

import http.client
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import FILES, FOUR, SPARE_PLACES, in_rotation
from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import RefusedError, Scan, delta
from tests.e2e.lake import ALL, Lake, same
from tests.e2e.proxy import Proxy

pytestmark = pytest.mark.xdist_group("e2e-shared")

TTL_S = 0.5


class Remote:
    """A worker whose results are fetched over a network that a test can spoil."""

    def __init__(self, crew: Crew, proxy: Proxy, coordinator: Coordinator, name: str, **settings: object) -> None:
        self.proxy = proxy
        self.coordinator = coordinator
        self.worker = crew.worker(
            name,
            join=[coordinator.control],
            tenant=FOUR,
            queue_places=SPARE_PLACES,
            advertise_url=proxy.url,
            **settings,
        )

    def ready(self) -> Worker:
        """The worker, in rotation, and its results within reach."""
        self.proxy.restore()
        in_rotation(self.coordinator, [self.worker])
        self.proxy.lead_to(self.worker.http)
        return self.worker


@pytest.fixture(scope="module")
def remotes(coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Remote]]:
    """Both are started at once; one keeps results for as long as usual, the other for a moment."""
    with Crew(tmp_path_factory.mktemp("remote")) as crew, Proxy() as near, Proxy() as hasty:
        yield {
            "remote": Remote(crew, near, coordinator, "remote"),
            "hasty": Remote(crew, hasty, coordinator, "hasty", artifact_ttl_s=TTL_S),
        }
    coordinator.wait_without("remote", "hasty")


@pytest.fixture
def remote(remotes: dict[str, Remote], hands: list[Worker]) -> Remote:
    for each in remotes.values():
        each.ready()
    return remotes["remote"]


@pytest.fixture
def hasty(remotes: dict[str, Remote], remote: Remote) -> Remote:
    return remotes["hasty"]


def test_a_worker_killed_between_ready_and_the_fetch_costs_an_attempt_and_not_the_query(
    coordinator: Coordinator, remote: Remote, lake: Lake
) -> None:
    worker = remote.worker
    remote.proxy.stall()
    with coordinator.door.asked(Scan(ALL, [lake.source], FOUR)) as answer:
        until(lambda: remote.proxy.open > 0 and worker.busy == worker.queued == 0, "its results wait to be fetched")
        assert worker.door.metric("quarterdeck_worker_artifacts") > 0
        worker.kill()
    assert same(answer.result().table, lake.truth(ALL))
    query = coordinator.query(answer.result().query_id)
    assert query["attempts"] > query["works"] == FILES
    assert worker.name not in query["by_worker"]


def test_a_result_that_expired_before_it_was_fetched_is_computed_again(
    coordinator: Coordinator, hasty: Remote, lake: Lake
) -> None:
    worker = hasty.worker
    before = worker.door.metrics()
    hasty.proxy.stall()
    with coordinator.door.asked(Scan(ALL, [lake.source], FOUR)) as answer:
        pass
    assert same(answer.result().table, lake.truth(ALL))
    query = coordinator.query(answer.result().query_id)
    assert query["attempts"] > query["works"] == FILES
    lost = coordinator.log.find("result lost", query_id=answer.result().query_id, reason="expired")
    assert {record["session_id"] for record in lost} == {coordinator.session_of(worker)}
    removed = "quarterdeck_worker_artifacts_removed_total"
    assert worker.door.metrics()[removed]["expired",] - before[removed]["expired",] == len(lost)
    until(lambda: not worker.artifact_files, "no file of it is left")


def test_a_result_that_was_damaged_on_its_way_is_counted_and_had_from_another_worker(
    coordinator: Coordinator, remote: Remote, lake: Lake
) -> None:
    before = coordinator.door.metrics()
    remote.proxy.damage()
    answer = coordinator.door.scan(Scan(ALL, [lake.source], FOUR))
    assert same(answer.table, lake.truth(ALL))
    query = coordinator.query(answer.query_id)
    assert query["attempts"] > query["works"] == FILES
    assert remote.worker.name not in query["by_worker"]
    # The hasty one may be there, too, and on a busy machine a result of its expires before it is fetched.
    told = coordinator.log.find("fetch failed", query_id=answer.query_id)
    failed = [record for record in told if f"from worker {remote.worker.name} at" in record["reason"]]
    assert failed
    assert all("checksum" in record["reason"] for record in failed)
    mismatches = delta(before, coordinator.door.metrics(), "quarterdeck_coordinator_checksum_mismatches_total")
    assert mismatches == len(failed)


def test_two_bad_workers_do_not_fail_a_query_that_others_could_answer(
    coordinator: Coordinator, remote: Remote, hasty: Remote, lake: Lake
) -> None:
    remote.proxy.damage()
    hasty.proxy.stall()
    answer = coordinator.door.scan(Scan(ALL, [lake.source], FOUR))
    assert same(answer.table, lake.truth(ALL))
    assert not {remote.worker.name, hasty.worker.name} & coordinator.query(answer.query_id)["by_worker"].keys()


@pytest.mark.parametrize(
    "path",
    [
        "/artifacts/../identity.json",
        "/artifacts/..%2fidentity.json",
        "/artifacts//etc/passwd",
        "/artifacts/",
        "/a/../b",
    ],
)
def test_a_path_that_is_no_artifact_is_not_found(hands: list[Worker], path: str) -> None:
    with pytest.raises(RefusedError) as refused:
        hands[0].door.ask("GET", path)
    assert (refused.value.status, refused.value.code) == (http.client.NOT_FOUND, "not_found")
