"""Writes a file that survives: once it is written, it is whole and under its name on the disk, even if the machine
loses power."""

import errno
import os
from pathlib import Path
from secrets import token_hex

from quarterdeck.stores.growing_file import PART_SUFFIX

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES})
"""What is said where a file cannot have a second name, or not one more."""


def write_durably(path: Path, data: bytes) -> None:
    """Writes it beside its place and moves it there; an older one is replaced. Folders are made, as durable as it."""
    folder = path.parent
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}-{token_hex(4)}{PART_SUFFIX}")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    for one in (folder, *(new.parent for new in missing)):
        _keep_names(one)


def link_durably(path: Path, to_path: Path) -> None:
    """Gives a file a second name, or where the file system has no such thing, makes a copy. One that has the name
    already, and is not this file, is replaced."""
    folder = to_path.parent
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        to_path.hardlink_to(path)
    except FileExistsError:
        if not path.samefile(to_path):
            write_durably(to_path, path.read_bytes())
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        write_durably(to_path, path.read_bytes())
    for one in (folder, *(new.parent for new in missing)):
        _keep_names(one)


def _keep_names(folder: Path) -> None:
    """A new name is on the disk when the folder is in which it stands."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
