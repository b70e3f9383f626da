"""Budgets to test with: small, on a clock of their own, and checked against what is really there."""

from pathlib import Path

from quarterdeck.stores.disk import DiskBudget, DiskLimits, Owner

PLENTY = 1 << 50


class Clock:
    """Ticks once each time it is read."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


class Evictions:
    """What was evicted, in order; and that the file was gone when this was told."""

    def __init__(self, budget: DiskBudget) -> None:
        self.keys: list[str] = []
        self._budget = budget
        budget.on_evicted = self._take

    def _take(self, owner: Owner, key: str) -> None:
        assert not path_of(self._budget, key).exists()
        self._budget.figures()  # would never return if the lock were held
        self.keys.append(key)


def small_budget(
    folder: Path,
    limit_bytes: int = 1000,
    *,
    high: float = 1.0,
    low: float = 0.999,
    floor_bytes: int = 0,
    keep_free_bytes: int = 0,
    free_bytes: int = PLENTY,
) -> DiskBudget:
    """Steps are of one byte: what is reserved is what is written. The watermarks are out of the way unless given."""
    limits = DiskLimits(
        limit_bytes,
        high_watermark=high,
        low_watermark=low,
        artifact_floor_bytes=floor_bytes,
        step_bytes=1,
        keep_free_bytes=keep_free_bytes,
    )
    return DiskBudget(folder, limits, clock=Clock(), free_bytes=lambda: free_bytes)


def path_of(budget: DiskBudget, key: str) -> Path:
    return budget.folder / f"{key}.parquet"


def add(budget: DiskBudget, owner: Owner, key: str, size_bytes: int) -> None:
    file = budget.create(owner, key, path_of(budget, key))
    file.write(bytes(size_bytes))
    file.keep()


def add_cached(budget: DiskBudget, *keys: str, size_bytes: int = 100) -> None:
    for key in keys:
        add(budget, Owner.CACHE, key, size_bytes)


def add_artifacts(budget: DiskBudget, *keys: str, size_bytes: int = 100) -> None:
    for key in keys:
        add(budget, Owner.ARTIFACTS, key, size_bytes)


def on_disk(budget: DiskBudget) -> set[str]:
    return {path.name.removesuffix(".parquet") for path in budget.folder.iterdir()}
