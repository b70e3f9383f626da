"""The page about metrics says what the code does."""

import re
from pathlib import Path

from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.metrics.metering import LakeMetrics, coordinator_readings
from quarterdeck.metrics.metering import worker_readings as leaf_readings
from quarterdeck.recruiter.metering import RecruiterMetrics
from quarterdeck.recruiter.worker_metering import worker_readings as reservation_readings
from quarterdeck.reference import metrics_page
from quarterdeck.search.metering import SearchMetrics
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics import (
    CoordinatorMetrics,
    LeadershipFigures,
    LeadershipMetrics,
    StoreFigures,
    StoreMetrics,
    WorkerMetrics,
)
from quarterdeck.telemetry.metrics.families import Audience
from tests.telemetry.full import (
    coordinator_figures,
    leaf_figures,
    query_figures,
    recruiter_figures,
    reservation_figures,
    search_figures,
    worker_figures,
)
from tests.telemetry.scrape import scrape

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def _exposed() -> set[str]:
    """What stands in scrapes, and not only in the reference: names without what a histogram's series add."""
    coordinator, worker, services = new_registry(), new_registry(), new_registry()
    coordinators, workers = CoordinatorMetrics(coordinator), WorkerMetrics(worker, (WorkKind("leaf"),))
    coordinators.read_figures_from(coordinator_figures)
    workers.read_figures_from(worker_figures)
    StoreMetrics(coordinator).read_figures_from(lambda: StoreFigures(hanging=0, timed_out=0))
    LeadershipMetrics(coordinator).read_figures_from(
        lambda: LeadershipFigures(leads=True, fence=1, gained=1, lost={}, requests_failed=0)
    )
    coordinator_readings(coordinators.families).read_from(query_figures)
    leaf_readings(workers.families).read_from(leaf_figures)
    reservation_readings(workers.families).read_from(reservation_figures)
    RecruiterMetrics(services).read_figures_from(recruiter_figures)
    SearchMetrics(services).read_figures_from(search_figures)
    LakeMetrics(services)
    lines = [*scrape(coordinator), *scrape(worker), *scrape(services)]
    return {line.name for line in lines if line.name.startswith("quarterdeck_")}


def test_the_page_is_the_one_that_is_rendered() -> None:
    message = "run: python -m quarterdeck.reference metrics > docs/metrics.md"
    assert PAGE.read_text() == metrics_page(), message


def test_every_metric_has_a_row_and_every_row_a_metric() -> None:
    rows = set(re.findall(r"^\| `(quarterdeck_\w+)` \|", metrics_page(), re.MULTILINE))
    assert rows == {re.sub(r"_(bucket|sum|count)$", "", name) for name in _exposed()}


def test_the_questions_are_asked_of_metrics_that_exist() -> None:
    questions = metrics_page().split("## Questions")[1].split("\n## ")[0]
    asked = set(re.findall(r"quarterdeck_\w+", questions))
    assert asked
    assert asked <= _exposed()


def test_every_row_has_five_cells() -> None:
    rows = [line for line in metrics_page().splitlines() if line.startswith("| `quarterdeck_")]
    assert {line.count("|") for line in rows} == {6}


def test_the_page_explains_for_whom_a_metric_is() -> None:
    for audience in Audience:
        assert f"| {audience} | " in metrics_page()
