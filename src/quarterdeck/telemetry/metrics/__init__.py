"""Metrics: a class for each kind of process that has everything which the process measures, and one each for the
recruiter and for log searches, which are a process by themselves or a part of a coordinator.

Something that happens is told when it happens, to a counter or a histogram (`metrics.scheduling.accepted.inc(...)`).
Something that is, a depth, an age, a size, is read at the scrape from the figures that the process returns
(`metrics.read_figures_from(...)`). Ids of queries and works are exemplars, never labels.
"""

from quarterdeck.telemetry.metrics.coordinator import CoordinatorFigures, CoordinatorMetrics
from quarterdeck.telemetry.metrics.exemplars import Exemplar, exemplar
from quarterdeck.telemetry.metrics.labels import (
    REASSIGNMENTS,
    DisconnectReason,
    Lookup,
    ReassignmentReason,
    Rejection,
    RemovalReason,
    error_code,
)
from quarterdeck.telemetry.metrics.process import register_process
from quarterdeck.telemetry.metrics.recruiter import RecruiterFigures, RecruiterMetrics
from quarterdeck.telemetry.metrics.searches import SearchFigures, SearchMetrics, SearchOutcome
from quarterdeck.telemetry.metrics.series import Counter, Histogram
from quarterdeck.telemetry.metrics.stores import LakeMetrics, OrphanKind, StoreFigures, StoreMetrics
from quarterdeck.telemetry.metrics.worker import WorkerFigures, WorkerMetrics

__all__ = [
    "REASSIGNMENTS",
    "CoordinatorFigures",
    "CoordinatorMetrics",
    "Counter",
    "DisconnectReason",
    "Exemplar",
    "Histogram",
    "LakeMetrics",
    "Lookup",
    "OrphanKind",
    "ReassignmentReason",
    "RecruiterFigures",
    "RecruiterMetrics",
    "Rejection",
    "RemovalReason",
    "SearchFigures",
    "SearchMetrics",
    "SearchOutcome",
    "StoreFigures",
    "StoreMetrics",
    "WorkerFigures",
    "WorkerMetrics",
    "error_code",
    "exemplar",
    "register_process",
]
