"""There is no room, because the budget refuses or the disk is full. Both are one error: another worker, or this one a
little later, may have room."""

import errno
import re
import shutil
from pathlib import Path
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.limits import DiskFigures, DiskLimits, Owner

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a system call says of a full disk, a used-up quota, or a file larger than is allowed."""
_SAID_FULL: Final = re.compile(
    r"no space left on device|disk quota exceeded|file too large|\bos error (28|122|27)\b|disk is full|"
    r"insufficient storage|status code: 507|\b507 insufficient",
    re.IGNORECASE,
)
"""The same of libraries that tell an error as a text alone."""
_LITTLE_BYTES: Final = 1024 * 1024


class DiskFullError(QuarterdeckError):
    """There is no room on the disk. Retryable."""


def is_full(error: OSError) -> bool:
    return error.errno in _FULL or (error.errno is None and says_full(str(error)))


def says_full(text: str) -> bool:
    """Whether an error that is only a text is about a full disk.

    >>> says_full("IO Error: could not write: No space left on device"), says_full("connection refused")
    (True, False)
    """
    return _SAID_FULL.search(text) is not None


def no_room(what: str, path: Path | str, error: Exception, *, next_step: str = "") -> DiskFullError:
    """What was written there could not be; the system, or a library, says why."""
    number = error.errno if isinstance(error, OSError) else None
    said = (error.strerror if isinstance(error, OSError) else None) or next(iter(str(error).splitlines()), "")
    if number == errno.EFBIG:
        why = f"no file of this process may be so large ({said}; see `ulimit -f`)"
    elif number == errno.EDQUOT:
        why = f"there is no room: the quota of this user is used up ({said}); {room_of(path)}"
    else:
        why = f"there is no room: the disk is full ({said}); {room_of(path)}"
    return DiskFullError(
        ErrorCode.RESOURCE_EXHAUSTED,
        what,
        why,
        next_step or "free space there, or name a folder with more room; then try again",
    )


def has_little_room(path: Path) -> bool:
    """Whether a process that had to write there may have had no room for it; some comes back when it ends."""
    return shutil.disk_usage(path).free < _LITTLE_BYTES


def room_of(path: Path | str) -> str:
    """How much is free where a file is or should be, for people."""
    place = Path(path).absolute()
    for folder in (place, *place.parents):
        try:
            found = shutil.disk_usage(folder)
        except OSError:
            continue
        shown = folder if folder.is_dir() else folder.parent
        return f"{_size(found.free)} of {_size(found.total)} are free in {shown}"
    return f"how much is free in {place.parent} is not known"


def refused(
    owner: Owner, key: str, wanted_bytes: int, figures: DiskFigures, limits: DiskLimits, folder: Path
) -> DiskFullError:
    """The budget cannot make room without deleting what is in use or wanted more."""
    return DiskFullError(
        ErrorCode.RESOURCE_EXHAUSTED,
        f"there is no room for {_size(wanted_bytes)} more of {_thing(owner, key)}",
        f"of {_size(limits.limit_bytes)} for {folder} artifacts use {_size(figures.artifact_bytes)}, "
        f"temporary files of queries {_size(figures.temporary_bytes)} and the cache {_size(figures.cache_bytes)} "
        f"(at most {_size(limits.cache_limit_bytes)}), the file system has "
        f"{_size(figures.free_bytes)} free (to stay free: {_size(limits.keep_free_bytes)}), and what is left is in use",
        "raise the disk limit, free space on that file system, or try again when other queries have ended",
    )


def ran_out(owner: Owner, key: str, path: str, size_bytes: int, error: OSError) -> DiskFullError:
    """The budget had room but the disk had not: something else uses it too."""
    return DiskFullError(
        ErrorCode.RESOURCE_EXHAUSTED,
        f"{_thing(owner, key)} could not be written beyond {_size(size_bytes)}",
        f"the disk of {path} is full ({errno.errorcode.get(error.errno or 0, 'short write')}); {room_of(path)}",
        "free space on that file system, or set a disk limit and a free reserve that fit it; then try again",
    )


def _thing(owner: Owner, key: str) -> str:
    match owner:
        case Owner.ARTIFACTS:
            return f"artifact {key}"
        case Owner.CACHE:
            return f"cached file {key}"
        case Owner.TEMPORARY:
            return f"temporary file {key}"


def _size(size_bytes: int) -> str:
    """For people.

    >>> _size(512), _size(8 * 1024 * 1024)
    ('512 B', '8.0 MiB')
    """
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if abs(amount) < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"
