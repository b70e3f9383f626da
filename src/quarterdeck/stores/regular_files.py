"""Opens only regular files: opening a FIFO, a socket or a device could wait for ever."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Not to wait: what was a file when it was looked at may be a FIFO when it is opened."""
_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class NotRegularError(OSError):
    """It is there, and neither a file nor a folder."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, and only regular files are read", path)


def check_regular(path: str | Path, found: os.stat_result) -> None:
    """Raises `NotRegularError`, or `IsADirectoryError` for a folder."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    kind = next((kind for is_it, kind in _KINDS if is_it(found.st_mode)), "something unknown")
    raise NotRegularError(str(path), kind)


def stat_regular(path: str | Path) -> os.stat_result:
    """Of the file itself, if links lead to it."""
    found = os.stat(path)  # noqa: PTH116 - a path may be a text here
    check_regular(path, found)
    return found


def open_regular(path: str | Path) -> int:
    """A descriptor to read from. Anything but a regular file is not even opened: opening a device may do something."""
    stat_regular(path)
    descriptor = os.open(path, _FLAGS)
    try:
        check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
