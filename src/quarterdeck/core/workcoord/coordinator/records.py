"""The mutable records of a coordinator's machine. Only the machine and its dispatcher change them."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from quarterdeck.core.ids import Incarnation, QueryId, SessionId, WorkerId
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.liveness import PeerWatch
from quarterdeck.core.workcoord.load import Load
from quarterdeck.core.workcoord.model import AttemptId, DiskUse, WorkerInfo, WorkerStatus, WorkKey, WorkSpec

if TYPE_CHECKING:
    from quarterdeck.core.workcoord.coordinator.lane import Lane
    from quarterdeck.core.workcoord.coordinator.line import Line


class Loss(StrEnum):
    """What the end of a session says of the process at its other end."""

    ORDERLY = "orderly"
    """It said goodbye, or we ended the session: nothing that it ran is to blame."""
    CUT = "cut"
    """The connection broke. It has died, or the network has failed, and then it comes back as the same process."""
    DEATH = "death"
    """It fell silent, or another process has its place."""


@dataclass(frozen=True, slots=True)
class Death:
    """A worker, or an engine of it, that was lost while it ran a work."""

    worker_id: WorkerId
    incarnation: Incarnation
    is_certain: bool
    """Not so while the same process may come back."""
    had_begun: bool
    """Whether it had said that it runs it. It may have died before it could, or never have got it."""
    of_engine: bool = False
    """It was an engine, which ran nothing else, and the worker lives."""


@dataclass(slots=True, eq=False)
class Query:
    """A question and the works it was broken into. It is forgotten, with all of them, when it ends."""

    query_id: QueryId
    wait_limit_s: float | None
    sealed: bool = False
    ended: bool = False
    unfinished: int = 0
    works: dict[WorkKey, "Work"] = field(default_factory=dict[WorkKey, "Work"])
    """Those that have not ended."""
    finished: set[WorkKey] = field(default_factory=set[WorkKey])
    """The names of those that have: none is done twice."""
    live: dict[AttemptId, "Attempt"] = field(default_factory=dict[AttemptId, "Attempt"])
    """The current attempts of its works, wherever they are."""
    fetches: dict[AttemptId, None] = field(default_factory=dict[AttemptId, None])
    """Fetches under way, also of attempts that are no longer current."""
    lanes: dict["Lane", None] = field(default_factory=dict["Lane", None])
    """Where works of it are pending."""
    lines: dict["Line", None] = field(default_factory=dict["Line", None])
    """Where works of it stand."""
    pending: OrderedDict["Work", None] = field(default_factory=OrderedDict["Work", None])
    """Its works that wait for a worker, the one that has waited longest first."""
    has_result: bool = False
    """A worker came to the end of one of its works: what all of them have in common ends nobody."""
    is_suspect: bool = False
    """What ran a work of it has died, and it has no result."""
    accused: "Work | None" = None
    """While there is one, and no result, it alone of the query is given out: the others may be no better."""

    @property
    def oldest_since(self) -> float | None:
        """Since when the longest waiting of its works waits; None when none does."""
        return next((work.since for work in self.pending), None)


@dataclass(slots=True, eq=False)
class Work:
    spec: WorkSpec
    query: Query
    lane: "Lane"
    state: WorkState = WorkState.PENDING
    number: int = 0
    """The number of the latest attempt."""
    failures: int = 0
    deaths: tuple[Death, ...] = ()
    """What died while it ran this: a work that has any is a suspect, and runs without another suspect beside it."""
    losses: int = 0
    """Workers that were lost while they had it, whether it ran or not."""
    recalls: int = 0
    """How often it was taken back from a worker that had not begun it."""
    is_recalled: bool = False
    """It comes from a worker where it would have waited: not back there, if another can begin it now."""
    current: "Attempt | None" = None
    avoid: tuple[WorkerId, ...] = ()
    """Where it failed, the last one last: not there again while there are others."""
    since: float = 0.0
    """Since when it is pending."""
    lines: tuple["Line", ...] = ()
    """Where it stands while it is pending."""

    @property
    def key(self) -> WorkKey:
        return self.spec.key

    @property
    def current_id(self) -> AttemptId:
        """Names the latest attempt, current or not."""
        return AttemptId(self.key, self.number)

    @property
    def choosy(self) -> bool:
        """It may not go to just any worker, so it does not wait in the common line."""
        return bool(self.avoid)


@dataclass(slots=True, eq=False)
class Attempt:
    attempt_id: AttemptId
    work: Work
    session: "Session"
    since: float
    """When it was assigned."""
    is_recalled: bool = False
    """The worker was asked to hand it back if it has not begun."""

    @property
    def worker_id(self) -> WorkerId:
        return self.session.worker_id


@dataclass(slots=True, eq=False)
class Session:
    session_id: SessionId
    worker: WorkerInfo
    watch: PeerWatch
    state: WorkerState = WorkerState.ABSENT
    status: WorkerStatus = field(default_factory=lambda: WorkerStatus(accepting_work=False))
    credit: int = 0
    load: Load = field(default_factory=Load)
    """The attempts on it, and those that are closing: they keep their credit until they have ended."""
    suspect: Attempt | None = None
    """The attempt on it whose work is a suspect; never two."""
    throttled_until: float = 0.0
    disk: DiskUse | None = None
    attempts: dict[AttemptId, Attempt] = field(default_factory=dict[AttemptId, Attempt])
    """The current attempts it has."""
    closing: dict[AttemptId, WorkKind] = field(default_factory=dict[AttemptId, WorkKind])
    """Attempts we have given up and whose end has not been heard, with their kind."""
    lanes: "deque[Lane]" = field(default_factory=deque["Lane"])
    """The lanes it is in rotation for; none when it is not. Turned as they are served, so that each has its turn."""

    @property
    def worker_id(self) -> WorkerId:
        return self.worker.worker_id

    @property
    def outstanding(self) -> int:
        return self.load.total

    @property
    def free(self) -> int:
        return self.credit - self.load.charged

    def has_credit(self, kind: WorkKind) -> bool:
        return self.load.has_room(kind, self.credit)
