"""How much disk there is, and who uses it. Only values: `disk.py` does the counting."""

from dataclasses import dataclass
from enum import StrEnum

MIB = 1024 * 1024


class Owner(StrEnum):
    """Whose file it is."""

    CACHE = "cache"
    ARTIFACTS = "artifacts"
    TEMPORARY = "temporary"
    """What a running query puts aside. It is in use until it is deleted."""


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """What a budget may use. Fractions are of `limit_bytes`."""

    limit_bytes: int
    """All files and reservations together never exceed this."""
    high_watermark: float = 0.9
    """Growing beyond this makes room. Lower keeps more in reserve for a burst; higher caches more."""
    low_watermark: float = 0.75
    """How far down room is made then. Close to the high one evicts a little all the time; far from it, much at once."""
    artifact_floor_bytes: int = 0
    """The cache never uses more than the limit less this, so that a query in flight finds room for its results."""
    step_bytes: int = 8 * MIB
    """The most that is reserved ahead of a growing file. Larger asks less often; smaller wastes less near the limit."""
    keep_free_bytes: int = 0
    """What is left free on the file system, for everybody else on it."""

    def __post_init__(self) -> None:
        if self.limit_bytes < 1:
            raise ValueError(f"limit_bytes is {self.limit_bytes}, it must be at least 1")
        if not 0 < self.low_watermark < self.high_watermark <= 1:
            raise ValueError(
                f"low_watermark is {self.low_watermark} and high_watermark {self.high_watermark}: "
                "they must be above 0, at most 1, and the low one below the high one"
            )
        if not 0 <= self.artifact_floor_bytes <= self.limit_bytes:
            raise ValueError(
                f"artifact_floor_bytes is {self.artifact_floor_bytes}, it must be between 0 and "
                f"limit_bytes, which is {self.limit_bytes}"
            )
        if self.step_bytes < 1:
            raise ValueError(f"step_bytes is {self.step_bytes}, it must be at least 1")
        if self.keep_free_bytes < 0:
            raise ValueError(f"keep_free_bytes is {self.keep_free_bytes}, it must not be negative")

    @property
    def high_bytes(self) -> int:
        return int(self.limit_bytes * self.high_watermark)

    @property
    def low_bytes(self) -> int:
        return int(self.limit_bytes * self.low_watermark)

    @property
    def cache_limit_bytes(self) -> int:
        return self.limit_bytes - self.artifact_floor_bytes


@dataclass(frozen=True, slots=True)
class DiskFigures:
    """What is used, with what is reserved for files that are still growing."""

    limit_bytes: int
    artifact_bytes: int
    cache_bytes: int
    temporary_bytes: int
    free_bytes: int
    """On the file system."""
