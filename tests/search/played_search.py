"""A search engine that is played by a test: it finds as many rows as the query says, and can be held."""

import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.stop_signal import StopSignal
from quarterdeck.search.engine.open_piece import OpenPiece
from quarterdeck.search.model import ChunkReport, FileProblem, SearchSpec
from quarterdeck.search.ports import RecordBatch

_arrow: Any = pyarrow
SCHEMA: Any = _arrow.schema({"time_us": _arrow.int64(), "pos": _arrow.int64(), "line": _arrow.string()})
"""Of records, as a plain search finds them."""


class PlayedSearcher:
    """Of a query such as `7`, seven batches of one row."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.held = threading.Event()
        """A search has come to where it is held: before its second row."""
        self.running = 0
        self.most_at_once = 0
        self.ended = 0
        self.stopped = 0
        self.asked: list[tuple[SearchSpec, list[str], tuple[str, ...]]] = []
        self.failure: Exception | None = None
        self.problems: tuple[FileProblem, ...] = ()
        self.row = "x"
        self._lock = threading.Lock()

    def warm_up(self) -> None:
        pass

    @contextmanager
    def search(
        self, spec: SearchSpec, pieces: Sequence[OpenPiece], stop: StopSignal, *, ask_about: Collection[str] = ()
    ) -> Generator["PlayedRows"]:
        self.asked.append((spec, [piece.piece.url for piece in pieces], tuple(ask_about)))
        with self._lock:
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        woken = threading.Event()
        try:
            with stop.on_cancel(woken.set):
                yield PlayedRows(self, int(spec.query), pieces, stop, woken)
        finally:
            with self._lock:
                self.running -= 1
                self.ended += 1


class PlayedRows:
    def __init__(
        self,
        searcher: PlayedSearcher,
        count: int,
        pieces: Sequence[OpenPiece],
        stop: StopSignal,
        woken: threading.Event,
    ) -> None:
        self.scanned_bytes = 0
        self._searcher = searcher
        self._count = count
        self._pieces = pieces
        self._stop = stop
        self._woken = woken

    def __iter__(self) -> Iterator[RecordBatch]:
        for number in range(self._count):
            if number == 1:
                self._hold()
            self.scanned_bytes += 10
            yield _arrow.record_batch([[None], [number], [f"{self._searcher.row}{number}"]], SCHEMA)

    def _hold(self) -> None:
        self._searcher.held.set()
        while not self._searcher.go_on.wait(0.005):
            if self._woken.is_set():
                self._searcher.stopped += 1
            self._stop.check()
        if self._searcher.failure is not None:
            raise copy(self._searcher.failure)  # the frames that an error came through are emptied

    @property
    def report(self) -> ChunkReport:
        size_bytes = sum(each.piece.length_bytes for each in self._pieces)
        return ChunkReport(size_bytes, self._count, self._searcher.problems, frozenset({"f"}), len(self._pieces))


class PlayedGatherer:
    """Lines of what there is in the batches."""

    rows = 0
    is_satisfied = False

    def __init__(self) -> None:
        self.closed = False

    def add(self, chunk: int, batches: Iterable[RecordBatch]) -> Iterator[bytes]:
        for batch in batches:
            yield "".join(f"{value}\n" for value in batch.to_pydict()["line"]).encode()

    def finish(self, stop: StopSignal) -> Iterator[bytes]:
        yield b"finished\n"

    def close(self) -> None:
        self.closed = True


FULL = QuarterdeckError(ErrorCode.RESOURCE_EXHAUSTED, "no", "out of memory", "ask for less", retryable=False)
