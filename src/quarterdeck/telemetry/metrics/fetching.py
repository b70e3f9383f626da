"""Getting results: from a worker's message that one is ready until it is here and verified."""

from quarterdeck.core.workcoord.coordinator.effects import Outcome
from quarterdeck.telemetry.metrics.buckets import STEP_S, TRANSFER_S
from quarterdeck.telemetry.metrics.families import Audience, Families, label


class FetchingMetrics:
    """All of these are of one work: give them its exemplar."""

    def __init__(self, families: Families) -> None:
        self.ready_to_fetch = families.histogram(
            "ready_to_fetch_seconds",
            "From a worker's message that a result is ready until its fetch begins.",
            Audience.TUNING,
            STEP_S,
        )
        """Observed when the first byte of a fetch is asked for."""

        self.fetch = families.histogram_by(
            "fetch_seconds",
            "Time to fetch a result, including verification, by how it ended.",
            Audience.ON_CALL,
            TRANSFER_S,
            label("outcome", Outcome),
        )
        """Observed at the end of every fetch."""
