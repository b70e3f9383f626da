"""A scraper gets the format that it prefers."""

import pytest
from prometheus_client import CollectorRegistry

from quarterdeck.telemetry.exposition import new_registry, render
from quarterdeck.telemetry.metrics import CoordinatorMetrics, exemplar
from tests.telemetry.full import coordinator_figures
from tests.telemetry.scrape import scrape

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    "accept, content_type",
    [
        (None, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("application/json", TEXT),
        ("application/openmetrics-text", OPEN),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPEN),
        (PROMETHEUS_3, OPEN),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain", TEXT),
        ("application/openmetrics-text;q=0,*/*", TEXT),
        ("application/openmetrics-text;q=nonsense,text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;version=abc", TEXT),
        (";;,=;q,", TEXT),
    ],
)
def test_the_format_is_the_one_that_was_asked_for(accept: str | None, content_type: str) -> None:
    body, given = render(new_registry(), accept)
    assert given == content_type
    assert body == (b"# EOF\n" if content_type == OPEN else b"")


def _registry() -> CollectorRegistry:
    registry = new_registry()
    metrics = CoordinatorMetrics(registry)
    metrics.read_figures_from(coordinator_figures)
    metrics.scheduling.assignment.observe(0.03, exemplar("q-1", "w-1"))
    metrics.scheduling.accepted.inc(1, exemplar("q 2\n", "w\\2"))
    return registry


def test_openmetrics_has_exemplars_with_both_ids() -> None:
    body, _ = render(_registry(), OPEN)
    assert (
        b'quarterdeck_coordinator_assignment_seconds_bucket{le="0.05"} 1.0 # {query_id="q-1",work_id="w-1"} 0.03'
        in body
    )


def test_an_exemplar_comes_back_as_it_was_whatever_is_in_its_ids() -> None:
    found = [
        line.exemplar for line in scrape(_registry()) if line.name == "quarterdeck_coordinator_works_accepted_total"
    ]
    assert found == [({"query_id": "q 2\n", "work_id": "w\\2"}, 1.0)]


def test_the_text_format_has_the_same_numbers_and_no_exemplars() -> None:
    registry = _registry()
    ours = "quarterdeck_"
    texts = {
        (line.name, line.labels): line.value for line in scrape(registry, "text/plain") if line.name.startswith(ours)
    }
    opens = {(line.name, line.labels): line.value for line in scrape(registry, OPEN) if line.name.startswith(ours)}
    assert texts == opens
    assert b"q-1" not in render(registry, "text/plain")[0]


def test_a_registry_has_nothing_of_another() -> None:
    _registry()
    assert scrape(new_registry()) == []
