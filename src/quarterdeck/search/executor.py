"""Searches chunks in threads, at most `slots` of them at once, and stops what nobody wants any more.

It knows no reservations and no HTTP: a worker's routes use it, and a root that searches alone.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from quarterdeck.crew.cancel import CancelToken, WorkCanceledError
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.model import Chunk, ChunkReport, FileProblem, Piece, SearchSpec
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.search.ports import ChunkAnswer, RecordBatch
from quarterdeck.search.row_payloads import RowPayloads
from quarterdeck.search.stored_rows import RowLimits, StoredRows
from quarterdeck.stores.threads import in_thread

T = TypeVar("T")

_LOOK_S: Final = 0.2
"""How often somebody who wants to know is told how far a search is."""


class RowsOfChunk(Protocol):
    """`engine.chunk_search.ChunkRows`."""

    def __iter__(self) -> Iterator[RecordBatch]: ...

    @property
    def scanned_bytes(self) -> int: ...

    @property
    def report(self) -> ChunkReport: ...


class Searcher(Protocol):
    """`engine.chunk_search.ChunkSearcher`, or one that a test plays."""

    def warm_up(self) -> None: ...

    def search(
        self, spec: SearchSpec, pieces: Sequence[OpenPiece], stop: StopSignal, *, ask_about: Collection[str] = ()
    ) -> AbstractContextManager[RowsOfChunk]: ...


class ChunkExecutor:
    """Implements `ports.ChunkSearching`, too. Close it when nothing of it runs any more."""

    def __init__(self, searcher: Searcher, opener: PieceOpener, slots: int, rows: RowLimits | None = None) -> None:
        """`rows` are limits for the answer of each chunk that is searched for this process itself."""
        self._rows = rows or RowLimits()
        self._searcher = searcher
        self._opener = opener
        self._slots = asyncio.Semaphore(slots)
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="chunk")

    async def warm_up(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._pool, self._searcher.warm_up)

    def close(self) -> None:
        self._pool.shutdown()

    def run(self, spec: SearchSpec, pieces: Sequence[Piece], ask_about: Collection[str]) -> "ChunkRun":
        """A chunk to be searched; nothing happens before its `parts` are asked for."""
        return ChunkRun(self._searcher, self._opener, self._slots, self._pool, spec, pieces, ask_about)

    async def search(
        self, spec: SearchSpec, chunk: Chunk, *, ask_about: Collection[str], on_progress: Callable[[int], None]
    ) -> ChunkAnswer:
        run = self.run(spec, chunk.pieces, ask_about)
        telling = asyncio.create_task(_tell(run, on_progress), name="tell how far a search is")
        rows = StoredRows(self._rows)
        try:
            async with aclosing(run.parts(RowPayloads().of)) as payloads:
                async for payload in payloads:
                    await rows.add(payload)
        finally:
            telling.cancel()
            await asyncio.wait((telling,))
        return ChunkAnswer(rows, run.report)


class ChunkRun:
    """One chunk, while it is searched."""

    def __init__(
        self,
        searcher: Searcher,
        opener: PieceOpener,
        slots: asyncio.Semaphore,
        pool: ThreadPoolExecutor,
        spec: SearchSpec,
        pieces: Sequence[Piece],
        ask_about: Collection[str],
    ) -> None:
        self.is_waiting = False
        """For others to make room."""
        self._searcher = searcher
        self._opener = opener
        self._slots = slots
        self._pool = pool
        self._spec = spec
        self._pieces = pieces
        self._ask_about = ask_about
        self._token = CancelToken()
        self._rows: RowsOfChunk | None = None
        self._report: ChunkReport | None = None

    @property
    def report(self) -> ChunkReport:
        """When the parts have come to their end."""
        assert self._report is not None, "the chunk was not searched to its end"
        return self._report

    @property
    def scanned_bytes(self) -> int:
        return 0 if self._rows is None else self._rows.scanned_bytes

    @property
    def mark(self) -> int:
        """Something that changes as long as the search gets on: bytes that were scanned, or brought here."""
        return self.scanned_bytes + (self._opener.received_bytes if self._rows is None else 0)

    async def parts(self, render: Callable[[Iterable[RecordBatch]], Iterator[T]]) -> AsyncGenerator[T]:
        """What `render`, in a thread, makes of the rows; None is nothing. Close it when leaving early: the search has
        stopped then."""
        self.is_waiting = True
        async with self._slots:
            self.is_waiting = False
            async with self._opener.opened(self._pieces) as (opened, problems):
                steps = self._steps(opened, problems, render)
                try:
                    while (part := await self._in_thread(lambda: next(steps, None))) is not None:
                        yield part
                finally:
                    self._token.cancel()
                    await self._in_thread(lambda: _close(steps))

    # In a thread

    def _steps(
        self,
        opened: Sequence[OpenPiece],
        problems: Sequence[FileProblem],
        render: Callable[[Iterable[RecordBatch]], Iterator[T]],
    ) -> Generator[T]:
        if not opened:
            self._report = ChunkReport(0, 0, tuple(problems))
            return
        with self._searcher.search(self._spec, opened, self._token, ask_about=self._ask_about) as rows:
            self._rows = rows
            yield from render(rows)
            report = rows.report
        self._report = replace(report, problems=(*problems, *report.problems))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """What it returns or raises. Canceled, it stops the search and waits until that has ended."""
        return await in_thread(function, self._pool, self._token.cancel)


def _close(steps: Generator[object]) -> None:
    """A search that is left has to stop: that it says so is no news."""
    with suppress(WorkCanceledError):
        steps.close()


async def _tell(run: ChunkRun, on_progress: Callable[[int], None]) -> None:
    while True:
        await asyncio.sleep(_LOOK_S)
        on_progress(run.scanned_bytes)
