"""Workers that are told to stop while they have work: nothing is lost, and they end with the right exit code."""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import FILES, FOUR, SPARE_PLACES
from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import Scan
from tests.e2e.lake import ENDLESS, Lake, burning, same

pytestmark = pytest.mark.xdist_group("e2e-shared")

AT_ONCE_S = 3.0
"""For a process to end that has nothing to wait for; it has threads and sockets to close, and the machine is busy."""


@pytest.fixture(scope="module")
def leavers(coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Worker]]:
    """One for each test, started at once."""
    with Crew(tmp_path_factory.mktemp("leavers")) as crew:
        yield {
            name: crew.worker(name, join=[coordinator.control], tenant=tenant, queue_places=SPARE_PLACES)
            for name, tenant in (("leaver", FOUR), ("asked", FOUR), ("hurried", "hurried"))
        }


def leave_under_load(coordinator: Coordinator, leaver: Worker, lake: Lake, how: str) -> None:
    """A query runs, the worker leaves in the middle of it, and the answer is the same."""
    coordinator.wait_for(leaver)
    session = coordinator.session_of(leaver)
    with coordinator.door.asked(Scan(burning(3), [lake.source], FOUR)) as answer:
        until(lambda: leaver.busy == 1 and leaver.queued >= 2, "it has work that runs and work that waits")
        if how == "signal":
            leaver.send(signal.SIGTERM)
        else:
            coordinator.door.ask("POST", f"/v1/crew/{leaver.name}/drain")
        assert leaver.wait_end() == 0
    assert same(answer.result().table, lake.truth(burning(3)))

    query = coordinator.query(answer.result().query_id)
    returned = coordinator.log.find("work handed back", session_id=session)
    assert len(returned) >= 2
    rejected = coordinator.log.find("work rejected", session_id=session)  # what was on its way to it
    assert query["attempts"] == FILES + len(returned) + len(rejected), "what ran was finished and fetched"
    assert query["by_worker"][leaver.name] >= 1
    assert leaver.name not in coordinator.workers()
    assert leaver.log.find("drained")
    assert not leaver.artifact_files


def test_a_worker_that_is_told_to_stop_finishes_what_runs_hands_back_the_rest_and_exits_with_0(
    coordinator: Coordinator, hands: list[Worker], leavers: dict[str, Worker], lake: Lake
) -> None:
    leave_under_load(coordinator, leavers["leaver"], lake, "signal")


def test_a_worker_that_its_coordinator_asks_to_drain_does_the_same(
    coordinator: Coordinator, hands: list[Worker], leavers: dict[str, Worker], lake: Lake
) -> None:
    leave_under_load(coordinator, leavers["asked"], lake, "request")


def test_a_second_signal_ends_a_draining_worker_at_once(
    coordinator: Coordinator, leavers: dict[str, Worker], lake: Lake
) -> None:
    leaver = leavers["hurried"]
    coordinator.wait_for(leaver)
    session = coordinator.session_of(leaver)
    with coordinator.door.begun(Scan(ENDLESS, lake.files[:3], "hurried")):
        until(lambda: leaver.busy == 1, "it has work that runs")
        leaver.send(signal.SIGTERM)
        until(lambda: leaver.log.find("draining: nothing new is taken, what runs is finished"), "it drains")
        until(
            lambda: len(coordinator.log.find("work handed back", session_id=session)) == 2,
            "it has handed back the rest",
        )
        assert leaver.is_running
        leaver.send(signal.SIGTERM)
        told_s = time.monotonic()
        assert leaver.wait_end() == 130
        assert time.monotonic() - told_s < AT_ONCE_S
    assert not leaver.artifact_files
