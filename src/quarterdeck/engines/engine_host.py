"""The process from which engines' processes are forked: it has loaded what they need, and does nothing else.

A fork takes milliseconds and shares the memory of everything that was loaded. A new interpreter takes a fifth of a
second and 26 MB of its own. This process has one thread, so that a fork copies a process at rest. It ends when its
socket does, and takes all its children with it. Run it as `python -m quarterdeck.engines.engine_host`.

After the fork a child is restricted: it writes no file (or none larger than its limits say), leaves no core, has a
memory limit, is the first process that the kernel kills when memory is short, and dies with this process.
"""

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, NoReturn

from quarterdeck.engines.engine_child import EngineChild, EngineMaker
from quarterdeck.engines.limits import EngineLimits

ORDER: Final = struct.Struct("<BxxxI")
"""What is to be done, and with which child."""
NUMBER: Final = struct.Struct("<i")
"""Written into the pipe that came with the order to fork: the child's process, and later what `os.waitpid` told."""
FORKED_FDS: Final = 2
"""What comes with the order to fork: the child's socket, and the pipe for its end."""
_PR_SET_PDEATHSIG: Final = 1
_FIRST_TO_GO: Final = b"800"
"""Of 1,000: a child is taken before the worker, which everybody needs."""


class Order(IntEnum):
    FORK = 1
    KILL = 2


@dataclass(frozen=True, slots=True)
class HostConfig:
    """What the host's process is told on its command line."""

    engine: str
    """`module:name` of what makes an `Engine` of the limits."""
    limits: EngineLimits
    ceiling_bytes: int
    """Of memory that a child may ask the kernel for, beyond what it has at the fork. Allocators ask for more than they
    use and give little back: it is an emergency brake, far above what a query may use."""

    def encode(self) -> str:
        return json.dumps([self.engine, asdict(self.limits), self.ceiling_bytes])

    @classmethod
    def decode(cls, text: str) -> "HostConfig":
        engine, limits, ceiling_bytes = json.loads(text)
        return cls(engine, EngineLimits(**limits), ceiling_bytes)


class EngineHost:
    """Reads orders from the socket until it ends."""

    def __init__(self, control: socket.socket, config: HostConfig) -> None:
        self._pid = os.getpid()
        self._control = control
        self._config = config
        self._make = _loaded(config.engine)
        self._prctl: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "prctl", None)
        self._children: dict[int, tuple[int, int]] = {}
        """By number: process, and pipe."""
        self._wake_reader, self._wake_writer = socket.socketpair()

    def run(self) -> None:
        for ignored in (signal.SIGINT, signal.SIGTERM):  # for the worker, which may go on for a while
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _do_nothing)
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake_reader.fileno() in ready:
                with suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
                self._reap(os.WNOHANG)
            if self._control.fileno() in ready and not self._obey():
                break
        for pid, _ in self._children.values():
            os.kill(pid, signal.SIGKILL)
        self._reap(0)

    def _obey(self) -> bool:
        """The next order; False at the end."""
        data, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, FORKED_FDS)
        if len(data) < ORDER.size:
            return False
        kind, number = ORDER.unpack(data)
        if kind == Order.FORK:
            link, pipe = descriptors
            self._fork(number, link, pipe)
        elif number in self._children:
            os.kill(self._children[number][0], signal.SIGKILL)
        return True

    def _fork(self, number: int, link: int, pipe: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # whoever asked sees the ends of both
            os.close(link)
            os.close(pipe)
            return
        if pid == 0:
            try:
                os.close(pipe)
                self._become_child(link)
            finally:
                os._exit(1)
        os.close(link)
        self._children[number] = (pid, pipe)
        with suppress(BrokenPipeError):
            os.write(pipe, NUMBER.pack(pid))

    def _reap(self, options: int) -> None:
        for number, (pid, pipe) in list(self._children.items()):
            ended, status = os.waitpid(pid, options)
            if ended:
                del self._children[number]
                with suppress(BrokenPipeError):
                    os.write(pipe, NUMBER.pack(status))
                os.close(pipe)

    # In a child

    def _become_child(self, link: int) -> NoReturn:
        if self._prctl is not None:
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._pid:  # it has ended before it could take us with it
            os._exit(0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self._control.close()
        self._wake_reader.close()
        self._wake_writer.close()
        for _, pipe in self._children.values():
            os.close(pipe)
        self._narrow()
        try:
            EngineChild(socket.socket(fileno=link), self._make(self._config.limits)).run()
        except BaseException:  # noqa: BLE001 - it is told, and the process ends
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)

    def _narrow(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        spill_bytes = self._config.limits.spill_bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (spill_bytes, spill_bytes))
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_bytes(_FIRST_TO_GO)
        with suppress(OSError, ValueError):
            ceiling = _data_bytes() + self._config.ceiling_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))


def _do_nothing(number: int, frame: object) -> None:
    """A signal with a handler wakes the poll; one that is ignored does not."""


def _data_bytes() -> int:
    """What RLIMIT_DATA counts, as it is now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()


def _loaded(name: str) -> EngineMaker:
    module, _, attribute = name.partition(":")
    maker: EngineMaker = getattr(importlib.import_module(module), attribute)
    maker.load()
    return maker


if __name__ == "__main__":
    faulthandler.enable()
    EngineHost(socket.socket(fileno=int(sys.argv[1])), HostConfig.decode(sys.argv[2])).run()
    os._exit(0)  # what was loaded need not be tidied up
