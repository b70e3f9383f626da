"""Objects on the local file system: found in folders and read. Everything here blocks.

A folder is walked through links, as a person would. What is no file (a FIFO, a socket, a device), a link that leads
nowhere and a link back to a folder above are passed over. A folder that may not be read is an error, and so is a name
that is no UTF-8: to leave it out would be another answer.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.globs import Glob
from quarterdeck.stores.object_errors import too_many
from quarterdeck.stores.regular_files import open_regular
from quarterdeck.stores.source_roots import Border

ENTRIES_MAX: Final = 1_000_000
"""Names that one walk looks at. A list of more takes a gigabyte, and nobody means it."""
_STEP_ENTRIES: Final = 1_000
HIDDEN: Final = (".", "_")
"""How a name in a folder begins that is not data: `_SUCCESS`, `_delta_log/`, `.part-0.crc`."""
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is said of a link that leads nowhere or in a circle, and of a file that was deleted meanwhile."""

_Place = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    path: str
    size_bytes: int
    mtime_us: int


class Walk:
    """The files in a folder and below, in steps, so that each has a time of its own."""

    def __init__(
        self,
        folder: str,
        glob: Glob | None = None,
        *,
        hidden: bool = False,
        entries_max: int = ENTRIES_MAX,
        border: Border | None = None,
    ) -> None:
        """Those that fit the glob; without one all that is not hidden, or all. A link that leads out of the border is
        an error."""
        self._root: Final = folder
        self._skip: Final = len(folder.rstrip("/")) + 1
        self._glob: Final = glob
        self._hidden: Final = hidden
        self._entries_max: Final = entries_max
        self._border: Final = border
        self._seen = 0
        self._folders: Final[list[tuple[str, frozenset[_Place]]]] = [(folder, frozenset())]
        """To be listed, each with those above it."""
        self._entries: Iterator[os.DirEntry[str]] = iter(())
        self._above: frozenset[_Place] = frozenset()

    def step(self) -> list[LocalFile] | None:
        """Some more; None if there are none left."""
        found: list[LocalFile] = []
        for _ in range(_STEP_ENTRIES):
            entry = next(self._entries, None)
            if entry is not None:
                self._look(entry, found)
            elif self._folders:
                self._enter(*self._folders.pop())
            else:
                return found or None
        return found

    def _enter(self, folder: str, above: frozenset[_Place]) -> None:
        try:
            status = os.stat(folder)  # noqa: PTH116 - a text, as everything here
            place = (status.st_dev, status.st_ino)
            if place in above:
                return
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            if error.errno in _GONE and folder != self._root:
                return
            raise
        self._seen += len(listed)
        if self._seen > self._entries_max:
            raise too_many(self._root, self._entries_max)
        self._entries = iter(listed)
        self._above = above | {place}

    def _look(self, entry: os.DirEntry[str], found: list[LocalFile]) -> None:
        if self._glob is None and not self._hidden and entry.name.startswith(HIDDEN):
            return
        path = entry.path
        try:
            if entry.is_dir():
                if self._glob is None or self._glob.goes_below(path[self._skip :]):
                    self._insist_within(entry)
                    self._folders.append((path, self._above))
                return
            if self._glob is not None and not self._glob.matches(path[self._skip :]):
                return
            status = entry.stat()
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        if stat.S_ISREG(status.st_mode):
            self._insist_within(entry)
            _check_name(path)
            found.append(LocalFile(path, status.st_size, status.st_mtime_ns // 1000))

    def _insist_within(self, entry: os.DirEntry[str]) -> None:
        """Where no link leads out, nothing below is outside."""
        if self._border is not None and entry.is_symlink():
            self._border.insist_link(entry.path)


def read_range(path: str, start: int, end: int, check: Callable[[os.stat_result], None]) -> bytes:
    """Its bytes from `start` to before `end`, fewer if it has not so many. `check` looks at the file before and after:
    it may be written to meanwhile."""
    descriptor = open_regular(path)
    try:
        check(os.fstat(descriptor))
        data = os.pread(descriptor, end - start, start)
        if len(data) < end - start:
            data = _rest(descriptor, data, start, end)
        check(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    return data


def _rest(descriptor: int, data: bytes, start: int, end: int) -> bytes:
    """The system reads at most 2 GiB at once."""
    parts, at = [data], start + len(data)
    while parts[-1] and at < end:
        parts.append(os.pread(descriptor, end - at, at))
        at += len(parts[-1])
    return b"".join(parts)


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{os.fsencode(path)!r} cannot be read",
            "its name is no UTF-8",
            "rename it, or name the other files by a glob",
        ) from None
