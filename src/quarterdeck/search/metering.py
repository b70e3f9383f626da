"""The metrics of log searches, in the process that is their root; the same in a coordinator and in a recruiter."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quarterdeck.telemetry.contributions import MetricsOf, Service
from quarterdeck.telemetry.metrics.buckets import QUERY_S
from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.figures import Readings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class SearchOutcome(StrEnum):
    OK = "ok"
    PARTIAL = "partial"
    """With files that could not be searched."""
    ERROR = "error"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    running: int


class SearchMetrics:
    """Made once for a process, on its registry. What is no figure is told when a search ends."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self.families = Families(registry, "quarterdeck_search")
        """What there is, for the reference."""
        self.latency = self.families.histogram_by(
            "duration_seconds",
            "Duration of a log search, by how it ended; `partial` means that files had problems.",
            Audience.SERVICE_LEVEL,
            QUERY_S,
            label("outcome", SearchOutcome),
        )
        """Observed once for each search that was begun."""
        self.searched_bytes = self.families.counter(
            "searched_bytes_total", "Bytes of files searched.", Audience.CAPACITY
        )
        self.workers_lost = self.families.counter(
            "workers_lost_total",
            "Recruited workers that log searches have lost. "
            "Few are restarts. Many mean a bad network, or files that kill workers.",
            Audience.ON_CALL,
        )
        self.chunks_retried = self.families.counter(
            "chunks_retried_total",
            "Parts of log searches that were given to another worker because the first was lost.",
            Audience.ON_CALL,
        )
        self._readings = Readings[SearchFigures](self.families)
        self._readings.level(
            "running", "Log searches that are running.", Audience.CAPACITY, lambda figures: figures.running
        )
        self._readings.register()

    def read_figures_from(self, source: Callable[[], SearchFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)


_LOST: Final = "sum(rate(quarterdeck_search_workers_lost_total[5m]))"
_ENDED: Final = "sum(rate(quarterdeck_search_duration_seconds_count[5m]))"
METRICS_OF_SEARCH: Final = MetricsOf(
    services=(
        Service(
            "Log search",
            "In coordinators and in `quarterdeck recruiter`, which are the roots of log searches.",
            SearchMetrics,
        ),
    ),
    questions=(
        (
            "How many workers does a log search lose?",
            f"{_LOST} / {_ENDED}",
        ),
    ),
)
