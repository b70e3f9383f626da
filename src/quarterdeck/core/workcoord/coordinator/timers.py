"""The things a coordinator's machine waits for, as keys of its deadlines."""

from dataclasses import dataclass

from quarterdeck.core.ids import QueryId, SessionId
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.liveness import SessionTimer


@dataclass(frozen=True, slots=True)
class ThrottleTimer:
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class SpillTimer:
    """A work has waited long enough for its home worker."""

    lane: tuple[str, WorkKind]


@dataclass(frozen=True, slots=True)
class RecallTimer:
    """A work has waited long enough on a worker that does not begin it."""

    lane: tuple[str, WorkKind]


@dataclass(frozen=True, slots=True)
class BacklogTimer:
    """More works without a home are to be placed."""

    lane: tuple[str, WorkKind]


@dataclass(frozen=True, slots=True)
class WaitTimer:
    """A query has waited as long as it may for any worker at all."""

    lane: tuple[str, WorkKind]
    query_id: QueryId


Timer = SessionTimer | ThrottleTimer | SpillTimer | RecallTimer | BacklogTimer | WaitTimer
