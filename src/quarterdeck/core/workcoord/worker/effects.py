"""What a worker's machine wants done. Imperative: the driver executes them in the order in which they come."""

from dataclasses import dataclass

from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import WorkerMessage
from quarterdeck.core.workcoord.model import AttemptId, WorkSpec
from quarterdeck.core.workcoord.peer import CloseReason
from quarterdeck.core.workcoord.worker.records import DropReason


@dataclass(frozen=True, slots=True)
class SendToCoordinator:
    session_id: SessionId
    message: WorkerMessage


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the connection once what was sent before is written."""

    session_id: SessionId
    reason: CloseReason
    detail: str


@dataclass(frozen=True, slots=True)
class ClearSession:
    """Nothing runs for this session any more. Only now may the worker register again with that coordinator: whoever
    sees it alive must be able to rely on it having nothing in flight."""

    session_id: SessionId


@dataclass(frozen=True, slots=True)
class StartExecution:
    """Run it; answer with `ExecutionSucceeded`, `ExecutionEnded` or `ExecutionFailed`."""

    attempt: AttemptId
    spec: WorkSpec


@dataclass(frozen=True, slots=True)
class StopExecution:
    """Stop it soon; answer with `ExecutionStopped`, or with how it ended if it was faster."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """Nobody waits for this artifact any more. It lingers for a fetch under way; when room is needed, it goes first."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class DropResult:
    """Delete the artifact. No answer is expected."""

    attempt: AttemptId
    reason: DropReason


@dataclass(frozen=True, slots=True)
class FinishDrain:
    """Nothing is left to wait for: the process may exit."""

    clean: bool
    """False when the time for draining ran out."""


Effect = (
    SendToCoordinator
    | CloseSession
    | ClearSession
    | StartExecution
    | StopExecution
    | ReleaseResult
    | DropResult
    | FinishDrain
)
