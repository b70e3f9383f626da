"""Metrics: one class for each kind of process, with everything that the process itself measures. A capability declares
its metrics in its own package, on the same registry.

Events are counted when they happen, by a counter or a histogram (`metrics.scheduling.accepted.inc(...)`). A level, such
as a depth, an age or a size, is read at the scrape from the figures that the process returns
(`metrics.read_figures_from(...)`). Ids of queries and works are exemplars, never labels.
"""

from quarterdeck.telemetry.metrics.coordinator import CoordinatorFigures, CoordinatorMetrics
from quarterdeck.telemetry.metrics.exemplars import Exemplar, exemplar
from quarterdeck.telemetry.metrics.labels import (
    DisconnectReason,
    Lookup,
    Rejection,
    RemovalReason,
    error_code,
)
from quarterdeck.telemetry.metrics.leadership import LeadershipFigures, LeadershipMetrics
from quarterdeck.telemetry.metrics.process import register_process
from quarterdeck.telemetry.metrics.series import Counter, Histogram
from quarterdeck.telemetry.metrics.stores import StoreFigures, StoreMetrics
from quarterdeck.telemetry.metrics.worker import WorkerFigures, WorkerMetrics

__all__ = [
    "CoordinatorFigures",
    "CoordinatorMetrics",
    "Counter",
    "DisconnectReason",
    "Exemplar",
    "Histogram",
    "LeadershipFigures",
    "LeadershipMetrics",
    "Lookup",
    "Rejection",
    "RemovalReason",
    "StoreFigures",
    "StoreMetrics",
    "WorkerFigures",
    "WorkerMetrics",
    "error_code",
    "exemplar",
    "register_process",
]
