"""Coordinators that die: nothing runs for them any more, and whoever else the workers joined is not disturbed."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.conftest import FILES
from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import Scan
from tests.e2e.lake import ENDLESS, Lake, burning, same
from tests.e2e.logs import at_s

pytestmark = pytest.mark.xdist_group("e2e-coordinators")

STOPPED_WITHIN_S = 2.5
"""Before a silent coordinator counts as lost."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two coordinators, and workers that joined both."""

    first: Coordinator
    second: Coordinator
    workers: list[Worker]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Crew(tmp_path_factory.mktemp("two")) as crew:
        first, second = crew.coordinator("first"), crew.coordinator("second")
        joined = [first.stay().control, second.stay().control]
        workers = [crew.worker(name, join=joined, slots=2, queue_places=8) for name in ("both1", "both2")]
        yield Pair(first, second, workers)


@pytest.fixture
def pair(two: Pair) -> Pair:
    """All of them there: what a test has ended is started again."""
    for coordinator in (two.first, two.second):
        if not coordinator.is_running:
            coordinator.start()
        coordinator.wait_for(*two.workers)
    return two


def test_workers_stop_the_work_of_a_killed_coordinator_and_go_on_for_another(pair: Pair, lake: Lake) -> None:
    first, second, workers = pair.first, pair.second, pair.workers
    with first.door.begun(Scan(ENDLESS, lake.files[:8])):
        until(lambda: all(worker.busy > 0 for worker in workers), "the first coordinator's work runs")
        with second.door.asked(Scan(burning(2), [lake.source])) as answer:
            until(second.running, "the second one's query is under way")
            first.kill()
            killed_s = time.time()
        assert same(answer.result().table, lake.truth(burning(2)))
    assert second.query(answer.result().query_id)["attempts"] == FILES, "nobody's work but the dead one's was touched"
    for worker in workers:
        stopped = until(lambda worker=worker: worker.log.find("work stopped"), "its work was stopped")
        assert max(at_s(record) for record in stopped) - killed_s < STOPPED_WITHIN_S
        assert worker.busy == worker.queued == 0
        assert not worker.artifact_files

    first.start()
    first.wait_for(*workers)
    assert same(first.door.scan(Scan(burning(0.1), [lake.source])).table, lake.truth(burning(0.1)))


def test_a_coordinator_that_is_told_to_stop_lets_running_queries_finish(pair: Pair, lake: Lake) -> None:
    second = pair.second
    with second.door.asked(Scan(burning(1), [lake.source])) as answer:
        until(second.running, "the query is under way")
        second.send(signal.SIGTERM)
    assert same(answer.result().table, lake.truth(burning(1)))
    assert second.wait_end() == 0
