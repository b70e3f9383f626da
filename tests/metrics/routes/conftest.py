"""One coordinator and one worker, with samples of two tenants, for all tests of the routes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.crew import Coordinator, Crew, Worker
from tests.metrics.routes import samples
from tests.metrics.routes.asking import Asker


@dataclass(frozen=True, slots=True)
class Stage:
    coordinator: Coordinator
    worker: Worker
    lost: Path
    """The segment that is no longer there: one of the two of the metric `torn`."""


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("routes")
    lake = samples.LakeFolder(folder)
    with Crew(folder) as crew:
        lake.add("requests", samples.requests())  # makes the catalog, so that the coordinator finds it
        coordinator = crew.coordinator()
        lake.add("gauges", samples.gauges())
        lake.add("load", samples.load())
        lake.add("secrets", samples.secrets(), "acme")
        lost, _ = lake.add("torn", samples.torn())
        lost.unlink()
        worker = crew.worker("w1", join=[coordinator.control], metrics__leaf_threads=1, kinds="leaf")
        coordinator.wait_for(worker)
        yield Stage(coordinator, worker, lost)


@pytest.fixture
def asker(stage: Stage) -> Asker:
    return Asker(stage.coordinator.door)
