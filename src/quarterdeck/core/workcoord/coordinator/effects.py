"""What a coordinator's machine wants done. Imperative: the driver executes them in the order in which they come.

The order is a contract: `DeliverResult` comes before the `ArtifactAck` of the same work, and the worker may drop its
copy once that is sent; so a result is handed over before it is acknowledged.
"""

from dataclasses import dataclass
from enum import StrEnum

from quarterdeck.core.ids import QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason
from quarterdeck.core.workcoord.messages import CoordinatorMessage, Refused, Registered
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError, WorkKey
from quarterdeck.core.workcoord.peer import CloseReason


@dataclass(frozen=True, slots=True)
class SendToWorker:
    session_id: SessionId
    message: CoordinatorMessage | Registered | Refused


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the connection once what was sent before is written."""

    session_id: SessionId
    reason: CloseReason
    detail: str


@dataclass(frozen=True, slots=True)
class WarnOfSilence:
    """A worker has missed beats and gets no new work until it is heard again."""

    session_id: SessionId
    worker_id: WorkerId
    silent_s: float


@dataclass(frozen=True, slots=True)
class ReportRoundTrip:
    """How long a beat took to a worker and back."""

    worker_id: WorkerId
    round_trip_s: float


@dataclass(frozen=True, slots=True)
class FetchArtifact:
    """Fetch and verify a result; answer with `FetchSucceeded` or `FetchFailed`."""

    attempt: AttemptId
    worker_id: WorkerId
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class CancelFetch:
    """Nobody needs this result any more. No answer is expected."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class DeliverResult:
    """Hand the fetched result to whoever asked: the one and only time for this work."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class DeliverEnd:
    """Tell whoever asked that a work which leaves nothing is done: the one and only time for this work."""

    attempt: AttemptId
    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class DropResult:
    """A fetched result that is not needed: another attempt was first, or the query has ended."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ReportProgress:
    attempt: AttemptId
    fraction: float


@dataclass(frozen=True, slots=True)
class ReportReassignment:
    """This attempt is over, and its work waits for a worker again. A work that was given up is not reported.

    A recalled attempt was no try: nothing of it ran.
    """

    attempt: AttemptId
    reason: ReassignmentReason


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class EndQuery:
    """The query has ended; nothing about it follows."""

    query_id: QueryId
    outcome: Outcome
    error: WorkError | None = None


@dataclass(frozen=True, slots=True)
class RefuseWork:
    """A work was submitted to a query that has ended or was sealed; it will not be done."""

    key: WorkKey
    reason: str


Effect = (
    SendToWorker
    | CloseSession
    | WarnOfSilence
    | ReportRoundTrip
    | FetchArtifact
    | CancelFetch
    | DeliverResult
    | DeliverEnd
    | DropResult
    | ReportProgress
    | ReportReassignment
    | EndQuery
    | RefuseWork
)
