"""What a coordinator's machine is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.core.ids import QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord.messages import Register, WorkerMessage
from quarterdeck.core.workcoord.model import AttemptId, WorkError, WorkKey, WorkSpec
from quarterdeck.core.workcoord.peer import LossReason

# From whoever asks


@dataclass(frozen=True, slots=True)
class QueryOpened:
    query_id: QueryId
    wait_limit_s: float | None = None
    """How long its works may wait while no worker at all takes them. None waits for ever."""


@dataclass(frozen=True, slots=True)
class WorkSubmitted:
    spec: WorkSpec


@dataclass(frozen=True, slots=True)
class QuerySealed:
    """No more works follow; the query ends with its last one."""

    query_id: QueryId


@dataclass(frozen=True, slots=True)
class QueryCancelRequested:
    query_id: QueryId
    reason: str


@dataclass(frozen=True, slots=True)
class WorkCancelRequested:
    """One work is no longer needed; its query goes on without it."""

    key: WorkKey


@dataclass(frozen=True, slots=True)
class DrainRequested:
    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    reason: str


# From the sessions


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session_id: SessionId
    register: Register


@dataclass(frozen=True, slots=True)
class MessageReceived:
    session_id: SessionId
    message: WorkerMessage


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The connection is over, whoever ended it. A session that the machine closed ends with this too; its reason then
    says nothing."""

    session_id: SessionId
    reason: LossReason
    detail: str


# From the fetches


@dataclass(frozen=True, slots=True)
class FetchSucceeded:
    """The result is here, whole and verified."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class FetchFailed:
    attempt: AttemptId
    error: WorkError


# From the clock


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `next_deadline` named has come."""


Event = (
    QueryOpened
    | WorkSubmitted
    | QuerySealed
    | QueryCancelRequested
    | WorkCancelRequested
    | DrainRequested
    | ShutdownRequested
    | SessionOpened
    | MessageReceived
    | SessionLost
    | FetchSucceeded
    | FetchFailed
    | TimePassed
)
