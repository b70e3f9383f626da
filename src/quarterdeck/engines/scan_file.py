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
    values: tuple[str | None, ...] = ()
    """Of the columns that its path gives it, in their order."""


@dataclass(frozen=True, slots=True)
class PathColumn:
    """A column that the paths of files give to all their rows."""

    name: str
    kind: str
    """The type that DuckDB casts its text to."""
