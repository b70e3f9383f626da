"""What a scraper sees, read with prometheus-client's own parsers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from prometheus_client import CollectorRegistry, Metric, parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from quarterdeck.telemetry.exposition import render

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True, slots=True)
class Line:
    """One sample."""

    family: str
    type: str
    unit: str
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    exemplar: tuple[dict[str, str], float] | None

    def of(self, **labels: str) -> bool:
        return set(labels.items()) <= set(self.labels)


def scrape(registry: CollectorRegistry, accept_header: str = OPEN_METRICS) -> list[Line]:
    return list(_lines(registry, accept_header))


def _lines(registry: CollectorRegistry, accept_header: str) -> Iterator[Line]:
    body, content_type = render(registry, accept_header)
    for family in _parsed(body.decode(), content_type):
        for sample in family.samples:
            exemplar = None if sample.exemplar is None else (sample.exemplar.labels, sample.exemplar.value)
            labels = tuple(sorted(sample.labels.items()))
            yield Line(family.name, family.type, family.unit, sample.name, labels, sample.value, exemplar)


def _parsed(text: str, content_type: str) -> Iterable[Metric]:
    if content_type.startswith("text/plain"):
        return parser.text_string_to_metric_families(text)
    parse = cast("Callable[[str], Iterable[Metric]]", openmetrics_parser.text_string_to_metric_families)
    return parse(text)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """Of the one sample with this name and exactly these labels."""
    (found,) = [
        line.value for line in scrape(registry) if line.name == name and line.labels == tuple(sorted(labels.items()))
    ]
    return found
