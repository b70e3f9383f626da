"""Giving work out: what happens to a work between its query and a worker's message that it has it."""

from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason
from quarterdeck.core.workcoord.messages import RejectReason
from quarterdeck.telemetry.metrics.buckets import STEP_S
from quarterdeck.telemetry.metrics.families import Audience, Families, label


class SchedulingMetrics:
    """All of these are of one work: give them its exemplar."""

    def __init__(self, families: Families) -> None:
        self.assignment = families.histogram(
            "assignment_seconds",
            "From when a work needs a worker, for the first time or again, until it is assigned to one.",
            Audience.CAPACITY,
            STEP_S,
        )
        """Observed at every assignment of an attempt."""

        self.accepted = families.counter(
            "works_accepted_total", "Assignments that workers accepted.", Audience.CAPACITY
        )
        """Raised for every `WorkAccepted`."""

        self.rejected = families.counter_by(
            "works_rejected_total",
            "Assignments that workers rejected, by reason. Lack of room is never a reason.",
            Audience.ON_CALL,
            label("reason", RejectReason),
        )
        """Raised for every `WorkRejected`."""

        self.reassigned = families.counter_by(
            "reassignments_total",
            "Works that went back to be given to another worker, by reason. `recalled` is no trouble: another worker "
            "could begin it sooner.",
            Audience.ON_CALL,
            label("reason", ReassignmentReason),
        )
        """Raised for every `ReportReassignment`."""
