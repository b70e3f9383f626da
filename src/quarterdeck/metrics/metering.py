"""What metrics queries and their lake measure: in a coordinator, and in a worker that evaluates leaves."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quarterdeck.telemetry.contributions import MetricsOf, Service
from quarterdeck.telemetry.metrics import Lookup
from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.figures import Readings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures:
    """Of a coordinator, as of now."""

    queries_running: int
    """Queries that have a place."""
    queries_queued: int
    """Queries that wait for one."""
    oldest_queued_query_age_s: float
    query_memory_bytes: int
    """What queries and their answers take, as far as they know."""
    queries_ended_for_memory: int


def coordinator_readings(families: Families) -> Readings[QueryFigures]:
    """What metrics queries add to a coordinator's metrics."""
    readings = Readings[QueryFigures](families)
    readings.level(
        "metrics_queries_running",
        "Metrics queries that are running; at most `metrics.queries_at_once`.",
        Audience.CAPACITY,
        lambda figures: figures.queries_running,
    )
    readings.level(
        "metrics_queries_queued",
        "Metrics queries that wait because `metrics.queries_at_once` others are running. Autoscale on it.",
        Audience.CAPACITY,
        lambda figures: figures.queries_queued,
    )
    readings.level(
        "oldest_queued_query_age_seconds",
        "How long the oldest waiting metrics query has waited; 0 if none waits.",
        Audience.CAPACITY,
        lambda figures: figures.oldest_queued_query_age_s,
    )
    readings.level(
        "query_memory_bytes",
        "Memory of metrics queries in this process, including answers that are being sent, by their own estimate.",
        Audience.CAPACITY,
        lambda figures: figures.query_memory_bytes,
    )
    readings.total(
        "queries_ended_for_memory_total",
        "Metrics queries that were refused or ended because memory for all of them ran out.",
        Audience.ON_CALL,
        lambda figures: figures.queries_ended_for_memory,
    )
    readings.register()
    return readings


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafFigures:
    """Of a worker, as of now."""

    sample_memory_bytes: int
    """What decoded samples take that are kept for the next query."""
    sample_hits: int
    """Row groups that a query needed and found in memory."""
    sample_misses: int
    query_memory_bytes: int
    """What works of queries take, as far as they know."""
    queries_ended_for_memory: int


def worker_readings(families: Families) -> Readings[LeafFigures]:
    """What leaves add to a worker's metrics."""
    readings = Readings[LeafFigures](families)
    readings.total_by(
        "sample_lookups_total",
        "Row groups of segments that a query needed: in memory (`hit`), or to be read (`miss`).",
        Audience.TUNING,
        label("result", Lookup),
        lambda figures: {Lookup.HIT: figures.sample_hits, Lookup.MISS: figures.sample_misses},
    )
    readings.level(
        "sample_memory_bytes",
        "Memory of samples that are kept for the next query.",
        Audience.CAPACITY,
        lambda figures: figures.sample_memory_bytes,
    )
    readings.level(
        "query_memory_bytes",
        "Memory of works of metrics queries in this process, by their own estimate.",
        Audience.CAPACITY,
        lambda figures: figures.query_memory_bytes,
    )
    readings.total(
        "queries_ended_for_memory_total",
        "Metrics queries whose works were refused or ended because memory for all of them ran out.",
        Audience.ON_CALL,
        lambda figures: figures.queries_ended_for_memory,
    )
    readings.register()
    return readings


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
            "Objects in the lake that were removed because nothing referred to them.",
            Audience.CAPACITY,
            label("kind", OrphanKind),
        )
        self.removed_bytes = self.families.counter(
            "orphans_removed_bytes_total", "Bytes of these objects.", Audience.CAPACITY
        )
        self.rounds_failed = self.families.counter(
            "orphan_rounds_failed_total",
            "Searches for orphans that failed, because the lake or the catalog could not be read.",
            Audience.ON_CALL,
        )


METRICS_OF_METRICS: Final = MetricsOf(
    on_coordinator=coordinator_readings,
    on_worker=worker_readings,
    services=(Service("Lake", "In coordinators, which look after the lake.", LakeMetrics),),
)
