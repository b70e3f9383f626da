"""The mutable records of a worker's machine."""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from quarterdeck.core.ids import CoordinatorId, SessionId
from quarterdeck.core.workcoord.liveness import PeerWatch
from quarterdeck.core.workcoord.load import Load
from quarterdeck.core.workcoord.model import AttemptId, WorkSpec
from quarterdeck.core.workcoord.worker.tables import AttemptState


class DropReason(StrEnum):
    """Why an artifact is deleted."""

    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    """It was kept for as long as it is worth, and nobody had fetched it."""
    EVICTED = "evicted"
    """Its room was needed for something else."""
    CANCELED = "canceled"
    """Its query or its session had ended, or its worker drains."""


@dataclass(slots=True, eq=False)
class WorkerSession:
    session_id: SessionId
    coordinator_id: CoordinatorId
    watch: PeerWatch
    grants: deque[int] = field(default_factory=lambda: deque([0]))
    """The credit the coordinator confirmed last, then those it has not confirmed yet, oldest first."""
    load: Load = field(default_factory=Load)
    """The attempts it has: each takes credit until it has ended."""
    attempts: dict[AttemptId, "WorkerAttempt"] = field(default_factory=dict[AttemptId, "WorkerAttempt"])

    @property
    def outstanding(self) -> int:
        return self.load.total

    @property
    def granted(self) -> int:
        """What we want it to keep to."""
        return self.grants[-1]

    @property
    def exposure(self) -> int:
        """How much it may charge us with, at worst, before it knows what we want."""
        return max(self.load.charged, *self.grants)


@dataclass(slots=True, eq=False)
class WorkerAttempt:
    attempt_id: AttemptId
    spec: WorkSpec
    session: WorkerSession | None
    """Whom to report to. None when that session is gone, or the result was acknowledged."""
    bound_to: SessionId
    """The session that assigned it: that one is clear when this has ended."""
    state: AttemptState = AttemptState.QUEUED
    released: DropReason | None = None
    """Why nobody waits for its artifact any more."""

    @property
    def in_slot(self) -> bool:
        return self.state in (AttemptState.RUNNING, AttemptState.STOPPING)
