"""A worker's disk: artifacts and parquet cache in its data folder, on one budget."""

from collections.abc import Callable
from dataclasses import dataclass

from quarterdeck.config import WorkerSettings
from quarterdeck.core.workcoord.model import AttemptId, DiskUse
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.stores.data_folder import DataFolder
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.stores.parquet_cache import ParquetCache


@dataclass(frozen=True, slots=True)
class Storage:
    budget: DiskBudget
    spool: ArtifactSpool
    cache: ParquetCache
    objects: ObjectStores

    @classmethod
    def open(
        cls,
        settings: WorkerSettings,
        folder: DataFolder,
        *,
        base_url: Callable[[], str],
        on_lost: Callable[[AttemptId], None],
        on_download: Callable[[float, int], None],
    ) -> "Storage":
        """Takes up what an earlier process left: its cache is good, its artifacts are not. Reads the disk."""
        limits = DiskLimits(
            limit_bytes=settings.disk_limit_bytes,
            high_watermark=settings.disk_high_watermark,
            low_watermark=settings.disk_low_watermark,
            artifact_floor_bytes=settings.artifact_floor_bytes,
            keep_free_bytes=settings.disk_keep_free_bytes,
        )
        budget = DiskBudget(folder.path, limits)
        spool = ArtifactSpool(folder.folder("artifacts"), budget, base_url, on_lost)
        objects = ObjectStores(S3Options(**settings.s3.options()), timeout_s=settings.store_timeout_s)
        cache = ParquetCache(
            folder.folder("cache"), budget, objects, copy_local=settings.cache_local_files, on_download=on_download
        )
        budget.on_evicted = spool.evicted
        spool.recover()
        cache.recover()
        return cls(budget, spool, cache, objects)

    def use(self) -> DiskUse:
        figures = self.budget.figures()
        return DiskUse(figures.artifact_bytes + self.spool.memory_bytes, figures.cache_bytes, figures.free_bytes)
