"""What this host has, as far as this process may use it: a container's limits count, not the size of the machine."""

import os
import socket
from math import ceil
from pathlib import Path
from typing import Final

_CGROUP: Final = Path("/sys/fs/cgroup")


def cores(cgroup: Path = _CGROUP) -> int:
    """How many processors this process may use: by affinity, and by the quota of its control group."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        # Half a processor is one slot: a process that could run nothing would be of no use.
        allowed = min(allowed, max(1, ceil(int(quota) / int(period))))
    return allowed


def memory_bytes(cgroup: Path = _CGROUP) -> int:
    """How much memory this process may use, by the machine and by its control group."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(cgroup / "memory.max")
    return min(installed, int(limit)) if limit.isdecimal() else installed


def host_name() -> str:
    return socket.gethostname() or "localhost"


def _read(path: Path) -> str:
    """The line in a file of the kernel; empty where there is none, which means no limit."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
