"""Paths as people write them, made whole once: from then on they mean the same in every process and every folder."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote

_ABOVE: Final = ".."
_FILE_SCHEMES: Final = ("file:///", "file://localhost/")


def whole_path(path: Path) -> Path:
    """From the root, with the home instead of `~`, and without `..`; `ValueError` if that cannot be.

    Links stay links, which may lead elsewhere tomorrow, save for one that a `..` follows: there it means the folder
    above where the link leads, as it does to the system.

    >>> whole_path(Path("/srv/old/../lake"))
    PosixPath('/srv/lake')
    """
    try:
        path = path.expanduser().absolute()
        found = Path(path.anchor)
        for part in path.parts[1:]:
            found = found.resolve().parent if part == _ABOVE else found / part
    except (RuntimeError, OSError) as error:  # no such home; a circle of links; a folder that is gone
        raise ValueError(str(error)) from None
    return found


def whole_location(text: str) -> str:
    """The path of a file, folder or glob made whole; what has a scheme stays as it is, save for `file://`.

    >>> whole_location("/srv/old/../lake/*.parquet"), whole_location("s3://bucket/lake")
    ('/srv/lake/*.parquet', 's3://bucket/lake')
    """
    for scheme in _FILE_SCHEMES:
        if text.startswith(scheme):
            return _whole(unquote(text.removeprefix(scheme[:-1])))
    if "://" not in text:
        return _whole(text)
    if _ABOVE in text.split("/"):
        raise ValueError(f"a `{_ABOVE}` in a URL names nothing")
    return text


def _whole(text: str) -> str:
    """A slash at the end says that it is a folder."""
    path = str(whole_path(Path(text)))
    return f"{path}/" if text.endswith(("/", os.sep)) and path != "/" else path
