"""What the drivers of recruiting need from the world: somebody to register with, somebody to recruit from, workers to
search with; over HTTP in a process, simulated in a simulation."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from quarterdeck.recruiter.model import Chunk, ChunkReport, Directive, Offer, Recruited, SearchSpec

RecordBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The end of a registration."""

    directive: Directive
    reservation: str = ""
    """With RESERVED: its name."""
    label: str = ""
    """With RESERVED: what the root said it is for."""


class RegistrationFailedError(Exception):
    """The recruiter could not be reached, hung up, or refused; the message says which."""


class Registry(Protocol):
    """Recruiters, as a worker sees them."""

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        """Holds a registration with the recruiter of this URL until it ends. Canceled, it is taken back."""
        ...


class Recruiting(Protocol):
    """Recruiters, as a root sees them."""

    async def recruit(self, number: int, label: str) -> Sequence[Recruited]:
        """At most so many workers, from as many recruiters as it takes. To reach none is to get none."""
        ...


class WorkerLostError(Exception):
    """The worker was not reached, hung up, was silent for too long, or is no longer reserved for us: its chunk is
    another's now."""


class WorkerNotReachedError(WorkerLostError):
    """It never had the chunk: no connection came about, or it is not reserved for us. The chunk cannot be blamed."""


class WorkerBrokeProtocolError(WorkerLostError):
    """What it answered cannot be read, or does not add up. It had the chunk; nothing of its answer counts."""


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
