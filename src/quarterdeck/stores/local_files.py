"""Objects on the local file system: finding them in folders and reading them. Everything here blocks.

A walk through a folder follows links. It skips a FIFO, a socket or a device, a link that leads nowhere, and a link back
to a folder above. A folder that may not be read is an error, and so is a name that is not UTF-8: leaving it out would
change the answer.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
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
_NOT_OURS: Final = frozenset({errno.EACCES, errno.EPERM})
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""The error for a link that leads nowhere or in a circle, and for a file that was deleted meanwhile."""

_Place = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    path: str
    size_bytes: int
    mtime_us: int


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    above: frozenset[_Place]
    """The folders that it is in."""
    mount: str
    """What it is mounted below; empty is what the root is on."""


class Walk:
    """The files in a folder and below, in steps, so that each step has a time of its own. A step stays on one mounted
    file system, so it waits for no other."""

    def __init__(
        self,
        folder: str,
        glob: Glob | None = None,
        *,
        everything: bool = False,
        entries_max: int = ENTRIES_MAX,
        mounts: Collection[str] = (),
        border: Border | None = None,
    ) -> None:
        """Those that fit the glob; without one all that is not hidden. With `everything` also what is hidden; then a
        folder below that may not be read, and a name that is no UTF-8, are passed over: they are not ours. A link that
        leads out of the border is an error."""
        self._root: Final = folder
        self._skip: Final = len(folder.rstrip("/")) + 1
        self._glob: Final = glob
        self._everything: Final = everything
        self._entries_max: Final = entries_max
        self._border: Final = border
        self._mounts: Final = mounts
        self._seen = 0
        self._folders: Final[list[_Folder]] = [_Folder(folder, frozenset(), "")]
        """To be listed."""
        self._folder = self._folders[0]
        """That is looked at, or was."""
        self._inside: frozenset[_Place] = frozenset()
        """It, and those above it."""
        self._entries: Iterator[os.DirEntry[str]] | None = None

    @property
    def at(self) -> str:
        """The folder that the next step begins with."""
        return self._folders[-1].path if self._entries is None and self._folders else self._folder.path

    def step(self) -> list[LocalFile] | None:
        """Some more; None if there are none left."""
        found: list[LocalFile] = []
        for taken in range(_STEP_ENTRIES):
            entry = None if self._entries is None else next(self._entries, None)
            if entry is not None:
                self._look(entry, found)
                continue
            self._entries = None
            if not self._folders:
                return found or None
            if taken and self._folders[-1].mount != self._folder.mount:
                return found
            self._folder = self._folders.pop()
            self._enter(self._folder)
        return found

    def _enter(self, folder: _Folder) -> None:
        try:
            status = os.stat(folder.path)  # noqa: PTH116 - a text, as everything here
            place = (status.st_dev, status.st_ino)
            if place in folder.above:
                return
            with os.scandir(folder.path) as entries:
                listed = list(islice(entries, self._entries_max - self._seen + 1))
        except OSError as error:
            passed_over = _GONE | _NOT_OURS if self._everything else _GONE
            if error.errno in passed_over and folder.path != self._root:
                return
            raise
        self._seen += len(listed)
        if self._seen > self._entries_max:
            raise too_many(self._root, self._entries_max)
        self._entries = iter(listed)
        self._inside = folder.above | {place}

    def _look(self, entry: os.DirEntry[str], found: list[LocalFile]) -> None:
        if self._glob is None and not self._everything and entry.name.startswith(HIDDEN):
            return
        path = entry.path
        try:
            if entry.is_dir():
                if self._glob is None or self._glob.goes_below(path[self._skip :]):
                    self._insist_within(entry)
                    mount = path if path in self._mounts else self._folder.mount
                    self._folders.append(_Folder(path, self._inside, mount))
                return
            if self._glob is not None and not self._glob.matches(path[self._skip :]):
                return
            status = entry.stat()
        except OSError as error:
            if error.errno in _GONE:
                return
            raise
        if stat.S_ISREG(status.st_mode):
            if self._everything and not _is_text(path):
                return
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


def remove(path: str, empty_folders: int) -> None:
    """The file if it is there, and so many folders above it, as far as nothing is left in them."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - a text, as everything here
    with suppress(OSError):  # there is something in it
        for _ in range(empty_folders):
            path = path.rpartition("/")[0]
            os.rmdir(path)  # noqa: PTH106


def _rest(descriptor: int, data: bytes, start: int, end: int) -> bytes:
    """The system reads at most 2 GiB at once."""
    parts, at = [data], start + len(data)
    while parts[-1] and at < end:
        parts.append(os.pread(descriptor, end - at, at))
        at += len(parts[-1])
    return b"".join(parts)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_name(path: str) -> None:
    if not _is_text(path):
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"{os.fsencode(path)!r} cannot be read",
            "its name is not UTF-8",
            "rename it, or name the other files by a glob",
        )
