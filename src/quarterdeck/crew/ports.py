"""What the drivers need from the world: connections, a clock, ids, an executor, a fetcher; real or simulated.

A driver never asks the operating system for any of these itself; so the same driver runs in a process and in a
simulation.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from quarterdeck.core.ids import SessionId, WorkerId
from quarterdeck.core.workcoord.model import Artifact, AttemptId, Ended, WorkError, WorkSpec

ResultT = TypeVar("ResultT")


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since some moment, never stepped by an administrator."""
        ...


class Ids(Protocol):
    def session_id(self) -> SessionId: ...


class ExecutionFailedError(Exception):
    """An executor's way of saying why a work could not be done."""

    def __init__(self, error: WorkError) -> None:
        super().__init__(error.message)
        self.error = error


class Executor(Protocol):
    """Does the work, on the worker. One for all kinds: which one is asked is its own affair."""

    async def execute(self, attempt: AttemptId, spec: WorkSpec, progress: Callable[[float], None]) -> Artifact | Ended:
        """Does it and says where the result is, or that it has ended if `spec.leaves_nothing`; or raises
        `ExecutionFailedError`. Canceled, it stops soon and leaves nothing behind."""
        ...

    def release(self, attempt: AttemptId) -> None:
        """Nobody waits for the artifact any more; it may go first if room is needed."""
        ...

    def forget(self, attempt: AttemptId) -> bool:
        """Drops what takes no time to drop; whether that was all of it."""
        ...

    async def drop(self, attempt: AttemptId) -> None:
        """Deletes the artifact."""
        ...


class FetchFailedError(Exception):
    """A fetcher's way of saying why a result could not be had: gone, late, or not what was announced."""

    def __init__(self, error: WorkError) -> None:
        super().__init__(error.message)
        self.error = error


class Fetcher(Protocol[ResultT]):
    """Gets results, on the coordinator."""

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> ResultT:
        """Brings the result here and verifies it against what was announced, or raises `FetchFailedError`."""
        ...

    def discard(self, result: ResultT) -> None:
        """A result that was fetched and is not needed."""
        ...
