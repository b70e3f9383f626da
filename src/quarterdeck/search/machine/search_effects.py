"""What a search's machine wants done. Imperative: the driver executes them in the order in which they come."""

from dataclasses import dataclass

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine.search_records import Seat


@dataclass(frozen=True, slots=True)
class Recruit:
    """Ask for so many workers; answer with `WorkersRecruited`, also after the search has ended. There is never more
    than one such question open."""

    number: int


@dataclass(frozen=True, slots=True)
class AssignChunk:
    """Answer with `ChunkFinished`, `ChunkRefused` or `WorkerLost`."""

    seat: Seat
    worker: Recruited
    chunk: int


@dataclass(frozen=True, slots=True)
class SearchAlone:
    """Search it here. Answer with `ChunkFinished` or `ChunkRefused`, of the seat `ROOT`."""

    chunk: int


@dataclass(frozen=True, slots=True)
class CommitChunk:
    """The answer that has just come is this chunk's, for good: gather it, and answer with `ChunkGathered`."""

    chunk: int


@dataclass(frozen=True, slots=True)
class HangUp:
    """Break off the search of this chunk; no answer is expected."""

    seat: Seat
    chunk: int


@dataclass(frozen=True, slots=True)
class ReleaseWorker:
    """Give it back. Comes once for each that was recruited, also for a lost one: it may only have been slow."""

    worker: Recruited


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The chunk is not searched: it has lost so many workers that it may be what kills them."""

    chunk: int
    lost_workers: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do; the last effect but `ReleaseWorker` for those who come too late."""


Effect = Recruit | AssignChunk | SearchAlone | CommitChunk | HangUp | ReleaseWorker | GiveUp | Finish
