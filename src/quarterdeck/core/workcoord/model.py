"""The nouns both machines share: workers, works, artifacts. Values only: nothing here changes or decides."""

from dataclasses import dataclass
from typing import NamedTuple

from quarterdeck.core.ids import Incarnation, LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.placement import PlacementStrategy
from quarterdeck.core.workcoord.kinds import WorkKind


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
    """What is to be done. The payload is the capability's own and opaque here."""

    key: WorkKey
    kind: WorkKind
    payload: bytes = b""
    affinity_key: str = ""
    """Works with one affinity key prefer one worker, whose cache then has what they read."""
    tenant: str = "default"
    placement: PlacementStrategy = PlacementStrategy.RENDEZVOUS
    is_light: bool = False
    """It takes no time to speak of, as far as is known: it need not wait behind those that may take long."""
    leaves_nothing: bool = False
    """What it does stays elsewhere: it ends without an artifact. It may run more than once before its end is heard."""


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
class Ended:
    """How a work ends that leaves nothing: there is no artifact, and nothing to fetch."""


ENDED = Ended()


@dataclass(frozen=True, slots=True)
class WorkError:
    """Why a work could not be done."""

    code: str
    message: str
    retryable: bool = True
    culprit: bool = False
    """It ended the engine that ran it, which ran nothing else: no need to guess whose fault it was."""
