"""What a search's machine is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine.search_records import Seat


@dataclass(frozen=True, slots=True)
class Started:
    """The first event, and there is one."""


@dataclass(frozen=True, slots=True)
class WorkersRecruited:
    """The answer to `Recruit`, also when it brought nobody."""

    workers: tuple[Recruited, ...]


@dataclass(frozen=True, slots=True)
class ChunkFinished:
    """A whole answer has come. It counts only if the machine says `CommitChunk`."""

    seat: Seat
    chunk: int
    result_bytes: int
    """What it takes in memory until it is gathered."""


@dataclass(frozen=True, slots=True)
class ChunkRefused:
    """It can be searched by nobody: asking another would not cure it."""

    seat: Seat
    chunk: int


@dataclass(frozen=True, slots=True)
class ChunkGathered:
    """What was committed has become part of the answer, and takes no memory of its own any more."""

    chunk: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Nothing is to be expected of it any more."""

    seat: Seat
    had_chunk: bool = True
    """False when it was not reached, or was no longer ours: no chunk can be blamed for that."""


@dataclass(frozen=True, slots=True)
class SearchSatisfied:
    """Whatever is left cannot change the answer."""


@dataclass(frozen=True, slots=True)
class SearchCanceled:
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `next_deadline` named has come."""


Event = (
    Started
    | WorkersRecruited
    | ChunkFinished
    | ChunkRefused
    | ChunkGathered
    | WorkerLost
    | SearchSatisfied
    | SearchCanceled
    | TimePassed
)
