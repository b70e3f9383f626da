"""Two tenants search with one coordinator: neither sees, cancels, reserves or counts anything of the other's."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import Door, RefusedError
from tests.e2e.log_lines import Logs, search, searching, write_logs

pytestmark = pytest.mark.xdist_group("e2e-search")

ACME, OTHER = "acme", "other"
COUNT = "level=error | count() by host"


@dataclass(frozen=True, slots=True)
class Asker:
    """The coordinator, as one tenant reaches it."""

    root: Coordinator
    tenant: str

    @property
    def door(self) -> Door:
        return self.root.door.of(self.tenant)

    def free(self) -> int:
        return int(self.door.get("/recruiter/stats")["len_free_pool"])

    def release(self, worker: Worker, reservation: str = "") -> None:
        headers = {"X-Reservation": reservation} if reservation else {}
        worker.door.of(self.tenant).post("/worker/release", {}, **headers)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return write_logs(tmp_path_factory.mktemp("logs") / "app", 2, 60_000)


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with Crew(tmp_path_factory.mktemp("tenants")) as crew:
        yield crew


@pytest.fixture(scope="module")
def root(crew: Crew) -> Coordinator:
    return crew.coordinator().wait_up()


@pytest.fixture(scope="module")
def of_each(crew: Crew, root: Coordinator) -> dict[str, Worker]:
    return {
        tenant: crew.worker(
            f"of-{tenant}",
            join=[root.control],
            recruiter__urls=root.http,
            tenant=tenant,
            node=f"node-of-{tenant}",
            recruiter__leave_when_abandoned="false",
            recruiter__reserved_idle_s=5,
            recruiter__retry_max_s=0.5,
        )
        for tenant in (ACME, OTHER)
    }


@pytest.fixture
def workers(root: Coordinator, of_each: dict[str, Worker]) -> dict[str, Worker]:
    """One of each tenant, both free."""
    root.wait_free(2)
    return of_each


def addr(worker: Worker) -> str:
    return worker.http.partition("://")[2]


def test_a_search_is_done_by_workers_of_its_tenant_alone(
    root: Coordinator, workers: dict[str, Worker], logs: Logs
) -> None:
    for tenant, worker in workers.items():
        found = search(Asker(root, tenant), COUNT, [logs.source])
        assert found.workers.keys() == {addr(worker)}
        assert sum(row["count"] for row in found.rows) > 0
    root.wait_free(2)


def test_a_tenant_whose_worker_is_taken_searches_without_one_and_not_with_anothers(
    root: Coordinator, workers: dict[str, Worker], logs: Logs
) -> None:
    acme, other = Asker(root, ACME), Asker(root, OTHER)
    (given,) = acme.door.post("/recruiter/recruit", {"number_requested": 9})["workers"]
    assert given["addr"] == addr(workers[ACME])
    assert search(acme, COUNT, [logs.source]).workers == {}
    assert (acme.free(), other.free()) == (0, 1)
    acme.release(workers[ACME], given["reservation"])
    root.wait_free(2)


def test_no_list_tells_a_tenant_of_anothers_workers_nodes_reservations_or_searches(
    root: Coordinator, workers: dict[str, Worker], logs: Logs
) -> None:
    askers = {tenant: Asker(root, tenant) for tenant in (ACME, OTHER)}
    before = {tenant: asker.door.get("/recruiter/stats") for tenant, asker in askers.items()}
    secret = f"password=hush {COUNT}"
    search(askers[ACME], secret, [logs.source])
    until(lambda: root.free() == 2, "the worker is back")
    after = {tenant: asker.door.get("/recruiter/stats") for tenant, asker in askers.items()}
    assert after[ACME]["granted"] == before[ACME]["granted"] + 1
    assert after[OTHER] == before[OTHER]
    assert after[ACME]["by_node"].keys() == {"node-of-acme"}
    for tenant, asker in askers.items():
        (free,) = asker.door.get("/recruiter/listfree")["workers"]
        assert free["addr"] == addr(workers[tenant])
        for path in ("/v1/searches", "/v1/queries"):
            told = asker.door.get(path)
            assert any("password=***" in str(one.values()) for one in told) == (tenant == ACME)
            assert "hush" not in str(told)
        assert {one["tenant"] for one in asker.door.get("/v1/queries")} <= {tenant}
    (mine,) = [one for one in askers[ACME].door.get("/v1/searches") if "password" in one["query"]]
    for path in ("/v1/searches", "/v1/queries"):
        assert askers[ACME].door.get(f"{path}/{mine['query_id']}")["query_id"] == mine["query_id"]
        with pytest.raises(RefusedError) as refused:
            askers[OTHER].door.get(f"{path}/{mine['query_id']}")
        assert refused.value.status == 404


def test_a_tenant_neither_ends_anothers_reservation_nor_searches_on_its_worker(
    root: Coordinator, workers: dict[str, Worker], logs: Logs
) -> None:
    acme, other, mine = Asker(root, ACME), Asker(root, OTHER), workers[ACME]
    (given,) = acme.door.post("/recruiter/recruit", {"number_requested": 1})["workers"]
    chunk = {"query": "level=error", "chunk_paths": [logs.source + "/app-0.ndjson"]}
    for name in ("", given["reservation"]):
        other.release(mine, name)
        headers = {"X-Reservation": name} if name else {}
        with pytest.raises(RefusedError) as refused:
            mine.door.of(OTHER).post("/worker/chunksearch", chunk, **headers)
        assert refused.value.status == 409
    assert mine.door.get("/monitor/scaling")["reserved"] == 1
    acme.release(mine)
    root.wait_free(2)


def test_a_search_goes_on_whatever_another_tenant_does(
    root: Coordinator, workers: dict[str, Worker], logs: Logs
) -> None:
    acme, other = Asker(root, ACME), Asker(root, OTHER)
    workers[ACME].send(signal.SIGSTOP)  # so that the search cannot end by itself
    with searching(acme, COUNT, [logs.source]) as answer:
        until(lambda: acme.free() == 0, "the worker was recruited")
        assert other.free() == 1
        assert len(search(other, COUNT, [logs.source]).rows) == 9
        other.release(workers[OTHER])
        workers[ACME].send(signal.SIGCONT)
    assert answer.result().workers.keys() == {addr(workers[ACME])}
    root.wait_free(2)
