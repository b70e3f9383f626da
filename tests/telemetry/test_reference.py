"""The page about metrics says what the code does."""

import re
from pathlib import Path

from quarterdeck.telemetry import reference
from quarterdeck.telemetry.exposition import new_registry
from quarterdeck.telemetry.metrics import (
    CoordinatorMetrics,
    LakeMetrics,
    RecruiterMetrics,
    SearchMetrics,
    StoreFigures,
    StoreMetrics,
    WorkerMetrics,
)
from quarterdeck.telemetry.metrics.families import Audience
from tests.telemetry.full import coordinator_figures, recruiter_figures, search_figures, worker_figures
from tests.telemetry.scrape import scrape

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def _exposed() -> set[str]:
    coordinator, worker, recruiter = new_registry(), new_registry(), new_registry()
    CoordinatorMetrics(coordinator).read_figures_from(coordinator_figures)
    WorkerMetrics(worker).read_figures_from(worker_figures)
    RecruiterMetrics(recruiter).read_figures_from(recruiter_figures)
    SearchMetrics(recruiter).read_figures_from(search_figures)
    StoreMetrics(coordinator).read_figures_from(lambda: StoreFigures(hanging=0, timed_out=0))
    LakeMetrics(coordinator)
    lines = [*scrape(coordinator), *scrape(worker), *scrape(recruiter)]
    return {line.name for line in lines if line.name.startswith("quarterdeck_")}


def test_the_page_is_the_one_that_is_rendered() -> None:
    message = "run: python -m quarterdeck.telemetry.reference > docs/metrics.md"
    assert PAGE.read_text() == reference.render(), message


def test_every_metric_has_a_row_and_every_row_a_metric() -> None:
    rows = set(re.findall(r"^\| `(quarterdeck_\w+)` \|", reference.render(), re.MULTILINE))
    assert rows == {re.sub(r"_(bucket|sum|count)$", "", name) for name in _exposed()}


def test_the_questions_are_asked_of_metrics_that_exist() -> None:
    questions = reference.render().split("## Questions")[1].split("\n## ")[0]
    asked = set(re.findall(r"quarterdeck_\w+", questions))
    assert asked
    assert asked <= _exposed()


def test_every_row_has_five_cells() -> None:
    rows = [line for line in reference.render().splitlines() if line.startswith("| `quarterdeck_")]
    assert {line.count("|") for line in rows} == {6}


def test_the_page_explains_for_whom_a_metric_is() -> None:
    for audience in Audience:
        assert f"| {audience} | " in reference.render()
