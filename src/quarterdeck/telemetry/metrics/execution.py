"""Running work: what a worker spends its time on."""

from collections.abc import Iterable

from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.telemetry.metrics.buckets import STEP_S, TASK_S, TRANSFER_S
from quarterdeck.telemetry.metrics.families import Audience, Families, Label, label


class ExecutionMetrics:
    """All of these are of one work: give them its exemplar. Executors run in threads and report through the loop."""

    def __init__(self, families: Families, kinds: Iterable[WorkKind]) -> None:
        self.task_wait = families.histogram(
            "task_wait_seconds",
            "From accepting a work until it has a slot. If it grows, there are too few slots.",
            Audience.CAPACITY,
            STEP_S,
        )
        """Observed when a task starts."""

        self.task_runtime = families.histogram_by_two(
            "task_runtime_seconds",
            "Time of a work in its slot, including download, query and artifact, by kind and by how it ended.",
            Audience.CAPACITY,
            TASK_S,
            (Label("kind", tuple(kinds)), label("outcome", Outcome)),
        )
        """Observed when a task has left its slot."""

        self.download = families.histogram(
            "download_seconds",
            "One download of an object into the parquet cache.",
            Audience.TUNING,
            TRANSFER_S,
        )
        """Observed for downloads that were made, not for those that a cache hit saved."""

        self.downloaded_bytes = families.counter(
            "downloaded_bytes_total", "Bytes downloaded into the parquet cache.", Audience.CAPACITY
        )
        """Raised beside `download`."""

        self.query = families.histogram_by(
            "engine_query_seconds",
            "Time of a work in the engine, which queries local files, by how it ended.",
            Audience.TUNING,
            TASK_S,
            label("outcome", Outcome),
        )
        """Observed when the engine is done, or was interrupted."""

        self.cancel = families.histogram(
            "cancel_seconds",
            "From the cancel of a running work until it has stopped and cleaned up.",
            Audience.ON_CALL,
            STEP_S,
        )
        """Observed for works that ran when they were canceled, or when their session was lost."""
