"""Which mounted file system a path is on, from its name alone.

It asks nothing of the file system itself: a file system that hangs would hang the question too. So a symbolic link to
another file system counts as where the link is.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_TABLE: Final = Path("/proc/self/mountinfo")
_ROOT: Final = "/"
_LOOK_AGAIN_S: Final = 5.0
_REMEMBERED: Final = 10_000
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Mounts:
    """The mount points of this machine, looked up again when they may have changed."""

    def __init__(self, table: Path = _TABLE, clock: Callable[[], float] = time.monotonic) -> None:
        self._table: Final = table
        self._clock: Final = clock
        self._points: frozenset[str] = frozenset()
        self._by_folder: Final[dict[str, str]] = {}
        self._look_again_s = clock()

    def of(self, path: str) -> str:
        """The mount point above the path; `/` if nothing else is known."""
        if path in self.points():
            return path
        folder = path.rpartition("/")[0]
        found = self._by_folder.get(folder)
        if found is None:
            around = (point for point in self._points if f"{folder}/".startswith(f"{point}/"))
            found = max(around, key=len, default=_ROOT)
            if len(self._by_folder) < _REMEMBERED:
                self._by_folder[folder] = found
        return found

    def points(self) -> frozenset[str]:
        """All of them but `/`."""
        if self._clock() >= self._look_again_s:
            self._look()
        return self._points

    def _look(self) -> None:
        self._look_again_s = self._clock() + _LOOK_AGAIN_S
        try:
            lines = self._table.read_text(errors="surrogateescape").splitlines()
        except OSError:
            lines = []  # a system without the table: then all is one
        self._points = frozenset(_unescaped(line.split(" ")[4]) for line in lines if line.count(" ") > 4) - {_ROOT}
        self._by_folder.clear()


def _unescaped(text: str) -> str:
    r"""
    >>> _unescaped(r"/mnt/two\040words")
    '/mnt/two words'
    """
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
