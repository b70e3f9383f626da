"""The metrics of object stores, in every process that uses them, and of the lake, in coordinators."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from quarterdeck.telemetry.metrics.families import Audience, Families, label
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
            "Calls to local files that have not come back within `store_timeout_s`. A disk or a mount hangs.",
            Audience.ON_CALL,
            lambda figures: figures.hanging,
        )
        self._readings.total(
            "calls_timed_out_total",
            "Calls to object stores, local or not, that were given up after `store_timeout_s`.",
            Audience.ON_CALL,
            lambda figures: figures.timed_out,
        )
        self._readings.register()

    def read_figures_from(self, source: Callable[[], StoreFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)


class OrphanKind(StrEnum):
    PART = "part"
    """Of a write or an import that broke off, or a staged segment that has been published."""
    SEGMENT = "segment"
    """A segment that the catalog does not list."""


class LakeMetrics:
    """Made once for a coordinator, on its registry. Told when something happens."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self.families = Families(registry, "quarterdeck_lake")
        """What there is, for the reference."""
        self.removed = self.families.counter_by(
            "orphans_removed_total",
            "Objects in the lake that nobody referred to and that were removed.",
            Audience.CAPACITY,
            label("kind", OrphanKind),
        )
        self.removed_bytes = self.families.counter("orphans_removed_bytes_total", "What they took.", Audience.CAPACITY)
        self.rounds_failed = self.families.counter(
            "orphan_rounds_failed_total",
            "Looks for orphans that broke off: the lake or the catalog could not be read.",
            Audience.ON_CALL,
        )
