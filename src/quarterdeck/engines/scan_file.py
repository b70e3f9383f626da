"""A file to scan, and what its user calls it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A Parquet file on this machine."""

    path: Path
    """Absolute."""
    name: str
    """What it is called in errors, and in the column `filename`: its address in the object store."""
