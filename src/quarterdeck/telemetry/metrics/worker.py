"""The metrics of a worker."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.telemetry.metrics.artifacts import ArtifactMetrics
from quarterdeck.telemetry.metrics.control import ControlMetrics
from quarterdeck.telemetry.metrics.execution import ExecutionMetrics
from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.figures import Readings
from quarterdeck.telemetry.metrics.labels import Lookup, Rejection
from quarterdeck.telemetry.metrics.process import register_process
from quarterdeck.telemetry.metrics.stalls import declare_stalls

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    """What a worker can say of itself at any moment. Totals count from the start of the process."""

    active_streams: int
    """Sessions with coordinators."""
    queue_depth: int
    """Accepted works that wait for a slot."""
    running_tasks: int
    slots: int
    accepting_work: bool
    draining: bool
    artifacts: int
    """Files in the spool."""
    spool_bytes: int
    cache_bytes: int
    """The parquet cache."""
    disk_limit_bytes: int
    """Disk space that spool and cache may take together."""
    disk_free_bytes: int
    """On the file system that both are on."""
    sessions_opened: int
    protocol_errors: int
    registrations_failed: int
    own_pauses: int
    rejections: Mapping[Rejection, int]
    """Callers that were not let in."""
    cache_hits: int
    cache_misses: int
    served_bytes: int
    """Of artifacts, those of transfers that broke off too."""
    drops_failed: int
    """Artifacts that could not be deleted."""
    stalls: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of the event loop, by route."""
    stalled_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long they took."""


class WorkerMetrics:
    """Made once for a process, on its registry. Each part is given to whoever knows when it happens."""

    def __init__(self, registry: "CollectorRegistry", kinds: Iterable[WorkKind]) -> None:
        """`kinds` are those that this worker takes."""
        register_process(registry, "worker")
        self.families = Families(registry, "quarterdeck_worker")
        """What there is, for the reference."""
        self.control = ControlMetrics(self.families)
        self.execution = ExecutionMetrics(self.families, kinds)
        self.artifacts = ArtifactMetrics(self.families)
        self._readings = Readings[WorkerFigures](self.families)
        _declare_control(self._readings)
        _declare_execution(self._readings)
        _declare_disk(self._readings)
        declare_stalls(self._readings, lambda figures: figures.stalls, lambda figures: figures.stalled_s)
        self._readings.register()

    def read_figures_from(self, source: Callable[[], WorkerFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)


def _declare_control(readings: Readings[WorkerFigures]) -> None:
    readings.level(
        "active_streams", "Sessions with coordinators.", Audience.ON_CALL, lambda figures: figures.active_streams
    )
    readings.total(
        "sessions_opened_total",
        "Sessions with coordinators that began.",
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
        "registrations_failed_total",
        "Connections on which a coordinator refused our registration or did not answer it.",
        Audience.ON_CALL,
        lambda figures: figures.registrations_failed,
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
    readings.level(
        "accepting_work",
        "1 while the worker takes new work, else 0.",
        Audience.ON_CALL,
        lambda figures: figures.accepting_work,
    )
    readings.level(
        "draining",
        "1 from the request to stop until the end, else 0.",
        Audience.ON_CALL,
        lambda figures: figures.draining,
    )


def _declare_execution(readings: Readings[WorkerFigures]) -> None:
    readings.level(
        "work_queue_depth",
        "Accepted works that wait for a slot.",
        Audience.CAPACITY,
        lambda figures: figures.queue_depth,
    )
    readings.level(
        "running_tasks", "Works that are running in a slot.", Audience.CAPACITY, lambda figures: figures.running_tasks
    )
    readings.level("slots", "Works that can run at once.", Audience.CAPACITY, lambda figures: figures.slots)
    readings.total_by(
        "parquet_cache_lookups_total",
        "Objects that a work needed: in the parquet cache (`hit`), or to be downloaded (`miss`).",
        Audience.TUNING,
        label("result", Lookup),
        lambda figures: {Lookup.HIT: figures.cache_hits, Lookup.MISS: figures.cache_misses},
    )


def _declare_disk(readings: Readings[WorkerFigures]) -> None:
    readings.total(
        "artifact_served_bytes_total",
        "Bytes of artifacts sent to coordinators.",
        Audience.CAPACITY,
        lambda figures: figures.served_bytes,
    )
    readings.level("artifacts", "Artifacts in the spool.", Audience.CAPACITY, lambda figures: figures.artifacts)
    readings.level(
        "spool_bytes",
        "Disk space of artifacts, and of what queries put aside.",
        Audience.CAPACITY,
        lambda figures: figures.spool_bytes,
    )
    readings.level(
        "parquet_cache_bytes",
        "Disk space of the parquet cache.",
        Audience.CAPACITY,
        lambda figures: figures.cache_bytes,
    )
    readings.level(
        "disk_limit_bytes",
        "Disk space that spool and cache may take together.",
        Audience.CAPACITY,
        lambda figures: figures.disk_limit_bytes,
    )
    readings.level(
        "disk_free_bytes",
        "Free space on the file system that spool and cache share.",
        Audience.ON_CALL,
        lambda figures: figures.disk_free_bytes,
    )
    readings.total(
        "artifact_drops_failed_total",
        "Artifacts that could not be deleted. The next start finds them.",
        Audience.ON_CALL,
        lambda figures: figures.drops_failed,
    )
