"""A file that is on the disk when it has been written: whole, under its name, whatever happens to the machine then."""

import os
from pathlib import Path
from secrets import token_hex

from quarterdeck.stores.growing_file import PART_SUFFIX


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


def _keep_names(folder: Path) -> None:
    """A new name is on the disk when the folder is in which it stands."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
