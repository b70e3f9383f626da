"""An engine in processes of its own: a crash, a stall or a runaway costs only the query that caused it, and its
process.

Each process answers one question at a time and is kept for the next one, with what it has made for it. A process that
has died, did not stop within a second, or has kept much memory is replaced. The engine decides about questions and
answers: `contained_scan` has one. This process loads no engine.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.engines.engine_died import EngineDiedError
from quarterdeck.engines.engine_host import HostConfig
from quarterdeck.engines.engine_process import EngineProcess, EngineProcesses
from quarterdeck.engines.engine_wire import (
    BrokenAnswerError,
    FrameKind,
    RecordBatch,
    Schema,
    decode_batch,
    decode_error,
    decode_schema,
)
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.stop_signal import StopSignal

T = TypeVar("T")

MIB: Final = 1024**2
UNCOUNTED_BYTES: Final = 256 * MIB
"""What a process may have beyond the memory that DuckDB counts: the process itself, parsed SQL, rows on their way, and
single values."""
KEPT_BYTES: Final = 256 * MIB
"""A process that has more when its query is over is replaced: allocators give little back."""
PATIENCE_S: Final = 1.0
"""How long an engine may go on after it was told to stop."""


class ContainedRows:
    """The answer to a question, while it is computed. Read it once, in the thread that asked."""

    def __init__(self, process: EngineProcess, stop: StopSignal) -> None:
        self.fraction = 0.0
        """How far it is, as far as the engine can tell: from 0 to 1, and never back."""
        self.last: bytes | None = None
        """What the engine says at the end; None before that."""
        self._process = process
        self._stop = stop
        self.schema: Final[Schema] = self._received(FrameKind.SCHEMA, decode_schema)

    def __iter__(self) -> Iterator[RecordBatch]:
        while (batch := self._received(FrameKind.BATCH, self._batch)) is not None:
            yield batch

    def broke(self, error: BrokenAnswerError) -> EngineDiedError:
        """What the engine said makes no sense to whoever asked: it is ended. To be raised."""
        return self._process.broke(error)

    def _batch(self, payload: Any) -> RecordBatch:
        return decode_batch(payload, self.schema)

    def _received(self, wanted: FrameKind, decode: Callable[[Any], T]) -> T | None:
        """What the next frame of this kind holds; None at the end of batches. Whatever is raised after a stop signal,
        the signal was the reason."""
        self._stop.check()
        try:
            while True:
                header, payload = self._process.receive()
                self.fraction = max(self.fraction, header.fraction)
                if header.kind is not FrameKind.PROGRESS:
                    break
            if header.kind is FrameKind.END and wanted is FrameKind.BATCH:
                self.last = bytes(payload)
                return None
            try:
                if header.kind is FrameKind.ERROR:
                    raise decode_error(payload)
                if header.kind is not wanted:
                    raise BrokenAnswerError(f"{header.kind.name} instead of {wanted.name}")
                return decode(payload)
            except BrokenAnswerError as error:
                raise self._process.broke(error) from error
        except QuarterdeckError:
            self._stop.check()
            raise


class ContainedEngine:
    """One for a process. Any number of threads may ask at once; so many processes are kept as are wanted `at_once`."""

    def __init__(
        self,
        engine: str,
        limits: EngineLimits,
        *,
        at_once: int,
        uncounted_bytes: int = UNCOUNTED_BYTES,
        kept_bytes: int = KEPT_BYTES,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`engine` is the name of what makes one, as `module:name`."""
        allowed_bytes = limits.memory_limit_bytes + uncounted_bytes
        config = HostConfig(engine, limits, ceiling_bytes=2 * allowed_bytes + 1024 * MIB)
        self._processes = EngineProcesses(config, allowed_bytes, patience_s)
        self._kept_bytes = kept_bytes
        self._at_once = at_once
        self._lock = threading.Lock()
        self._idle: list[tuple[Hashable, EngineProcess]] = []
        """Each with the key of what it did last; who was idle longest comes first."""
        self._closed = False

    @property
    def processes(self) -> list[int]:
        """Those that wait for a query."""
        with self._lock:
            return [process.pid for _, process in self._idle]

    @property
    def host_pid(self) -> int | None:
        """The process that they are forked from."""
        return self._processes.host_pid

    def warm_up(self) -> None:
        """What the first queries would have to wait for otherwise: as many processes as are kept."""
        self._have(self._at_once)

    def _have(self, count: int) -> None:
        while True:
            with self._lock:
                if self._closed or len(self._idle) >= count:
                    return
            process = self._processes.start()
            with self._lock:
                self._idle.append((None, process))

    def close(self) -> None:
        """Nothing is asked any more: all processes have ended."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, process in idle:
            process.end()
        self._processes.close()

    @contextmanager
    def asked(self, key: Hashable, question: bytes, stop: StopSignal, *more: Any) -> Generator[ContainedRows]:
        """Asks, and gives the answer to the block. Best a process that was asked with the same key last answers: it has
        what it made then. `more` are buffers that belong to the question. What `stop.check` raises ends it when it is
        stopped."""
        while True:
            stop.check()
            idle = self._idle_one(key)
            process = idle or self._processes.start()
            try:
                with stop.on_cancel(process.interrupt):
                    try:
                        process.ask(question, *more)
                    except EngineDiedError:
                        stop.check()
                        if idle is None:
                            raise
                        continue  # it died while it was idle, which is not this query's fault
                    try:
                        yield ContainedRows(process, stop)
                    finally:
                        process.settle()
                    return
            finally:
                self._take_back(key, process)

    def _idle_one(self, key: Hashable) -> EngineProcess | None:
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][0] == key:
                    return self._idle.pop(place)[1]
            return self._idle.pop(0)[1] if self._idle else None

    def _take_back(self, key: Hashable, process: EngineProcess) -> None:
        is_kept = not process.is_dead and process.memory_bytes() <= self._kept_bytes
        with self._lock:
            is_kept = is_kept and not self._closed and len(self._idle) < self._at_once
            if is_kept:
                self._idle.append((key, process))
        if not is_kept:
            process.end()
