"""A process's own folder: locked while the process runs. It remembers the process's identity across restarts.

The lock is the kernel's (flock): it ends with the process, however that ends, so there are no stale locks.
"""

import fcntl
import json
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.disk_full import is_full, no_room

_LOCK = "lock"
_IDENTITY = "identity.json"
_ADDRESSES = "addresses.json"
_COMPILING = "compiling.json"


class DataFolder:
    """Use it as a context: it is this process's alone from entering to leaving."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if is_full(error):
                raise self._full(error) from None
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"the data folder {self.path} cannot be used",
                error.strerror or str(error),
                "choose another with --data-dir, or make this one writable",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = (self.path / _LOCK).read_text().strip()
            self._unlock()
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"the data folder {self.path} is in use",
                f"process {holder or 'unknown'} has it",
                "stop that process, or give this one a folder of its own with --data-dir",
                retryable=False,
            ) from None
        self._forget()  # what a process said that was killed
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)
        except OSError as error:
            self._unlock()
            raise (self._full(error) if is_full(error) else error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._forget()
        self._unlock()

    def folder(self, name: str) -> Path:
        """A folder inside, made if it is not there."""
        path = self.path / name
        with self._room_told():
            path.mkdir(exist_ok=True)
        return path

    def announce(self, **addresses: str) -> None:
        """Writes down where the process can be reached, for whoever started it. Gone when the folder is given back."""
        self._say(_ADDRESSES, addresses)
        (self.path / _COMPILING).unlink(missing_ok=True)

    def say_compiling(self) -> None:
        """Writes down that the start takes longer, because something has to be compiled first; until `announce`."""
        self._say(_COMPILING, {})

    def begin_incarnation(self, name: str | None, otherwise: str) -> tuple[str, int]:
        """The name of this process and the number of this start, which is above any before. The name is `name` if one
        is given, otherwise the name it had before, otherwise `otherwise`. The number follows the clock, in
        milliseconds, so that a worker whose folder was lost still starts above its earlier lives. If the clock went
        backwards, it counts on from the last number."""
        file = self.path / _IDENTITY
        try:
            before = json.loads(file.read_text())
            called, last = str(before["name"]), int(before["incarnation"])
        except FileNotFoundError:
            called, last = otherwise, 0
        except (ValueError, KeyError, TypeError):
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"{file} cannot be read",
                "it does not hold a name and a number",
                "delete it, and the process gets a new identity",
            ) from None
        incarnation = max(last + 1, time.time_ns() // 1_000_000)
        part = file.with_suffix(".part")
        with self._room_told():
            with part.open("w") as out:
                json.dump({"name": name or called, "incarnation": incarnation}, out)
                out.flush()
                os.fsync(out.fileno())
            part.replace(file)
        return name or called, incarnation

    def _say(self, name: str, what: Mapping[str, str]) -> None:
        part = (self.path / name).with_suffix(".part")
        with self._room_told():
            part.write_text(json.dumps({"pid": os.getpid(), **what}))
            part.replace(self.path / name)

    def _forget(self) -> None:
        for name in (_ADDRESSES, _COMPILING):
            (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def _room_told(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise (self._full(error) if is_full(error) else error) from None

    def _full(self, error: OSError) -> QuarterdeckError:
        return no_room(
            f"the data folder {self.path} cannot be used",
            self.path,
            error,
            next_step="free space there, or choose another folder with --data-dir",
        )

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def announced(folder: Path) -> dict[str, object] | None:
    """What the process that has this folder announced; None while it has not."""
    return _said(folder / _ADDRESSES)


def who_compiles(folder: Path) -> object:
    """The process that has this folder, while it says that it compiles; otherwise None."""
    return (_said(folder / _COMPILING) or {}).get("pid")


def _said(file: Path) -> dict[str, object] | None:
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return None
