"""What an engine's process does: it answers one question after the other, until nobody is left who could ask.

Two threads: one computes, the other one listens for interrupts and for the end. Nobody waits for this process to be
tidy: it has nothing that would outlive it.
"""

import os
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from socket import socket
from typing import Any, Final, NoReturn, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.engine_wire import (
    HEADER_BYTES,
    FrameKind,
    Question,
    encode_batch,
    encode_error,
    encode_schema,
    read_header,
    receive_exactly,
    send_frame,
)
from quarterdeck.engines.scan_file import ScanFile
from quarterdeck.engines.stop_signal import StopSignal

EXIT_NO_MEMORY: Final = 12
"""As ENOMEM."""


class Rows(Protocol):
    """`duckdb_scan.Rows`."""

    @property
    def schema(self) -> Any: ...

    @property
    def fraction(self) -> float: ...

    def __iter__(self) -> Iterator[Any]: ...


class Engine(Protocol):
    """`duckdb_scan.DuckDbScanner`, or one that a test has made of it."""

    def warm_up(self) -> None: ...

    def scan(
        self, sql: str, files: Sequence[ScanFile], stop: StopSignal, *, with_filename: bool = False
    ) -> AbstractContextManager[Rows]: ...


class _StoppedError(QuarterdeckError):
    def __init__(self) -> None:
        super().__init__(ErrorCode.CANCELED, "the query was stopped", "nobody waits for it", "ask again if you do")


class _Stop:
    """The signal of one query, given by the thread that listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._is_stopped = False

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            for callback in self._callbacks:
                callback()

    def check(self) -> None:
        if self._is_stopped:
            raise _StoppedError

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Generator[None]:
        with self._lock:
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)


class EngineChild:
    """In a process of its own. Never returns."""

    def __init__(self, link: socket, engine: Engine) -> None:
        self._link = link
        self._engine = engine
        self._questions: queue.SimpleQueue[tuple[int, bytes, _Stop]] = queue.SimpleQueue()
        self._last: tuple[int, _Stop] = (-1, _Stop())
        """The number of the last question, and its signal."""

    def run(self) -> NoReturn:
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self._engine.warm_up()
        while True:
            self._answer(*self._questions.get())

    def _answer(self, query: int, payload: bytes, stop: _Stop) -> None:
        fraction = 0.0
        try:
            question = Question.decode(payload)
            with self._engine.scan(question.sql, question.files, stop, with_filename=question.with_filename) as rows:
                send_frame(self._link, FrameKind.SCHEMA, query, encode_schema(rows.schema))
                for batch in rows:
                    fraction = rows.fraction
                    send_frame(self._link, FrameKind.BATCH, query, encode_batch(batch), fraction)
                fraction = rows.fraction
            send_frame(self._link, FrameKind.END, query, fraction=fraction)
        except QuarterdeckError as error:
            send_frame(self._link, FrameKind.ERROR, query, encode_error(error))
        except MemoryError:
            os._exit(EXIT_NO_MEMORY)
        except ConnectionError:
            os._exit(0)  # nobody takes the answer

    # In the thread that listens

    def _listen(self) -> None:
        try:
            while (header := receive_exactly(HEADER_BYTES, self._link.recv_into)) is not None:
                frame = read_header(bytes(header))
                payload = receive_exactly(frame.size_bytes, self._link.recv_into)
                if frame.kind is FrameKind.QUESTION and payload is not None:
                    self._last = (frame.query, _Stop())
                    self._questions.put((frame.query, bytes(payload), self._last[1]))
                elif frame.kind is FrameKind.INTERRUPT and frame.query == self._last[0]:
                    self._last[1].stop()
        finally:
            os._exit(0)
