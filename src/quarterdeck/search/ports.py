"""What the driver of a search needs: workers to search with, over HTTP in a process, simulated in a simulation."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.model import Chunk, ChunkReport, SearchSpec

RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""


class WorkerLostError(Exception):
    """The worker was not reached, hung up, was silent for too long, has no room, or is no longer reserved for us: its
    chunk is another's now."""


class WorkerNotReachedError(WorkerLostError):
    """It never had the chunk: no connection came about, or it is not reserved for us. The chunk cannot be blamed."""


class WorkerHasNoRoomError(WorkerLostError):
    """Its disk is full, or another limit of its own is reached: the chunk cannot be blamed, and another may have
    room."""


class WorkerBrokeProtocolError(WorkerLostError):
    """What it answered cannot be read, or does not add up. It had the chunk; nothing of its answer counts."""


BLAMES_NO_CHUNK: Final = (WorkerNotReachedError, WorkerHasNoRoomError)
"""However often that happens to a chunk, it is not given up for it."""


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """A chunk that was searched to its end."""

    batches: Iterable[RecordBatch]
    """Any number of times."""
    report: ChunkReport


class SearchWorkers(Protocol):
    """Recruited workers, as a root sees them."""

    async def search(
        self,
        worker: Recruited,
        spec: SearchSpec,
        chunk: Chunk,
        *,
        ask_about: Collection[str],
        on_progress: Callable[[int], None],
    ) -> ChunkAnswer:
        """All of a chunk's answer, and it adds up. Raises `WorkerLostError`; a `QuarterdeckError` is the worker's own
        refusal, which asking another would not cure. `on_progress` gets the bytes that were scanned so far. Canceled,
        it hangs up."""
        ...

    async def release(self, worker: Recruited) -> None:
        """Gives it back; within two seconds, and whatever goes wrong with that is not told."""
        ...


class ChunkSearching(Protocol):
    """The root's own way to search a chunk, when it has no workers."""

    async def search(
        self, spec: SearchSpec, chunk: Chunk, *, ask_about: Collection[str], on_progress: Callable[[int], None]
    ) -> ChunkAnswer:
        """All of a chunk's answer, or a `QuarterdeckError`. Canceled, it stops soon, and has stopped when it ends."""
        ...
