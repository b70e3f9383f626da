"""Where stdout leads, as far as that can be known: rows and a bar on stderr must not meet on one line."""

import os
import stat
import sys
from pathlib import Path


def rows_stay_off_the_screen() -> bool:
    """Whether stdout is a file or nothing at all. What goes to a terminal is seen, and what goes into a pipe mostly is
    too: `| head` and `| jq` write it to the terminal that has the bar."""
    try:
        found = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return True  # a test has it
    if stat.S_ISREG(found.st_mode):
        return True
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev
