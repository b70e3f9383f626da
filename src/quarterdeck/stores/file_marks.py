"""Whether two processes mean the same file or folder by the same path. They may be on different machines, or in
different containers of one."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileMark:
    """By what a place is known, if it was not made anew since."""

    path: str
    """The place, or the first folder above it that is there."""
    device: int
    inode: int
    boot: str
    """Which start of which machine it was seen in; empty where the system does not tell."""

    @property
    def is_here(self) -> bool:
        """Whether this process sees the same."""
        try:
            found = Path(self.path).stat()
        except (OSError, ValueError):  # the text is not a path
            return False
        return (found.st_dev, found.st_ino, _boot()) == (self.device, self.inode, self.boot)


def mark_of(path: Path) -> FileMark:
    """Of a place as it is now; it need not be there yet."""
    for place in (path, *path.parents):
        try:
            found = place.stat()
        except OSError:
            continue
        return FileMark(str(place), found.st_dev, found.st_ino, _boot())
    return FileMark(str(path), 0, 0, _boot())


@cache
def _boot() -> str:
    """Not the number of the system itself, which is nobody's business."""
    try:
        number = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(b"quarterdeck lake " + number).hexdigest()[:32]
