"""Code of libraries that only the start has touched no longer counts as memory of the process.

Loading a library touches much of its file: names are looked up, addresses are written, and the system maps whatever is
near. Measured: 65 MB of a process that is ready, of which its first queries need less than a third.

Nothing is lost. Only parts of files are let go of that nobody may write to and nobody has written to. The system keeps
the files in its cache, for all processes. A page that is needed again is mapped again with its neighbours, in a
microsecond or two. So a process becomes smaller. A machine does not, unless it is short of memory: what no process has
mapped is what the system takes first.

No library may be loaded or unloaded at such a place meanwhile, or what stands there then would be lost. So this is only
for files that are installed for Python. Nothing unloads those, and Python runs no other thread of its own while it
loads one. Libraries of the system stay as they are: any thread of a library may load one at any time.
"""

import ctypes
import mmap
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

_SMAPS: Final = Path("/proc/self/smaps")
"""A line for each part of memory, and figures below it. The system takes 10 ms to count them."""
_PART: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[-x]p \S+ \S+ \S+ +(/.*)")
"""A part of memory that is a part of a file and that nobody may write to: its beginning, its end, and the file."""
_FIGURE: Final = re.compile(r"(\w+): +(\d+) kB")
_INSTALLED: Final = ("site-packages", "dist-packages")
"""Folders of `sys.path` that hold installed libraries. Another one may be any folder, such as the current one."""
_WRITTEN: Final = ("Anonymous", "Swap")
"""Pages that are no longer the file's: a debugger writes into code, for example."""


def let_go_of_library_code() -> int:
    """For a process that is ready. How many bytes that was; 0 where the system does not offer it."""
    madvise: Any = getattr(ctypes.CDLL(None), "madvise", None)
    advice: int | None = getattr(mmap, "MADV_DONTNEED", None)
    if madvise is None or advice is None:
        return 0
    try:
        before, now = _clean_parts(), _clean_parts()
    except OSError:
        return 0
    let_go_bytes = 0
    # A library that was being loaded at the first look was whole at the second, or this thread would not have run.
    for line in before.keys() & now.keys():
        start, end = (int(text, 16) for text in line.partition(" ")[0].split("-"))
        if madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice) == 0:
            let_go_bytes += now[line]
    return let_go_bytes


def _clean_parts() -> dict[str, int]:
    """The lines of the parts to let go of, with the bytes that are in memory."""
    folders = tuple(f"{os.path.realpath(folder)}/" for folder in sys.path if Path(folder).name in _INSTALLED)
    clean: dict[str, int] = {}
    part = ""
    for line in _SMAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        if figure := _FIGURE.fullmatch(line):
            name, kib = figure[1], int(figure[2])
            if name == "Rss" and part:
                clean[part] = 1024 * kib
            elif name in _WRITTEN and kib:
                clean.pop(part, None)
        elif "-" in line.partition(" ")[0]:
            found = _PART.fullmatch(line)
            part = line if found is not None and found[3].startswith(folders) else ""
    return clean
