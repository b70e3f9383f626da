"""The settings of scans in a coordinator. In a worker, scans use the settings of the engine, as all SQL does."""

from collections.abc import Mapping
from typing import ClassVar

from quarterdeck.config.section import Section
from quarterdeck.config.values import Bytes, Count, Seconds


class ScanSettings(Section):
    """In a coordinator."""

    section: ClassVar[str] = "scan"
    former: ClassVar[Mapping[str, str]] = {
        "scans_at_once": "scans_at_once",
        "scan_timeout_s": "timeout_s",
        "scan_merges_at_once": "merges_at_once",
        "scan_merge_memory_bytes": "merge_memory_bytes",
        "scan_merge_disk_bytes": "merge_disk_bytes",
    }

    scans_at_once: Count = 20
    """Scans that run at the same time. The others wait in line; if more than fifty times as many wait, further ones are
    refused. Too low leaves workers idle; too high lets scans compete for workers, memory and the spool."""
    timeout_s: Seconds = 600.0
    """Seconds that a scan may take, including the wait in line; a scan that asks for more gets this. Too low fails long
    scans; too high lets forgotten ones hold workers."""
    merges_at_once: Count = 2
    """Scans whose parts are merged at the same time, each in a process of its own; the others wait. Too low holds up
    scans that group or sort; too high takes memory: each may have `merge_memory_bytes`."""
    merge_memory_bytes: Bytes = 512 * 1024**2
    """Memory for merging the parts of one scan, not counted in `memory_bytes`. Too low sends groups and sorted rows to
    disk, which takes longer; too high, times `merges_at_once`, lets the kernel kill processes."""
    merge_disk_bytes: Bytes = 4 * 1024**3
    """Disk space in `data_dir` that one merge may take beyond its memory. Too low fails scans with many groups; too
    high fills the disk for everybody else on it."""
