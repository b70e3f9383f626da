"""How a query was run: what a coordinator reports with `explain=analyze`, read from JSON.

All times are milliseconds since the query began. A value that is missing, or of another type, is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PHASES = ("queued", "planning", "executing", "fetching", "evaluating")


@dataclass(frozen=True, slots=True)
class AttemptReport:
    worker_id: str
    outcome: str
    error: str | None
    assigned_ms: float | None
    """None when it was not given to a worker."""
    ready_ms: float | None
    fetched_ms: float | None


@dataclass(frozen=True, slots=True)
class WorkFigures:
    """What the worker that did it says."""

    samples: int
    series: int
    cache_hits: int
    cache_misses: int
    bytes_read: int
    row_groups_read: int
    row_groups_pruned: int


@dataclass(frozen=True, slots=True)
class LeafWork:
    work_id: str
    shards: Sequence[int]
    segments: int
    attempts: Sequence[AttemptReport]
    figures: WorkFigures | None
    """None when nobody did it."""

    def end_ms(self, total_ms: float) -> float:
        """When its result was here; the end of the query if it never was."""
        fetched = [attempt.fetched_ms for attempt in self.attempts if attempt.fetched_ms is not None]
        return max(fetched, default=total_ms)

    def length_ms(self, total_ms: float) -> float:
        """From its first assignment on."""
        assigned = [attempt.assigned_ms for attempt in self.attempts if attempt.assigned_ms is not None]
        return self.end_ms(total_ms) - min(assigned, default=0.0)


@dataclass(frozen=True, slots=True)
class Leaf:
    text: str
    merge: str
    pruned: int
    read: int
    works: Sequence[LeafWork]


@dataclass(frozen=True, slots=True)
class Analysis:
    query_id: str
    plan: str
    total_ms: float
    phases_ms: Mapping[str, float]
    """By the names in `PHASES`."""
    segments: Mapping[str, int]
    leaves: Sequence[Leaf]
    samples: int
    series: int
    bytes_fetched: int
    peak_memory_bytes: int


def read_analysis(document: Any) -> Analysis:
    """Raises KeyError, TypeError or ValueError for what is no analysis."""
    phases = document["phases"]
    segments = document["segments"]
    return Analysis(
        str(document["query_id"]),
        str(document["plan"]),
        float(document["total_ms"]),
        {name: float(phases[f"{name}_ms"]) for name in PHASES},
        {name: int(segments[name]) for name in ("known", "pruned", "read", "unreadable")},
        tuple(_leaf(leaf) for leaf in document["leaves"]),
        int(document["samples"]),
        int(document["series"]),
        int(document["bytes_fetched"]),
        int(document["peak_memory_bytes"]),
    )


def _leaf(document: Any) -> Leaf:
    segments = document["segments"]
    return Leaf(
        str(document["text"]),
        str(document["merge"]),
        int(segments["pruned"]),
        int(segments["read"]),
        tuple(_work(work) for work in document["works"]),
    )


def _work(document: Any) -> LeafWork:
    report = document["report"]
    return LeafWork(
        str(document["work_id"]),
        tuple(int(shard) for shard in document["shards"]),
        int(document["segments"]),
        tuple(_attempt(attempt) for attempt in document["attempts"]),
        None if report is None else WorkFigures(*(int(report[name]) for name in WorkFigures.__slots__)),
    )


def _attempt(document: Any) -> AttemptReport:
    error = document["error"]
    return AttemptReport(
        str(document["worker_id"]),
        str(document["outcome"]),
        None if error is None else str(error),
        *(_ms(document[name]) for name in ("assigned_ms", "ready_ms", "fetched_ms")),
    )


def _ms(value: Any) -> float | None:
    return None if value is None else float(value)
