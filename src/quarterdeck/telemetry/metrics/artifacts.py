"""The artifacts on a worker's disk: what became of them."""

from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.labels import RemovalReason


class ArtifactMetrics:
    def __init__(self, families: Families) -> None:
        self.removed = families.counter_by(
            "artifacts_removed_total",
            "Artifacts deleted, by reason. `expired` and `evicted` cost their work another attempt.",
            Audience.ON_CALL,
            label("reason", RemovalReason),
        )
        """Raised once for every artifact that was written; give it the work's exemplar."""
