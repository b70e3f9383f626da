"""What may happen to a work, and to a worker, in a coordinator's eyes."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from quarterdeck.core.transitions import TransitionTable


class WorkState(StrEnum):
    """How far a work has come. The state is that of its current attempt; without one it is pending or ended."""

    PENDING = "pending"
    ASSIGNED = "assigned"
    ACCEPTED = "accepted"
    READY = "ready"
    DONE = "done"
    CANCELED = "canceled"
    FAILED = "failed"


class WorkTrigger(StrEnum):
    """Why a work changes state."""

    ASSIGN = "assign"
    ACCEPT = "accept"
    REJECT = "reject"
    RETURN = "return"
    RECALL = "recall"
    READY = "ready"
    END = "end"
    """It is done, and leaves nothing."""
    FAIL = "fail"
    FETCH_FAIL = "fetch fail"
    ARTIFACT_LOST = "artifact lost"
    LOSE = "lose worker"
    COMMIT = "commit"
    CANCEL = "cancel"
    GIVE_UP = "give up"


_W, _T = WorkState, WorkTrigger

WORK_TABLE = TransitionTable(
    name="work",
    initial=_W.PENDING,
    terminal=frozenset({_W.DONE, _W.CANCELED, _W.FAILED}),
    moves=MappingProxyType(
        {
            (_W.PENDING, _T.ASSIGN): _W.ASSIGNED,
            (_W.ASSIGNED, _T.ACCEPT): _W.ACCEPTED,
            (_W.ACCEPTED, _T.READY): _W.READY,
            (_W.READY, _T.COMMIT): _W.DONE,
            (_W.ACCEPTED, _T.END): _W.DONE,
            # Back to the start, one attempt spent.
            (_W.ASSIGNED, _T.REJECT): _W.PENDING,
            (_W.ASSIGNED, _T.RETURN): _W.PENDING,
            (_W.ASSIGNED, _T.RECALL): _W.PENDING,
            (_W.ACCEPTED, _T.FAIL): _W.PENDING,
            (_W.READY, _T.FETCH_FAIL): _W.PENDING,
            (_W.READY, _T.ARTIFACT_LOST): _W.PENDING,
            (_W.ASSIGNED, _T.LOSE): _W.PENDING,
            (_W.ACCEPTED, _T.LOSE): _W.PENDING,
            (_W.READY, _T.LOSE): _W.PENDING,
            # A fetch that outlived its session came through: it counts, whatever became of the attempt.
            (_W.PENDING, _T.COMMIT): _W.DONE,
            (_W.ASSIGNED, _T.COMMIT): _W.DONE,
            (_W.ACCEPTED, _T.COMMIT): _W.DONE,
            # The ends that are not success.
            (_W.PENDING, _T.CANCEL): _W.CANCELED,
            (_W.ASSIGNED, _T.CANCEL): _W.CANCELED,
            (_W.ACCEPTED, _T.CANCEL): _W.CANCELED,
            (_W.READY, _T.CANCEL): _W.CANCELED,
            (_W.PENDING, _T.GIVE_UP): _W.FAILED,
        }
    ),
)


class ReassignmentReason(StrEnum):
    """Why a work that a worker had goes to another."""

    REJECTED = "rejected"
    RETURNED = "returned"
    """By a draining worker, not begun."""
    RECALLED = "recalled"
    """From a worker that had not begun it, because another can begin it sooner."""
    FAILED = "failed"
    FETCH_FAILED = "fetch_failed"
    ARTIFACT_LOST = "artifact_lost"
    WORKER_LOST = "worker_lost"


REASSIGNMENTS: Final[Mapping[WorkTrigger, ReassignmentReason]] = MappingProxyType(
    {
        _T.REJECT: ReassignmentReason.REJECTED,
        _T.RETURN: ReassignmentReason.RETURNED,
        _T.RECALL: ReassignmentReason.RECALLED,
        _T.FAIL: ReassignmentReason.FAILED,
        _T.FETCH_FAIL: ReassignmentReason.FETCH_FAILED,
        _T.ARTIFACT_LOST: ReassignmentReason.ARTIFACT_LOST,
        _T.LOSE: ReassignmentReason.WORKER_LOST,
    }
)
"""For every trigger that takes a work back to the start."""


class WorkerState(StrEnum):
    """Whether a worker is there and takes work. Only an accepting one is in rotation."""

    ABSENT = "absent"
    PAUSED = "paused"
    ACCEPTING = "accepting"
    THROTTLED = "throttled"
    LATE = "late"
    DRAINING = "draining"


class WorkerTrigger(StrEnum):
    """Why a worker changes state."""

    JOIN = "join"
    OPEN = "open"
    CLOSE = "close"
    THROTTLE = "throttle"
    THROTTLE_END = "throttle end"
    MISS = "miss beats"
    BEAT = "beat again"
    DRAIN = "drain"
    LOSE = "lose"


_S, _R = WorkerState, WorkerTrigger

WORKER_TABLE = TransitionTable(
    name="worker",
    initial=_S.ABSENT,
    terminal=frozenset(),
    moves=MappingProxyType(
        {
            (_S.ABSENT, _R.JOIN): _S.PAUSED,
            (_S.PAUSED, _R.OPEN): _S.ACCEPTING,
            (_S.ACCEPTING, _R.CLOSE): _S.PAUSED,
            (_S.THROTTLED, _R.CLOSE): _S.PAUSED,
            (_S.ACCEPTING, _R.THROTTLE): _S.THROTTLED,
            (_S.THROTTLED, _R.THROTTLE): _S.THROTTLED,
            (_S.PAUSED, _R.THROTTLE): _S.PAUSED,
            (_S.DRAINING, _R.THROTTLE): _S.DRAINING,
            (_S.THROTTLED, _R.THROTTLE_END): _S.ACCEPTING,
            (_S.ACCEPTING, _R.MISS): _S.LATE,
            (_S.PAUSED, _R.MISS): _S.LATE,
            (_S.THROTTLED, _R.MISS): _S.LATE,
            (_S.DRAINING, _R.MISS): _S.DRAINING,
            (_S.LATE, _R.BEAT): _S.PAUSED,
            (_S.PAUSED, _R.DRAIN): _S.DRAINING,
            (_S.ACCEPTING, _R.DRAIN): _S.DRAINING,
            (_S.THROTTLED, _R.DRAIN): _S.DRAINING,
            (_S.PAUSED, _R.LOSE): _S.ABSENT,
            (_S.ACCEPTING, _R.LOSE): _S.ABSENT,
            (_S.THROTTLED, _R.LOSE): _S.ABSENT,
            (_S.LATE, _R.LOSE): _S.ABSENT,
            (_S.DRAINING, _R.LOSE): _S.ABSENT,
        }
    ),
)
