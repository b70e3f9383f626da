"""What a test leaves behind: threads, open files, pending tasks, and asyncio's complaints about them.

Looking costs a fifth of a millisecond a test; the garbage collector runs only when something seems left behind. Only
what is new since the snapshot counts, so that nothing that pytest, xdist or session fixtures hold open is blamed on a
test.
"""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

# A thread that was told to stop may still be on its way out, and other work on the machine may keep it there.
_THREAD_GRACE_S = 30.0
_CLOSING_GRACE_S = 30.0
_CLOSED_BY_THREADS = {"grpc": "socket:", "pyarrow": "/"}
"""What threads of a library close a moment after the call has returned: gRPC the sockets of a connection that has
ended, and Arrow the files it has read (on a busy machine every sixth)."""
_DESCRIPTORS = Path("/proc/self/fd")  # where the system has no such folder, files are not watched
# The one list of all loops' tasks is private: its name in 3.11, and from 3.12 on.
_TASK_REGISTERS = ("_all_tasks", "_scheduled_tasks")
_COMPLAINTS = ("Task was destroyed but it is pending", "exception was never retrieved")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is alive at one moment. Threads and tasks are compared by identity, files by number and target."""

    threads: frozenset[threading.Thread]
    files: frozenset[tuple[int, str]]
    tasks: frozenset[asyncio.Task[Any]]

    @classmethod
    def take(cls) -> "Snapshot":
        return cls(frozenset(threading.enumerate()), frozenset(_open_files()), frozenset(_pending_tasks()))

    def left_behind(self) -> list[str]:
        """Name what is alive now and was not in this snapshot."""
        now = Snapshot.take()
        tasks = [f"pending task {task!r}" for task in now.tasks - self.tasks]
        if now.threads <= self.threads and now.files <= self.files:
            return tasks
        # Before the wait: the thread and the two sockets with which gRPC polls end with the last channel or server, and
        # those are often garbage in a cycle by then. Nothing of gRPC is excused.
        gc.collect()
        _wait_for_end_of(now.threads - self.threads)
        now = self._once_libraries_have_closed_theirs()
        threads = [f"running thread {thread.name!r}" for thread in now.threads - self.threads]
        files = [f"open file {number}: {target}" for number, target in sorted(now.files - self.files)]
        return tasks + sorted(threads) + files

    def _once_libraries_have_closed_theirs(self) -> "Snapshot":
        """What is alive now; what a library's own thread may be about to close is waited for."""
        closing = tuple(start for name, start in _CLOSED_BY_THREADS.items() if name in sys.modules)
        deadline_s = time.monotonic() + _CLOSING_GRACE_S
        while True:
            now = Snapshot.take()
            waited_for = [target for _, target in now.files - self.files if target.startswith(closing)]
            if not waited_for or time.monotonic() >= deadline_s:
                return now
            time.sleep(0.001)


def _wait_for_end_of(threads: frozenset[threading.Thread]) -> None:
    deadline_s = time.monotonic() + _THREAD_GRACE_S
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))


def _open_files() -> Iterator[tuple[int, str]]:
    if not _DESCRIPTORS.exists():
        return
    for descriptor in list(_DESCRIPTORS.iterdir()):
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        if _is_watched(target):
            yield int(descriptor.name), target


def _is_watched(target: str) -> bool:
    """Sockets, pipes and files; not devices, the process table, or kernel objects without a name."""
    if target.startswith("/"):
        return not target.startswith(("/dev/", "/proc/", "/sys/"))
    return target.startswith(("socket:", "pipe:"))


def _pending_tasks() -> Iterator[asyncio.Task[Any]]:
    for name in _TASK_REGISTERS:
        register = cast("set[asyncio.Task[Any]]", getattr(asyncio.tasks, name, set[asyncio.Task[Any]]()))
        yield from (task for task in list(register) if not task.done())


class _ComplaintHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if any(complaint in text for complaint in _COMPLAINTS):
            self.heard.append(f"asyncio says: {text}")


@contextmanager
def asyncio_complaints() -> Generator[list[str]]:
    """Collect what asyncio only logs, and nobody would see."""
    handler = _ComplaintHandler()
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    try:
        yield handler.heard
    finally:
        logger.removeHandler(handler)


@contextmanager
def no_leaks() -> Generator[None]:
    """Fail when the block leaves anything behind."""
    before = Snapshot.take()
    with asyncio_complaints() as complaints:
        yield
        found = before.left_behind()
    found += complaints
    if found:
        pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)
