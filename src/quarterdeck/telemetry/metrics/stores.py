"""The metrics of object stores, in every process that uses them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quarterdeck.telemetry.metrics.families import Audience, Families
from quarterdeck.telemetry.metrics.figures import Readings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    hanging: int
    timed_out: int


class StoreMetrics:
    """Made once for a process, on its registry."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self.families = Families(registry, "quarterdeck_store")
        """What there is, for the reference."""
        self._readings = Readings[StoreFigures](self.families)
        self._readings.level(
            "calls_hanging",
            "Calls to local files that have not returned within `store_timeout_s`: a disk or a mount hangs.",
            Audience.ON_CALL,
            lambda figures: figures.hanging,
        )
        self._readings.total(
            "calls_timed_out_total",
            "Calls to object stores, including local ones, that were given up after `store_timeout_s`.",
            Audience.ON_CALL,
            lambda figures: figures.timed_out,
        )
        self._readings.register()

    def read_figures_from(self, source: Callable[[], StoreFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)
