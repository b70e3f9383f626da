"""What a recruiter measures, by itself or in a coordinator: the same names in both; and the flat numbers that an
autoscaler reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from quarterdeck.http.stalls import StallFigures
from quarterdeck.recruiter.machine.pool import PoolFigures
from quarterdeck.recruiter.machine.pool_effects import Effect, Reserve
from quarterdeck.recruiter.machine.pool_events import Event
from quarterdeck.recruiter.worker_metering import worker_readings
from quarterdeck.telemetry.contributions import MetricsOf, Service
from quarterdeck.telemetry.metrics import Histogram
from quarterdeck.telemetry.metrics.buckets import POOL_S
from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.figures import Readings
from quarterdeck.telemetry.metrics.labels import Rejection
from quarterdeck.telemetry.metrics.stalls import declare_stalls

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class RecruiterFigures:
    """What a recruiter can say of itself at any moment. Totals count from the start of the process."""

    free_workers: int
    nodes: int
    """With free workers."""
    reserved_workers: int
    """Given away, and not registered again since."""
    registrations: int
    registrations_superseded: int
    recruits: int
    workers_asked: int
    workers_granted: int
    workers_short: int
    """Asked for, and not there."""
    free_by_node: Mapping[str, int]
    granted_by_node: Mapping[str, int]
    rejections: Mapping[Rejection, int]
    """Callers that the process did not let in."""
    stalls: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of the event loop, by route."""
    stalled_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long they took."""


class RecruiterMetrics:
    """Made once for a process, on its registry."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self.families = Families(registry, "quarterdeck_recruiter")
        """What there is, for the reference."""
        self.wait = self.families.histogram(
            "worker_wait_seconds",
            "How long a worker had waited in the pool since it last registered, when it was given away.",
            Audience.CAPACITY,
            POOL_S,
        )
        """Observed for each worker that is given away."""
        self._readings = Readings[RecruiterFigures](self.families)
        _declare(self._readings)
        declare_stalls(self._readings, lambda figures: figures.stalls, lambda figures: figures.stalled_s)
        self._readings.register()

    def read_figures_from(self, source: Callable[[], RecruiterFigures]) -> None:
        """Asked at every scrape, on the thread of the scrape. Before this is called a scrape has no figures."""
        self._readings.read_from(source)


def _declare(readings: Readings[RecruiterFigures]) -> None:
    capacity = Audience.CAPACITY
    readings.level(
        "free_workers",
        "Free workers in the pool. Autoscale down on it.",
        capacity,
        lambda figures: figures.free_workers,
    )
    readings.level("nodes", "Nodes with free workers.", capacity, lambda figures: figures.nodes)
    readings.level(
        "reserved_workers",
        "Workers that were given away and have not registered again. One that stays away is forgotten after 15 min.",
        capacity,
        lambda figures: figures.reserved_workers,
    )
    readings.total("recruits_total", "Requests for workers.", capacity, lambda figures: figures.recruits)
    readings.total("workers_asked_total", "Workers asked for.", capacity, lambda figures: figures.workers_asked)
    readings.total("workers_granted_total", "Workers given away.", capacity, lambda figures: figures.workers_granted)
    readings.total(
        "workers_short_total",
        "Workers that were asked for and not available. Autoscale up on its rate.",
        capacity,
        lambda figures: figures.workers_short,
    )
    readings.total(
        "registrations_total",
        "Registrations of workers. A free worker registers again whenever its long poll ends.",
        Audience.TUNING,
        lambda figures: figures.registrations,
    )
    readings.total(
        "registrations_superseded_total",
        "Registrations that ended because their address registered again: one after a broken connection, many when two "
        "workers have one address.",
        Audience.ON_CALL,
        lambda figures: figures.registrations_superseded,
    )
    readings.level_of_each(
        "node_free_workers",
        "Free workers of each node that has had any within 15 minutes.",
        capacity,
        "node",
        lambda figures: figures.free_by_node,
    )
    readings.total_of_each(
        "node_workers_granted_total",
        "Workers given away, by their node.",
        capacity,
        "node",
        lambda figures: figures.granted_by_node,
    )
    readings.total_by(
        "callers_rejected_total",
        "Callers that were turned away, by reason. In a coordinator, the same as its own.",
        Audience.ON_CALL,
        label("reason", Rejection),
        lambda figures: figures.rejections,
    )


class RecruiterMeter:
    """An observer of the pool's machine: tells how long workers had waited that are given away."""

    def __init__(self, wait: Histogram) -> None:
        self._wait = wait

    def stepped(self, event: Event, effects: list[Effect]) -> None:
        del event
        for effect in effects:
            if isinstance(effect, Reserve):
                self._wait.observe(effect.waited_s)


def measured(
    pool: PoolFigures, rejections: Mapping[Rejection, int], stalls: Mapping[str, StallFigures]
) -> RecruiterFigures:
    """The figures of a scrape."""
    return RecruiterFigures(
        free_workers=pool.free,
        nodes=pool.nodes,
        reserved_workers=pool.reserved,
        registrations=pool.registrations,
        registrations_superseded=pool.superseded,
        recruits=pool.recruits,
        workers_asked=pool.asked,
        workers_granted=pool.granted,
        workers_short=pool.short,
        free_by_node={name: node.free for name, node in pool.by_node.items()},
        granted_by_node={name: node.granted for name, node in pool.by_node.items()},
        rejections=rejections,
        stalls={route: one.count for route, one in stalls.items()},
        stalled_s={route: one.seconds for route, one in stalls.items()},
    )


def scaling(pool: PoolFigures) -> Mapping[str, float]:
    """For `/monitor/scaling`."""
    return {
        "recruiter_free": pool.free,
        "recruiter_nodes": pool.nodes,
        "recruiter_reserved": pool.reserved,
        "recruiter_registrations_total": pool.registrations,
        "recruiter_recruits_total": pool.recruits,
        "recruiter_asked_total": pool.asked,
        "recruiter_granted_total": pool.granted,
        "recruiter_short_total": pool.short,
    }


_GRANTED: Final = "sum(rate(quarterdeck_recruiter_workers_granted_total[5m]))"
_ASKED: Final = "sum(rate(quarterdeck_recruiter_workers_asked_total[5m]))"
METRICS_OF_RECRUITER: Final = MetricsOf(
    on_worker=worker_readings,
    services=(
        Service(
            "Recruiter",
            "In `quarterdeck recruiter`, and in every coordinator, which is a recruiter too.",
            RecruiterMetrics,
        ),
    ),
    questions=(
        (
            "Which share of the workers that were asked for was available?",
            f"{_GRANTED} / {_ASKED}",
        ),
    ),
)
