"""What a root downloads to search by itself."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quarterdeck.search.model import FileKind, FileProblem, Piece
from quarterdeck.search.root.alone import Engine
from quarterdeck.stores.disk import DiskBudget, DiskFullError, DiskLimits
from tests.stores.shop import Shop

SIZE = 300


@contextmanager
def alone(shop: Shop, folder: Path, disk: DiskBudget) -> Generator[Engine]:
    engine = Engine(shop, folder / "search", at_once=1, memory_bytes=1 << 26, disk_bytes=1 << 30, disk=disk)
    try:
        yield engine
    finally:
        engine.close()


def opened(engine: Engine, shop: Shop, name: str) -> list[FileProblem]:
    """Downloads a file to be searched; what was wrong with that."""
    ref = shop.stock(name, SIZE)
    piece = Piece(ref.url, FileKind.PARQUET, SIZE, ref.version, 0, SIZE)

    async def run() -> list[FileProblem]:
        async with engine.executor._opener.opened([piece]) as (_, problems):  # pyright: ignore[reportPrivateUsage]
            return problems

    return asyncio.run(run())


def test_files_that_a_root_downloads_are_counted_by_the_disk_budget_of_its_process(tmp_path: Path) -> None:
    disk, shop = DiskBudget(tmp_path, DiskLimits(2 * SIZE, high_watermark=1.0, low_watermark=0.999)), Shop()
    with alone(shop, tmp_path, disk) as engine:
        assert opened(engine, shop, "a.parquet") == []
        assert disk.figures().cache_bytes == SIZE
        for number in range(5):  # the budget makes room for them
            assert opened(engine, shop, f"{number}.parquet") == []
        assert disk.figures().cache_bytes <= 2 * SIZE
    disk.check_invariants()


def test_with_no_room_left_in_the_budget_a_search_has_the_error_of_a_full_disk(tmp_path: Path) -> None:
    disk, shop = DiskBudget(tmp_path, DiskLimits(SIZE - 1)), Shop()
    with alone(shop, tmp_path, disk) as engine, pytest.raises(DiskFullError, match="there is no room"):
        opened(engine, shop, "a.parquet")
    assert disk.figures().cache_bytes == 0
