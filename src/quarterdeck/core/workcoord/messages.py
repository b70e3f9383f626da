"""What travels on a session, as values. The wire form is the control stream's business; the meaning is fixed here.

An attempt that a worker was assigned ends exactly once. Either the worker says so (`WorkEnded`, `WorkRejected`,
`WorkReturned`, `WorkFailed`, `WorkCanceled`, `ArtifactLost`), or the coordinator does (`ArtifactAck`). The credit it
took comes back with that end. Messages of one session arrive in the order in which they were sent; between sessions
there is no order.
"""

from dataclasses import dataclass
from enum import StrEnum

from quarterdeck.core.ids import CoordinatorId, QueryId, SessionId
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    DiskUse,
    LivenessPolicy,
    WorkerInfo,
    WorkError,
    WorkerStatus,
    WorkSpec,
)


class RejectReason(StrEnum):
    """Why a worker does not take an assignment. Lack of room is not among them: credit prevents it."""

    NOT_ACCEPTING = "not_accepting"
    DRAINING = "draining"


# From the worker


@dataclass(frozen=True, slots=True)
class Register:
    """The first words on a connection, whoever dialled it."""

    worker: WorkerInfo
    status: WorkerStatus


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """The worker lives, and this is its status. Sent at the session's interval and at every change of status."""

    status: WorkerStatus


@dataclass(frozen=True, slots=True)
class BeatEcho:
    """The answer to a coordinator's beat, at once: how long it took there and back."""

    sent_at: float


@dataclass(frozen=True, slots=True)
class DiskReported:
    """How full the worker's disk is. Sent when a session begins and when it has changed."""

    use: DiskUse


@dataclass(frozen=True, slots=True)
class CreditChanged:
    """How many attempts may be outstanding on this session from now on. A session starts with none."""

    credit: int


@dataclass(frozen=True, slots=True)
class WorkAccepted:
    """The worker has begun it. What only stands in its line is assigned and not yet accepted: so a coordinator knows,
    without a message more, what was running when a worker is lost, and what may be taken back."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class WorkRejected:
    attempt: AttemptId
    reason: RejectReason


@dataclass(frozen=True, slots=True)
class WorkProgressed:
    attempt: AttemptId
    fraction: float


@dataclass(frozen=True, slots=True)
class WorkReady:
    """The result is there to be fetched. Not the end: the worker keeps it until it is acknowledged."""

    attempt: AttemptId
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """A work that leaves nothing is done."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class WorkFailed:
    attempt: AttemptId
    error: WorkError


@dataclass(frozen=True, slots=True)
class WorkReturned:
    """A worker hands back what it had not begun: it drains, or was asked to."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class WorkCanceled:
    """The worker has stopped and cleaned up an attempt that it was told to cancel."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ArtifactLost:
    """An unacknowledged result is gone: evicted or expired."""

    attempt: AttemptId
    reason: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """Spare me new work for a while; what I have goes on."""

    for_s: float


# From the coordinator


@dataclass(frozen=True, slots=True)
class Registered:
    """The session has begun; everything after this carries its id."""

    session_id: SessionId
    coordinator_id: CoordinatorId
    liveness: LivenessPolicy


@dataclass(frozen=True, slots=True)
class Refused:
    """The registration is not taken, and why; the connection closes after it."""

    reason: str


@dataclass(frozen=True, slots=True)
class CoordinatorBeat:
    sent_at: float = 0.0
    """By the coordinator's clock, for the echo."""


@dataclass(frozen=True, slots=True)
class CreditConfirmed:
    """From here on the coordinator keeps to this credit; until then the worker reckons with the older, higher one."""

    credit: int


@dataclass(frozen=True, slots=True)
class AssignWork:
    spec: WorkSpec
    number: int

    @property
    def attempt(self) -> AttemptId:
        return AttemptId(self.spec.key, self.number)


@dataclass(frozen=True, slots=True)
class CancelWork:
    """Stop an attempt, or drop its result. One that has already ended is fine: its end is on the way."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class CancelQuery:
    """Stop all attempts of a query on this session. Nothing of this query follows."""

    query_id: QueryId


@dataclass(frozen=True, slots=True)
class RecallWork:
    """Hand an attempt back if it has not begun: another worker could begin it now. One that runs or has ended stays
    what it is, and nothing is answered."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ArtifactAck:
    """The result is safe here. The worker may drop its copy."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Please drain as if you had been told to stop."""


# From either


@dataclass(frozen=True, slots=True)
class Goodbye:
    """An orderly end of the session; the connection closes after it."""

    reason: str


WorkerMessage = (
    WorkerBeat
    | BeatEcho
    | DiskReported
    | CreditChanged
    | WorkAccepted
    | WorkRejected
    | WorkProgressed
    | WorkReady
    | WorkEnded
    | WorkFailed
    | WorkReturned
    | WorkCanceled
    | ArtifactLost
    | Throttled
    | Goodbye
)
"""What a worker says once it has a session."""

CoordinatorMessage = (
    CoordinatorBeat
    | CreditConfirmed
    | AssignWork
    | CancelWork
    | CancelQuery
    | RecallWork
    | ArtifactAck
    | DrainRequest
    | Goodbye
)
"""What a coordinator says once the worker has a session."""
