"""What searches chunks for the root itself, and looks at samples: in processes of their own."""

from pathlib import Path
from typing import Final

from quarterdeck.search.engine.contained_search import ContainedSearcher
from quarterdeck.search.executor import ChunkExecutor
from quarterdeck.search.piece_opening import PieceOpener
from quarterdeck.search.stored_rows import RowLimits
from quarterdeck.stores.disk import DiskBudget
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache


class Engine:
    """One for a process. Close it, however it ended."""

    def __init__(
        self,
        objects: ObjectStores,
        folder: Path,
        *,
        at_once: int,
        memory_bytes: int,
        disk_bytes: int,
        disk: DiskBudget,
    ) -> None:
        """`folder` is its own; what an earlier process left there is taken up, or deleted. `disk` counts all files;
        the rows of a part of a search may take `disk_bytes`."""
        self.searcher: Final = ContainedSearcher(at_once=at_once, memory_limit_bytes=memory_bytes)
        self._cache = ParquetCache(folder / "cache", disk, objects)
        self._cache.recover()
        rows = RowLimits(folder, disk_bytes=disk_bytes, disk=disk)
        self.executor: Final = ChunkExecutor(self.searcher, PieceOpener(objects, self._cache), at_once, rows)

    def close(self) -> None:
        """When nothing of it runs any more."""
        self.executor.close()
        self.searcher.close()
