"""Coordinators that dial their workers: the same conversation, and a worker that was restarted is found again."""

import pytest

from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import Scan
from tests.e2e.lake import ALL, Lake, same
from tests.e2e.proxy import Proxy

pytestmark = pytest.mark.xdist_group("e2e-coordinators")


def incarnation(coordinator: Coordinator, worker: Worker) -> int:
    return coordinator.workers()[worker.name]["incarnation"]


def test_a_coordinator_dials_its_workers_and_finds_one_again_that_was_restarted(crew: Crew, lake: Lake) -> None:
    with Proxy() as line:
        worker = crew.worker("listener", "--listen", "127.0.0.1:0")
        coordinator = crew.coordinator("dialler", "--dial", line.address, reconnect_max_s=0.5)
        line.lead_to(worker.control)
        coordinator.wait_for(worker)
        assert same(coordinator.door.scan(Scan(ALL, [lake.source])).table, lake.truth(ALL))
        before = incarnation(coordinator, worker)

        worker.kill()
        until(lambda: worker.name not in coordinator.workers(), "the coordinator has lost it")
        line.lead_to(worker.start().control)
        coordinator.wait_for(worker)
        assert same(coordinator.door.scan(Scan(ALL, [lake.source])).table, lake.truth(ALL))
        assert incarnation(coordinator, worker) > before
