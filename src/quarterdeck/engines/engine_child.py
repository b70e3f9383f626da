"""What an engine's process does: it answers one question after the other, until nobody is left who could ask.

It has two threads. One computes; the other one listens for interrupts and for the end, and reports the progress of the
first. Nobody waits for this process to tidy up: it has nothing that would outlive it.
"""

import os
import queue
import select
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from socket import MSG_DONTWAIT, socket
from typing import Any, Final, NoReturn, Protocol

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.engine_wire import (
    HEADER_BYTES,
    FrameKind,
    encode_batch,
    encode_error,
    encode_schema,
    header_of,
    read_header,
    receive_exactly,
    send_frame,
)
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.engines.stop_signal import StopSignal

EXIT_NO_MEMORY: Final = 12
"""As ENOMEM."""
_TELL_MS: Final = 200
"""How often it is told how far an answer is, while nothing else is said."""


class Answer(Protocol):
    """Read once, to its end."""

    @property
    def schema(self) -> Any: ...

    @property
    def fraction(self) -> float:
        """How far it is, from 0 to 1. Any thread may ask."""
        ...

    def __iter__(self) -> Iterator[Any]: ...

    def last(self) -> bytes:
        """What is to be said at the end."""
        ...


class Engine(Protocol):
    """`scan_engine.ScanEngine` for one."""

    def warm_up(self) -> None:
        """What the first question would have to wait for otherwise."""
        ...

    def answer(self, question: memoryview, stop: StopSignal) -> AbstractContextManager[Answer]:
        """What cannot be answered is a `QuarterdeckError`; what `stop.check` raises is passed on."""
        ...


class EngineMaker(Protocol):
    """The class of an engine."""

    def __call__(self, limits: EngineLimits) -> Engine:
        """In a child."""
        ...

    def load(self) -> None:
        """Once, before any child is forked: what all of them share."""
        ...


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
        self._questions: queue.SimpleQueue[tuple[int, memoryview, _Stop]] = queue.SimpleQueue()
        self._last: tuple[int, _Stop] = (-1, _Stop())
        """The number of the last question, and its signal."""
        self._sending = threading.Lock()
        self._open: int | None = None
        """The number of the question that has no end yet. It is closed with the lock, so that nothing is said of it
        afterwards."""
        self._answer_of: Answer | None = None

    def run(self) -> NoReturn:
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self._engine.warm_up()
        while True:
            self._answer(*self._questions.get())

    def _answer(self, query: int, payload: memoryview, stop: _Stop) -> None:
        try:
            with self._engine.answer(payload, stop) as answer:
                self._answer_of = answer
                self._send(FrameKind.SCHEMA, query, encode_schema(answer.schema))
                for batch in answer:
                    self._send(FrameKind.BATCH, query, encode_batch(batch), answer.fraction)
                last, fraction = answer.last(), answer.fraction
            self._send(FrameKind.END, query, last, fraction)
        except QuarterdeckError as error:
            self._send(FrameKind.ERROR, query, encode_error(error))
        except MemoryError:
            os._exit(EXIT_NO_MEMORY)
        except ConnectionError:
            os._exit(0)  # nobody takes the answer
        finally:
            self._answer_of = None

    def _send(self, kind: FrameKind, query: int, payload: Any, fraction: float = 0.0) -> None:
        with self._sending:
            if kind in (FrameKind.END, FrameKind.ERROR):
                self._open = None
            send_frame(self._link, kind, query, payload, fraction=fraction)

    # In the thread that listens

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        try:
            while True:
                while not poll.poll(None if self._open is None else _TELL_MS):
                    self._tell()
                if not self._hear():
                    break
        finally:
            os._exit(0)

    def _hear(self) -> bool:
        """One frame; False at the end."""
        header = receive_exactly(HEADER_BYTES, self._link.recv_into)
        if header is None:
            return False
        frame = read_header(bytes(header))
        payload = receive_exactly(frame.size_bytes, self._link.recv_into)
        if frame.kind is FrameKind.QUESTION and payload is not None:
            self._last = (frame.query, _Stop())
            self._open = frame.query
            self._questions.put((frame.query, memoryview(payload), self._last[1]))
        elif frame.kind is FrameKind.INTERRUPT and frame.query == self._last[0]:
            self._last[1].stop()
        return True

    def _tell(self) -> None:
        """How far it is; unless it says more just now, or nobody listens."""
        answer = self._answer_of
        if answer is None or not self._sending.acquire(blocking=False):
            return
        try:
            if self._open is not None:
                header = header_of(FrameKind.PROGRESS, self._open, fraction=answer.fraction)
                with suppress(BlockingIOError):  # such a small one goes as a whole or not at all
                    self._link.send(header, MSG_DONTWAIT)
        finally:
            self._sending.release()
