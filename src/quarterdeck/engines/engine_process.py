"""Engines' processes, seen from the process that asks them: how they are started, asked, watched and ended."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.code_folder import CODE_VARIABLE
from quarterdeck.engines.engine_child import EXIT_NO_MEMORY
from quarterdeck.engines.engine_died import EngineDiedError, how_it_ended
from quarterdeck.engines.engine_host import NUMBER, ORDER, HostConfig, Order
from quarterdeck.engines.engine_wire import (
    HEADER_BYTES,
    BrokenAnswerError,
    FrameKind,
    Header,
    header_of,
    read_header,
    receive_exactly,
    send_frame,
)
from quarterdeck.engines.limits import no_memory

_LOOK_S: Final = 0.05
"""How often the memory of an engine is looked at. In that time it can take some 200 MB."""
_END_S: Final = 5.0
_KEPT_OF_ENVIRONMENT: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "TMPDIR",
    "TZ",
    "XDG_CACHE_HOME",
    CODE_VARIABLE,
)
"""Nothing of ours: no token, and no other secret. Some say where compiled code is kept."""


_ONE_THREAD: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",  # the default reserves a gigabyte at once, which counts as used
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""What keeps NumPy and pyarrow from starting threads when they are loaded: with others, a fork is a gamble."""


class EngineProcesses:
    """The host, and the processes that it forks. Any thread may use it."""

    def __init__(self, config: HostConfig, memory_bytes: int, patience_s: float) -> None:
        """A process is ended that has more memory than this, or goes on for so long after it was told to stop. Starts
        nothing yet."""
        self._config = config
        self._patience_s = patience_s
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._host: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._numbers = 0
        self._closed = False

    def start(self) -> "EngineProcess":
        """A new one. It can be asked at once."""
        for _ in range(2):  # the host may end at any moment: then there is a new one
            process = self._forked()
            if process is not None:
                return process
        raise QuarterdeckError(
            ErrorCode.UNAVAILABLE,
            "the query was not run",
            "no engine process could be started",
            "see what it wrote to the standard error; perhaps memory or processes are short",
        )

    def _forked(self) -> "EngineProcess | None":
        """None when the host does not do it, or is gone."""
        link, theirs = socket.socketpair()
        ended, pipe = os.pipe()
        try:
            with self._lock:
                self._numbers += 1
                number = self._numbers
                is_ordered = self._order(Order.FORK, number, theirs.fileno(), pipe)
        except BaseException:
            link.close()
            os.close(ended)
            raise
        finally:
            theirs.close()
            os.close(pipe)
        pid = _read_number(ended) if is_ordered else None
        if pid is None:
            link.close()
            os.close(ended)
            return None
        return EngineProcess(pid, link, ended, lambda: self._kill(number), self._memory_bytes, self._patience_s)

    def close(self) -> None:
        """Ends all of them, and has seen them end."""
        with self._lock:
            self._closed = True
            self._end_host()

    @property
    def host_pid(self) -> int | None:
        return None if self._host is None else self._host.pid

    def _kill(self, number: int) -> None:
        with self._lock:
            if self._control is not None:
                with suppress(OSError):  # the host may have ended, and that process with it
                    # Not waiting: it may be the event loop that says it.
                    self._control.send(ORDER.pack(Order.KILL, number), socket.MSG_DONTWAIT)

    # With the lock

    def _order(self, order: Order, number: int, *descriptors: int) -> bool:
        """Whether there was a host to take it."""
        if self._closed:
            raise RuntimeError("the engine was closed, and a query came")
        if self._host is not None and self._host.poll() is not None:
            self._end_host()
        if self._control is None:
            self._start_host()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [ORDER.pack(order, number)], descriptors)
        except OSError:  # it ends just now, and nobody could see it yet
            self._end_host()
            return False
        return True

    def _start_host(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _KEPT_OF_ENVIRONMENT if name in os.environ}
        environment |= _ONE_THREAD
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
        command = [sys.executable, "-P", "-s", "-m", "quarterdeck.engines.engine_host"]
        try:
            self._host = subprocess.Popen(
                [*command, str(theirs.fileno()), self._config.encode()],
                pass_fds=(theirs.fileno(),),
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # what a terminal sends is for us
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours

    def _end_host(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._host is not None:
            try:
                self._host.wait(_END_S)
            except subprocess.TimeoutExpired:  # a child hangs in the kernel, as on a file system that is gone
                self._host.kill()
                self._host.wait()
            self._host = None


class EngineProcess:
    """One process. One thread asks; any thread may interrupt."""

    def __init__(
        self,
        pid: int,
        link: socket.socket,
        ended: int,
        kill: Callable[[], None],
        memory_bytes: int,
        patience_s: float,
    ) -> None:
        self._patience_s = patience_s
        self.pid: Final = pid
        self._link = link
        self._ended = ended
        self._kill = kill
        self._memory_bytes = memory_bytes
        self.is_dead = False
        """Whether it has ended, or will at once."""
        self._is_busy = False
        """Whether the end of an answer is still to come."""
        self._query = 0
        self._sending = threading.Lock()
        self._told_s: float | None = None
        """When it was first told to stop."""
        self._killed_for: QuarterdeckError | None = None
        self._looked_s = 0.0
        link.settimeout(_LOOK_S)

    def ask(self, *question: Any) -> None:
        """One or more buffers. Raises `EngineDiedError` if nobody is there."""
        self._query += 1
        self._told_s = None
        self._is_busy = True
        self._link.settimeout(None)
        try:
            with self._sending:
                send_frame(self._link, FrameKind.QUESTION, self._query, *question)
        except OSError:
            raise self._death() from None
        finally:
            self._link.settimeout(_LOOK_S)

    def interrupt(self) -> None:
        """Tells it to stop what it computes. Whoever waits for its answer says it again from then on, and ends it when
        it has not stopped for too long."""
        now_s = time.monotonic()
        if self._told_s is None:
            self._told_s = now_s
        elif now_s - self._told_s > self._patience_s:
            self._kill()
            return
        if self._sending.acquire(blocking=False):
            try:
                self._link.send(header_of(FrameKind.INTERRUPT, self._query), socket.MSG_DONTWAIT)
            except OSError:
                pass  # it has ended, or has a hundred of them to read
            finally:
                self._sending.release()

    def receive(self) -> tuple[Header, Any]:
        """The next frame of the answer, and its payload. Raises `EngineDiedError`, and what is to be said if the
        process was ended on purpose."""

        def take(view: memoryview) -> int:
            while True:
                self._look()
                try:
                    return self._link.recv_into(view)
                except TimeoutError:
                    if self._told_s is not None:
                        self.interrupt()
                except OSError:
                    return 0

        header = receive_exactly(HEADER_BYTES, take)
        try:
            if header is None:
                raise self._death()
            frame = read_header(bytes(header), self._memory_bytes)
            if frame.query != self._query:
                raise BrokenAnswerError(f"an answer to query {frame.query} instead of {self._query}")
        except BrokenAnswerError as error:
            raise self.broke(error) from error
        payload = receive_exactly(frame.size_bytes, take)
        if payload is None:
            raise self._death()
        if frame.kind in (FrameKind.END, FrameKind.ERROR):
            self._is_busy = False
        return frame, payload

    def settle(self) -> None:
        """Nobody wants the rest of the answer: it stops, or is ended."""
        while self._is_busy and not self.is_dead:
            self.interrupt()
            try:
                self.receive()
            except QuarterdeckError:
                return

    def broke(self, error: BrokenAnswerError) -> EngineDiedError:
        """It said what makes no sense: it cannot be trusted any more."""
        self.is_dead = True
        self._kill()
        return EngineDiedError(f"gave an answer that makes no sense ({error}) and was ended")

    def memory_bytes(self) -> int:
        """What it has of its own: not what it shares with files. 0 where that is not told."""
        try:
            figures = Path(f"/proc/{self.pid}/statm").read_bytes().split()
        except OSError:
            return 0
        return (int(figures[1]) - int(figures[2])) * resource.getpagesize()

    def end(self) -> None:
        """Whatever it does."""
        self._kill()
        self._link.close()
        if self._ended >= 0:
            os.close(self._ended)
            self._ended = -1

    def _look(self) -> None:
        """From time to time: how much memory it has."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        used_bytes = self.memory_bytes()
        if used_bytes > self._memory_bytes and self._killed_for is None:
            self._killed_for = no_memory(f"its process had {used_bytes:,} bytes")
            self._kill()

    def _death(self) -> QuarterdeckError:
        """Why it has ended; waits until that is known."""
        self.is_dead = True
        if self._killed_for is not None:
            return self._killed_for
        code = _read_number(self._ended)
        if code is None:
            return EngineDiedError("ended with the one that starts engines,", with_its_host=True)
        if code == EXIT_NO_MEMORY << 8:
            return no_memory("its process got no more from the system")
        if self._told_s is not None and code == signal.SIGKILL:
            return EngineDiedError("did not stop when it was told to, and was ended,")
        return EngineDiedError(how_it_ended(code))


def _read_number(pipe: int) -> int | None:
    data = os.read(pipe, NUMBER.size)
    return NUMBER.unpack(data)[0] if len(data) == NUMBER.size else None
