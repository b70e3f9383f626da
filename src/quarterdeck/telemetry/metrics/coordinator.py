"""The metrics of a coordinator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quarterdeck.core.workcoord.coordinator.tables import WORK_TABLE, WorkerState, WorkState
from quarterdeck.telemetry.metrics.control import CoordinatorControlMetrics
from quarterdeck.telemetry.metrics.families import Audience, Families, Label, label
from quarterdeck.telemetry.metrics.fetching import FetchingMetrics
from quarterdeck.telemetry.metrics.figures import Readings
from quarterdeck.telemetry.metrics.labels import Lookup, Rejection
from quarterdeck.telemetry.metrics.process import register_process
from quarterdeck.telemetry.metrics.queries import QueryMetrics
from quarterdeck.telemetry.metrics.scheduling import SchedulingMetrics
from quarterdeck.telemetry.metrics.stalls import declare_stalls

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LIVE_STATES = tuple(state for state in WorkState if state not in WORK_TABLE.terminal)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFigures:
    """What a coordinator can say of itself at any moment. Totals count from the start of the process."""

    active_streams: int
    """Sessions with workers."""
    active_queries: int
    queue_depth: int
    """Works that wait for a worker."""
    oldest_work_age_s: float
    """How long the one that has waited longest has waited; 0 when none waits."""
    works: Mapping[WorkState, int]
    """Works of queries that have not ended; a state that is missing has none."""
    workers: Mapping[WorkerState, int]
    spool_bytes: int
    """Fetched results on disk, and what queries put aside."""
    disk_free_bytes: int
    """On the file system of the spool."""
    sessions_opened: int
    protocol_errors: int
    connections_without_registration: int
    registrations_refused: int
    own_pauses: int
    rejections: Mapping[Rejection, int]
    """Callers that were not let in."""
    affinity_hits: int
    """Works assigned to their home, the worker whose cache is warm for them."""
    affinity_misses: int
    fetched_bytes: int
    """Of results, those of fetches that failed too."""
    checksum_mismatches: int
    """Fetched results whose bytes were not those announced."""
    results_dropped: int
    """Fetched results that were not needed: another attempt was first, or the query had ended."""
    stalls: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of the event loop, by route."""
    stalled_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long they took."""


class CoordinatorMetrics:
    """Made once for a process, on its registry. Each part is given to whoever knows when it happens."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        register_process(registry, "coordinator")
        self.families = Families(registry, "quarterdeck_coordinator")
        """What there is, for the reference."""
        self.control = CoordinatorControlMetrics(self.families)
        self.scheduling = SchedulingMetrics(self.families)
        self.fetching = FetchingMetrics(self.families)
        self.queries = QueryMetrics(self.families)
        self._readings = Readings[CoordinatorFigures](self.families)
        _declare_control(self._readings)
        _declare_work(self._readings)
        declare_stalls(self._readings, lambda figures: figures.stalls, lambda figures: figures.stalled_s)
        self._readings.register()

    def read_figures_from(self, source: Callable[[], CoordinatorFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)


def _declare_control(readings: Readings[CoordinatorFigures]) -> None:
    readings.level("active_streams", "Sessions with workers.", Audience.ON_CALL, lambda figures: figures.active_streams)
    readings.total(
        "sessions_opened_total",
        "Sessions with workers that began.",
        Audience.ON_CALL,
        lambda figures: figures.sessions_opened,
    )
    readings.total(
        "protocol_errors_total",
        "Peers that broke the protocol: another version, or a bug.",
        Audience.ON_CALL,
        lambda figures: figures.protocol_errors,
    )
    readings.total(
        "connections_without_registration_total",
        "Connections that never registered: port scanners, wrong addresses, other versions.",
        Audience.ON_CALL,
        lambda figures: figures.connections_without_registration,
    )
    readings.total(
        "registrations_refused_total",
        "Workers that were refused, such as an older incarnation of one that is connected.",
        Audience.ON_CALL,
        lambda figures: figures.registrations_refused,
    )
    readings.total(
        "own_pauses_total",
        "Times this process was stopped long enough to miss heartbeats.",
        Audience.ON_CALL,
        lambda figures: figures.own_pauses,
    )
    readings.total_by(
        "callers_rejected_total",
        "Callers that were turned away, by reason: no token, no TLS, another version.",
        Audience.ON_CALL,
        label("reason", Rejection),
        lambda figures: figures.rejections,
    )
    readings.level_by(
        "workers",
        "Workers by state. Only `accepting` ones get work.",
        Audience.CAPACITY,
        label("state", WorkerState),
        lambda figures: figures.workers,
    )


def _declare_work(readings: Readings[CoordinatorFigures]) -> None:
    readings.level(
        "work_queue_depth",
        "Works that wait for a worker. Autoscale on it.",
        Audience.CAPACITY,
        lambda figures: figures.queue_depth,
    )
    readings.level(
        "oldest_work_age_seconds",
        "How long the oldest waiting work has waited for a worker; 0 if none waits. Autoscale on it.",
        Audience.CAPACITY,
        lambda figures: figures.oldest_work_age_s,
    )
    readings.level_by(
        "works",
        "Works of open queries, by state.",
        Audience.CAPACITY,
        Label("state", _LIVE_STATES),
        lambda figures: figures.works,
    )
    readings.level("active_queries", "Open queries.", Audience.CAPACITY, lambda figures: figures.active_queries)
    readings.total_by(
        "affinity_assignments_total",
        "Assignments to the worker whose cache is warm (`hit`) or to another (`miss`). The hit ratio is hits by all.",
        Audience.TUNING,
        label("result", Lookup),
        lambda figures: {Lookup.HIT: figures.affinity_hits, Lookup.MISS: figures.affinity_misses},
    )
    readings.total(
        "results_dropped_total",
        "Fetched results that were not needed: another attempt was first, or the query had ended.",
        Audience.TUNING,
        lambda figures: figures.results_dropped,
    )
    readings.total(
        "fetched_bytes_total", "Bytes of results fetched.", Audience.CAPACITY, lambda figures: figures.fetched_bytes
    )
    readings.total(
        "checksum_mismatches_total",
        "Fetched results whose bytes differ from the announced checksum. Divide by the fetches for the mismatch rate.",
        Audience.ON_CALL,
        lambda figures: figures.checksum_mismatches,
    )
    readings.level(
        "spool_bytes",
        "Fetched results on disk, and what queries put aside.",
        Audience.CAPACITY,
        lambda figures: figures.spool_bytes,
    )
    readings.level(
        "disk_free_bytes",
        "Free space on the file system of the spool.",
        Audience.CAPACITY,
        lambda figures: figures.disk_free_bytes,
    )
