"""The nouns both machines share: workers, works, policies, artifacts. Values only: nothing here changes or decides."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from quarterdeck.core.ids import Incarnation, LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.placement import PlacementStrategy


class WorkKind(StrEnum):
    """What a worker can be asked to do. Jobs are not here: they are claimed in SQL and never pass through workcoord."""

    LEAF = "leaf"
    SEARCH = "search"
    EPOCH = "epoch"
    FRAGMENT = "fragment"


class Binding(StrEnum):
    """What a work's life hangs on."""

    SESSION = "session"
    """The session that assigned it: session gone, work moves on, and the worker stops what it was doing for it."""
    DURABLE = "durable"
    """Nothing but its owner's word: it survives the session and is taken up again when the worker is back."""


@dataclass(frozen=True, slots=True)
class WorkPolicy:
    """How a kind of work is treated. The machines read this and never ask for the kind."""

    binding: Binding
    max_failures: int
    """How often a work may fail, or lose its worker, before its query fails. Higher rides out more trouble, and lets a
    poisonous work take down more workers. Rejections and returns are nobody's failure and do not count."""
    pinned: bool = False
    """The work names its worker and waits for that one alone."""
    held: bool = False
    """The result stays in the worker and is served from there, until the work is canceled."""
    resident: bool = False
    """Runs beside the slots for as long as it lives, and takes credit only until it is accepted."""
    lease_s: float | None = None
    """How long an unreachable durable work waits for its worker before it is given to another. None waits for ever."""

    def __post_init__(self) -> None:
        if self.max_failures < 1:
            raise ValueError(f"max_failures is {self.max_failures}, it must be at least 1")
        if self.binding is Binding.SESSION and (self.held or self.pinned or self.resident or self.lease_s is not None):
            raise ValueError("session-bound work cannot be held, pinned, resident or leased: its session is its life")


class WorkKey(NamedTuple):
    """Names a work. It is the key under which a result is committed once."""

    query_id: QueryId
    leaf_id: LeafId
    work_id: WorkId

    def __str__(self) -> str:
        return self.work_id


class AttemptId(NamedTuple):
    """Names one try of one work. The number rises with each try and is never used again."""

    key: WorkKey
    number: int

    def __str__(self) -> str:
        return f"{self.key.work_id}#{self.number}"


@dataclass(frozen=True, slots=True)
class WorkSpec:
    """What is to be done, and how to treat it. The payload is the capability's own and opaque here."""

    key: WorkKey
    kind: WorkKind
    policy: WorkPolicy
    payload: bytes = b""
    affinity_key: str = ""
    """Works with one affinity key prefer one worker, whose cache then has what they read."""
    tenant: str = "default"
    placement: PlacementStrategy = PlacementStrategy.RENDEZVOUS
    pinned_to: WorkerId | None = None
    group: str | None = None
    """No two works of a group are given to one worker: how replicas stay apart."""
    is_light: bool = False
    """It takes no time to speak of, as far as is known: it need not wait behind those that may take long."""

    def __post_init__(self) -> None:
        if self.policy.pinned != (self.pinned_to is not None):
            raise ValueError(f"work {self.key.work_id}: a pinned work names its worker, and only a pinned one does")


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Who a worker is. Fixed for one incarnation."""

    worker_id: WorkerId
    incarnation: Incarnation
    kinds: frozenset[WorkKind]
    slots: int
    """How many works it runs at once."""
    queue_places: int
    """How many more it takes while all slots are busy."""
    node: str = ""
    tenant: str = "default"
    memory_bytes: int = 0
    address: str = ""
    """Where its artifacts are served."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker says of itself in every heartbeat; that it says anything means it is alive."""

    accepting_work: bool
    draining: bool = False

    def __post_init__(self) -> None:
        if self.draining and self.accepting_work:
            raise ValueError("a draining worker accepts no work")


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What a worker's results and cache take on its disk, and what is left there. For people to look at."""

    artifact_bytes: int
    cache_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class LivenessPolicy:
    """How two peers find out that the other is gone; the coordinator announces it for the session."""

    interval_s: float = 1.0
    """Time between heartbeats. Shorter finds a silent peer sooner and costs more messages."""
    warn_after_missed: int = 2
    """A worker this many beats behind gets no new work until it is heard again."""
    lost_after_missed: int = 3
    """A peer this many beats behind is lost. Lower mistakes a pause for a death; higher keeps queries waiting."""

    def __post_init__(self) -> None:
        if self.interval_s <= 0:
            raise ValueError(f"interval_s is {self.interval_s}, it must be above 0")
        if not 1 <= self.warn_after_missed < self.lost_after_missed:
            raise ValueError("a peer must be warned of, at least one beat missed, before it is lost")

    @property
    def warn_after_s(self) -> float:
        return self.interval_s * self.warn_after_missed

    @property
    def lost_after_s(self) -> float:
        return self.interval_s * self.lost_after_missed


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a worker says of a finished result; all of it is checked on fetch."""

    url: str
    size_bytes: int
    checksum: str
    row_count: int
    min_ts: int
    max_ts: int
    parquet_schema_version: int


@dataclass(frozen=True, slots=True)
class WorkError:
    """Why a work could not be done."""

    code: str
    message: str
    retryable: bool = True
    culprit: bool = False
    """It ended the engine that ran it, which ran nothing else: no need to guess whose fault it was."""


class HeldState(StrEnum):
    """How far a worker got with a durable work that it still has."""

    RUNNING = "running"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Holding:
    """A durable work that a worker has, told to a leader when a session with it begins."""

    attempt: AttemptId
    state: HeldState
