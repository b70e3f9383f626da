"""The answer of a scan whose works give parts of it: the parts are collected, and merged in an engine's process.

Parts are in the spool or, if they are small, in a folder of the merge. All of them together have no more bytes than a
query may hold there. A few merges run at a time; the others wait within the time of their scans. However a merge ends,
its parts and its folder are removed.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.engines.contained import ContainedRows
from quarterdeck.engines.sql_plan import MergeOrder
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.stores.threads import in_thread

_arrow: Final[Any] = pyarrow
_SPILL: Final = "spill"


class Merger(Protocol):
    """`engines.contained_merge.ContainedMerger`. Blocking."""

    def merge(
        self, order: MergeOrder, paths: Sequence[Path], folder: Path, stop: StopSignal
    ) -> AbstractContextManager[ContainedRows]: ...


@dataclass(frozen=True, slots=True)
class MergeLimits:
    at_once: int
    parts_bytes: int
    """Of the parts of one scan."""


class PartMerging:
    def __init__(self, merger: Merger, folder: Path, limits: MergeLimits) -> None:
        """What a process that was killed has left in the folder is removed."""
        self._merger = merger
        self._folder = folder
        self._limits = limits
        self._turn = asyncio.Semaphore(limits.at_once)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    @asynccontextmanager
    async def answer(self, order: MergeOrder, parts: AsyncIterator[FetchedArtifact]) -> AsyncGenerator["MergedAnswer"]:
        """Takes all parts, and gives the answer to the block."""
        async with self._collected() as kept:
            async for part in parts:
                await kept.add(part)
            async with self._turn:
                token = CancelToken()
                answer = MergedAnswer(_batches(self._merger, order, kept.paths, kept.folder / _SPILL, token), token)
                try:
                    yield answer
                finally:
                    await in_thread(answer.close, on_cancel=token.cancel)

    @asynccontextmanager
    async def _collected(self) -> AsyncGenerator["_Collected"]:
        made: list[Path] = []

        def make() -> None:
            made.append(Path(tempfile.mkdtemp(dir=self._folder)))
            (made[0] / _SPILL).mkdir()

        kept = None
        try:
            await in_thread(make)
            kept = _Collected(made[0], self._limits.parts_bytes)
            yield kept
        finally:
            artifacts = [] if kept is None else kept.artifacts

            def remove() -> None:
                for artifact in artifacts:
                    artifact.release()
                for folder in made:
                    shutil.rmtree(folder, ignore_errors=True)

            await in_thread(remove)


class MergedAnswer:
    """Batches, computed in the thread that asks for the next one. The first has the columns, and no rows."""

    def __init__(self, batches: Generator[Any], token: CancelToken) -> None:
        self.batches: Final = batches
        self.token: Final = token

    def close(self) -> None:
        self.batches.close()


class _Collected:
    """The parts of one scan, as files."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self.folder: Final = folder
        self.paths: Final[list[Path]] = []
        self.artifacts: Final[list[FetchedArtifact]] = []
        self._bytes_left = bytes_max
        self._bytes_max = bytes_max

    async def add(self, part: FetchedArtifact) -> None:
        """The part is released with the others, or here when it is copied."""
        self.artifacts.append(part)
        self._bytes_left -= part.metadata.size_bytes
        if self._bytes_left < 0:
            raise QuarterdeckError(
                ErrorCode.RESOURCE_EXHAUSTED,
                "the parts were not merged",
                f"they have more than the {self._bytes_max:,} bytes that one scan may hold",
                "ask for fewer groups or rows, or ask the coordinator's owner to raise spool_limit_bytes",
                retryable=False,
            )
        if part.path is not None:
            self.paths.append(part.path)
            return
        path, data = self.folder / f"{len(self.paths)}.parquet", part.data
        if data is None:
            raise RuntimeError("a part was released before it was merged")
        await in_thread(lambda: path.write_bytes(data))
        part.release()
        self.paths.append(path)


def _batches(
    merger: Merger, order: MergeOrder, paths: Sequence[Path], folder: Path, stop: StopSignal
) -> Generator[Any]:
    with merger.merge(order, paths, folder, stop) as rows:
        yield _arrow.RecordBatch.from_pylist([], rows.schema)
        yield from rows
