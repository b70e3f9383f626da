"""What a search's machine keeps of its chunks and of the workers it has."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType

from quarterdeck.core.transitions import TransitionTable
from quarterdeck.recruiter.model import Recruited

Seat = NewType("Seat", int)
"""The number under which a recruited worker takes part. Who is recruited again takes a new one, so that what comes late
of the old one is told apart."""

ROOT: Final = Seat(0)
"""The root itself, when it searches alone."""


class ChunkState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    COMMITTED = "committed"
    """Its one answer is here, and is being gathered."""
    GATHERED = "gathered"
    GIVEN_UP = "given up"


class ChunkTrigger(StrEnum):
    ASSIGN = "assign"
    LOSE = "lose"
    """Whoever had it was lost."""
    FINISH = "finish"
    GATHER = "gather"
    REFUSE = "refuse"
    GIVE_UP = "give up"


_S, _T = ChunkState, ChunkTrigger
CHUNK_TABLE: Final = TransitionTable(
    "chunk",
    initial=_S.WAITING,
    terminal=frozenset({_S.GATHERED, _S.GIVEN_UP}),
    moves={
        (_S.WAITING, _T.ASSIGN): _S.RUNNING,
        (_S.WAITING, _T.GIVE_UP): _S.GIVEN_UP,
        (_S.RUNNING, _T.LOSE): _S.WAITING,
        (_S.RUNNING, _T.FINISH): _S.COMMITTED,
        (_S.RUNNING, _T.REFUSE): _S.GIVEN_UP,
        (_S.COMMITTED, _T.GATHER): _S.GATHERED,
    },
)


@dataclass(slots=True)
class ChunkRecord:
    number: int
    size_bytes: int
    state: ChunkState = CHUNK_TABLE.initial
    seat: Seat | None = None
    """Who searches it, while it runs."""
    lost_workers: int = 0
    """Those that had it and were lost."""
    result_bytes: int = 0
    """While it is being gathered."""

    def move(self, trigger: ChunkTrigger) -> None:
        self.state = CHUNK_TABLE.next(self.state, trigger)


@dataclass(slots=True)
class Member:
    """A worker that takes part."""

    seat: Seat
    worker: Recruited
    idle_since: float
    """When it last had nothing to do; meaningless while it has."""
    chunks: set[int] = field(default_factory=set[int])
    """What it searches now."""
    is_alone_with_suspect: bool = False
    """Its one chunk may kill it, and shall take no other with it."""

    def has_room(self, ahead: int) -> bool:
        """For a chunk, or for one ahead of its turn."""
        return len(self.chunks) < self.worker.slots + ahead and not self.is_alone_with_suspect
