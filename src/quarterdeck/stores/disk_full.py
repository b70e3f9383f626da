"""There is no room: refused by the budget, or by the disk itself. Either way it is one error, and another worker, or
this one a little later, may have room."""

import errno
from pathlib import Path

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.limits import DiskFigures, DiskLimits, Owner

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a system call says of a full disk, a used-up quota, or a file larger than is allowed."""


class DiskFullError(QuarterdeckError):
    """There is no room on the disk. Retryable."""


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def refused(
    owner: Owner, key: str, wanted_bytes: int, figures: DiskFigures, limits: DiskLimits, folder: Path
) -> DiskFullError:
    """The budget cannot make room without deleting what is in use or wanted more."""
    return DiskFullError(
        ErrorCode.RESOURCE_EXHAUSTED,
        f"there is no room for {_size(wanted_bytes)} more of {_thing(owner, key)}",
        f"of {_size(limits.limit_bytes)} for {folder} artifacts use {_size(figures.artifact_bytes)} and the cache "
        f"{_size(figures.cache_bytes)} (at most {_size(limits.cache_limit_bytes)}), the file system has "
        f"{_size(figures.free_bytes)} free (to stay free: {_size(limits.keep_free_bytes)}), and what is left is in use",
        "raise the disk limit, free space on that file system, or try again when other queries have ended",
    )


def ran_out(owner: Owner, key: str, path: str, size_bytes: int, error: OSError) -> DiskFullError:
    """The budget had room and the disk had not: somebody else uses it too."""
    return DiskFullError(
        ErrorCode.RESOURCE_EXHAUSTED,
        f"{_thing(owner, key)} could not be written beyond {_size(size_bytes)}",
        f"the disk of {path} is full ({errno.errorcode.get(error.errno or 0, 'short write')})",
        "free space on that file system, or set a disk limit and a free reserve that fit it; then try again",
    )


def _thing(owner: Owner, key: str) -> str:
    return f"artifact {key}" if owner is Owner.ARTIFACTS else f"cached file {key}"


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
