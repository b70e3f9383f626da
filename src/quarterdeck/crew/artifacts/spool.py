"""The worker's artifacts: files in one folder, within the worker's disk budget, served under names nobody can guess.

A small one stays in memory while there is room for it there, and never becomes a file. An artifact lives until it is
dropped, or until it is evicted to make room, which is told to `on_lost`. None survives the process. Writers use the
spool from executors' threads, the rest from the event loop; no disk is waited for under its lock.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quarterdeck.core.workcoord.model import Artifact, AttemptId
from quarterdeck.crew.artifacts.format import PATH_PREFIX, new_name, prepare_folder
from quarterdeck.crew.artifacts.pocket import Pocket
from quarterdeck.crew.artifacts.writer import ArtifactWriter, Finished
from quarterdeck.stores.disk import DiskBudget, GrowingFile, Owner


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """An artifact that can be fetched."""

    name: str
    """Also its key in the disk budget."""
    size_bytes: int
    checksum: str
    attempt: AttemptId
    path: Path | None
    data: bytes | None
    """Either this or `path` is there."""


class ArtifactSpool:
    """Gives out writers, and finds what they finished."""

    def __init__(
        self,
        folder: Path,
        budget: DiskBudget,
        base_url: Callable[[], str],
        on_lost: Callable[[AttemptId], None],
        *,
        memory_limit_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`base_url` is asked when an artifact is finished, since a port may be known only then. `on_lost` is called
        from whichever thread needed the room. `memory_limit_bytes` is for all small artifacts together: more spares
        the disk in a burst, 0 makes each of them a file."""
        self.budget: Final = budget
        self._folder = folder
        self._base_url = base_url
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._files: dict[str, SpooledFile] = {}
        self._names: dict[AttemptId, str] = {}
        self._pocket = Pocket(memory_limit_bytes)

    def recover(self) -> None:
        """At start, before anything is created: artifacts do not survive the process."""
        prepare_folder(self._folder)

    def create(self, attempt: AttemptId) -> ArtifactWriter:
        """Where an executor writes its result to. An attempt has one artifact."""
        if attempt in self._names:
            raise RuntimeError(f"attempt {attempt} has an artifact already")
        return ArtifactWriter(_Berth(self, attempt, new_name()))

    def acknowledged(self, attempt: AttemptId) -> None:
        """Nobody waits for it any more: it lingers, and is evicted before those that are waited for."""
        with self._lock:
            name = self._names.get(attempt)
            if name is None or self._pocket.release(name):
                return
        self.budget.acknowledge(name)

    def forget(self, attempt: AttemptId) -> bool:
        """Drops it if it is in memory alone; whether it is gone, now or already."""
        with self._lock:
            name = self._names.get(attempt)
            if name is None:
                return True
            if not self._pocket.remove(name):
                return False
            del self._names[attempt], self._files[name]
            return True

    def drop(self, attempt: AttemptId) -> None:
        """Deletes it; one that is gone already is fine. A transfer that has begun goes on. A large file takes its
        time to be deleted: on an event loop, do this in a thread."""
        if self.forget(attempt):
            return
        with self._lock:
            name = self._names.pop(attempt, None)
            if name is None:  # evicted just now
                return
            del self._files[name]
        self.budget.remove(name)

    def find(self, name: str) -> SpooledFile | None:
        """By the exact name; it is never made a path, so nothing outside can be named."""
        return self._files.get(name)

    def __len__(self) -> int:
        """How many can be fetched now."""
        return len(self._files)

    @property
    def memory_bytes(self) -> int:
        """What is kept in memory; what is on disk the budget knows."""
        return self._pocket.used_bytes

    def evicted(self, owner: Owner, key: str) -> None:
        """For `DiskBudget.on_evicted`: a file was deleted to make room, perhaps one of ours."""
        if owner is Owner.ARTIFACTS:
            with self._lock:
                lost = self._forget(key)
            if lost is not None:
                self._on_lost(lost)

    # What a berth asks for

    def create_file(self, name: str) -> GrowingFile:
        return self.budget.create(Owner.ARTIFACTS, name, self._folder / name)

    def keep_data(self, attempt: AttemptId, name: str, data: bytes, finished: Finished) -> Artifact | None:
        artifact = self._announcement(name, finished)
        with self._lock:
            gone = self._pocket.put(name, len(data))
            if gone is None:
                return None
            lost = [self._forget(other) for other in gone]
            self._register(SpooledFile(name, len(data), finished.checksum, attempt, None, data))
        for other in lost:
            if other is not None:
                self._on_lost(other)
        return artifact

    def keep_file(self, attempt: AttemptId, name: str, file: GrowingFile, finished: Finished) -> Artifact:
        artifact = self._announcement(name, finished)
        # Pinned until it can be found: what is evicted before that would be announced all the same.
        pin = file.keep_pinned()
        with self._lock:
            path = self._folder / name
            self._register(SpooledFile(name, finished.size_bytes, finished.checksum, attempt, path, None))
        pin.release()
        return artifact

    def _register(self, file: SpooledFile) -> None:
        self._files[file.name] = file
        self._names[file.attempt] = file.name

    def _forget(self, name: str) -> AttemptId | None:
        file = self._files.pop(name, None)
        if file is None:
            return None
        del self._names[file.attempt]
        return file.attempt

    def _announcement(self, name: str, finished: Finished) -> Artifact:
        return Artifact(
            url=f"{self._base_url()}{PATH_PREFIX}{name}",
            size_bytes=finished.size_bytes,
            checksum=finished.checksum,
            row_count=finished.stamp.row_count,
            min_ts=finished.stamp.min_ts,
            max_ts=finished.stamp.max_ts,
            parquet_schema_version=finished.stamp.schema_version,
        )


@dataclass(frozen=True, slots=True)
class _Berth:
    """The spool's side of one writer."""

    spool: ArtifactSpool
    attempt: AttemptId
    name: str

    def create_file(self) -> GrowingFile:
        return self.spool.create_file(self.name)

    def keep_data(self, data: bytes, finished: Finished) -> Artifact | None:
        return self.spool.keep_data(self.attempt, self.name, data, finished)

    def keep_file(self, file: GrowingFile, finished: Finished) -> Artifact:
        return self.spool.keep_file(self.attempt, self.name, file, finished)
