"""What a worker's routes search with, in a simulation: scans that take the time the scenario says."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.search.frames import encode_progress
from quarterdeck.search.model import ChunkReport, Piece, SearchSpec
from quarterdeck.search.world.searches import CHUNK_BYTES, refusal, report_of

if TYPE_CHECKING:
    from quarterdeck.search.world.hosts import WorkerHost

_SLICE_S: Final = 0.4
"""After how much scanning there are rows to be sent."""


class SimulatedExecutor:
    """What `worker_routes` needs of `executor.ChunkExecutor`."""

    def __init__(self, host: "WorkerHost") -> None:
        self._host = host
        self._slots = asyncio.Semaphore(host.load.slots)

    def run(self, spec: SearchSpec, pieces: Sequence[Piece], ask_about: Collection[str]) -> "SimulatedRun":  # noqa: ARG002
        return SimulatedRun(self._host, self._slots, pieces[0].url)


class SimulatedRun:
    """What `worker_routes` needs of `executor.ChunkRun`."""

    def __init__(self, host: "WorkerHost", slots: asyncio.Semaphore, url: str) -> None:
        self.is_waiting = False
        self.scanned_bytes = 0
        self._host = host
        self._slots = slots
        self._url = url

    @property
    def report(self) -> ChunkReport:
        return report_of(self._url)

    @property
    def mark(self) -> int:
        return self.scanned_bytes

    async def parts(self, render: Callable[..., Any]) -> AsyncGenerator[bytes]:  # noqa: ARG002 - there are no rows
        world = self._host.world
        load, number = world.load_of(self._url)
        self.is_waiting = True
        async with self._slots:
            self.is_waiting = False
            if number == load.refused:
                raise refusal()
            left_s = duration_s = load.chunks[number]
            while left_s > 0:
                await self._scan(min(left_s, _SLICE_S))
                left_s -= _SLICE_S
                self.scanned_bytes = round(CHUNK_BYTES * (1 - max(0.0, left_s) / duration_s))
                yield encode_progress(self.scanned_bytes)
                if number == load.deadly:
                    world.dies_of(self._host, self._url)

    async def _scan(self, for_s: float) -> None:
        await asyncio.sleep(for_s)
        still_s = self._host.still_until_s - self._host.world.loop.time()
        await asyncio.sleep(max(0.0, still_s))
