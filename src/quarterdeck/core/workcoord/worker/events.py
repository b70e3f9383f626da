"""What a worker's machine is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import CoordinatorMessage, Registered
from quarterdeck.core.workcoord.model import Artifact, AttemptId, DiskUse, WorkError
from quarterdeck.core.workcoord.peer import LossReason

# From the sessions


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A coordinator took our registration."""

    registered: Registered


@dataclass(frozen=True, slots=True)
class MessageReceived:
    session_id: SessionId
    message: CoordinatorMessage


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The connection is over, whoever ended it. A session that the machine closed ends with this too; its reason then
    says nothing."""

    session_id: SessionId
    reason: LossReason


# From the executors


@dataclass(frozen=True, slots=True)
class ExecutionProgressed:
    attempt: AttemptId
    fraction: float


@dataclass(frozen=True, slots=True)
class ExecutionSucceeded:
    attempt: AttemptId
    artifact: Artifact


@dataclass(frozen=True, slots=True)
class ExecutionEnded:
    """It is done, and leaves nothing."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ExecutionFailed:
    attempt: AttemptId
    error: WorkError


@dataclass(frozen=True, slots=True)
class ExecutionStopped:
    """It ended because it was told to; nothing of it runs any more."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class ResultEvicted:
    """Something else needed the room: this artifact is going."""

    attempt: AttemptId


# From the process


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The process was told to stop, gently."""


@dataclass(frozen=True, slots=True)
class AcceptingChanged:
    """Whether new work is welcome: not while the worker is reserved for somebody, or short of something."""

    accepting: bool


@dataclass(frozen=True, slots=True)
class PressureRose:
    """New work should hold off for a while."""

    for_s: float


@dataclass(frozen=True, slots=True)
class DiskMeasured:
    """How full the disk is now; told when it has changed enough to matter."""

    use: DiskUse


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `next_deadline` named has come."""


Event = (
    SessionOpened
    | MessageReceived
    | SessionLost
    | ExecutionProgressed
    | ExecutionSucceeded
    | ExecutionEnded
    | ExecutionFailed
    | ExecutionStopped
    | ResultEvicted
    | DrainRequested
    | AcceptingChanged
    | PressureRose
    | DiskMeasured
    | TimePassed
)
