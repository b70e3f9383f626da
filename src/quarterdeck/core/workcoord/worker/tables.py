"""What may happen to an attempt on the worker that has it."""

from enum import StrEnum
from types import MappingProxyType

from quarterdeck.core.transitions import TransitionTable


class AttemptState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    """Told to stop; it keeps its slot until it has."""
    READY = "ready"
    LINGERING = "lingering"
    """Nobody waits for the artifact any more; it stays a little for a fetch that is under way."""
    ENDED = "ended"


class AttemptTrigger(StrEnum):
    START = "start"
    SUCCEED = "succeed"
    END = "end"
    """It is done, and leaves nothing."""
    FAIL = "fail"
    STOP = "stop"
    CANCEL = "cancel"
    RETURN = "return"
    RECALL = "recall"
    ACK = "ack"
    LOSE = "lose artifact"
    ORPHAN = "orphan"
    """The session it was bound to is gone."""


_A, _T = AttemptState, AttemptTrigger

ATTEMPT_TABLE = TransitionTable(
    name="attempt",
    initial=_A.QUEUED,
    terminal=frozenset({_A.ENDED}),
    moves=MappingProxyType(
        {
            (_A.QUEUED, _T.START): _A.RUNNING,
            (_A.QUEUED, _T.CANCEL): _A.ENDED,
            (_A.QUEUED, _T.RETURN): _A.ENDED,
            (_A.QUEUED, _T.RECALL): _A.ENDED,
            (_A.QUEUED, _T.ORPHAN): _A.ENDED,
            (_A.RUNNING, _T.SUCCEED): _A.READY,
            (_A.RUNNING, _T.END): _A.ENDED,
            (_A.RUNNING, _T.FAIL): _A.ENDED,
            (_A.RUNNING, _T.CANCEL): _A.STOPPING,
            (_A.RUNNING, _T.ORPHAN): _A.STOPPING,
            (_A.STOPPING, _T.SUCCEED): _A.ENDED,
            (_A.STOPPING, _T.END): _A.ENDED,
            (_A.STOPPING, _T.FAIL): _A.ENDED,
            (_A.STOPPING, _T.STOP): _A.ENDED,
            (_A.STOPPING, _T.CANCEL): _A.STOPPING,
            (_A.STOPPING, _T.ORPHAN): _A.STOPPING,
            (_A.READY, _T.ACK): _A.LINGERING,
            (_A.READY, _T.CANCEL): _A.ENDED,
            (_A.READY, _T.LOSE): _A.ENDED,
            (_A.READY, _T.ORPHAN): _A.LINGERING,
            (_A.LINGERING, _T.LOSE): _A.ENDED,
        }
    ),
)
