"""A process that is killed in the middle of its downloads, and what the next one makes of what it left."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from quarterdeck.stores.cache_files import CacheFile
from quarterdeck.stores.disk import DiskBudget, DiskLimits
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.stores.parquet import looks_like_parquet

SIZE_BYTES = 256 * 1024
LIMITS = DiskLimits(64 * 1024 * 1024)

CHILD = """
import asyncio, sys
from pathlib import Path
from quarterdeck.stores.disk import DiskBudget, DiskLimits, Owner
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache

class Slow(ObjectStores):
    async def stream(self, ref, chunk_bytes=0):
        sent = 0
        async for chunk in super().stream(ref, 64 * 1024):
            yield chunk
            sent += 1
            if sent == 2 and "stuck" in ref.url:
                print("stuck", flush=True)
                await asyncio.Event().wait()

async def main(source, work):
    objects = Slow()
    budget = DiskBudget(work, DiskLimits(64 * 1024 * 1024))
    cache = ParquetCache(work / "cache", budget, objects, copy_local=True)
    cache.recover()
    budget.create(Owner.ARTIFACTS, "artifact", work / "artifact.parquet").write(bytes(1000))
    refs = await objects.find(str(source))

    async def use(ref):
        async with cache.open(ref):
            print("got", flush=True)

    async with asyncio.TaskGroup() as group:
        for ref in refs:
            group.create_task(use(ref))

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def kill_in_the_middle(source: Path, work: Path) -> None:
    """Of two downloads, when three others are there."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(source), str(work)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        heard = sorted(child.stdout.readline() for _ in range(5))
        assert heard == ["got\n"] * 3 + ["stuck\n"] * 2
        child.kill()
    assert child.returncode == -signal.SIGKILL


def test_after_a_kill_whole_files_are_used_and_all_others_are_downloaded_again(tmp_path: Path) -> None:
    source, work = tmp_path / "source", tmp_path / "work"
    source.mkdir()
    for name in ("a", "b", "c", "stuck-1", "stuck-2"):
        (source / f"{name}.parquet").write_bytes(looks_like_parquet(SIZE_BYTES, name[:1].encode()))
    kill_in_the_middle(source, work)

    left = sorted((work / "cache").iterdir(), key=lambda path: path.suffix)
    assert [path.suffix for path in left] == [".parquet"] * 3 + [".part"] * 2
    sound, cut_short, rotten = left[:3]
    cut_short.write_bytes(cut_short.read_bytes()[:-1])  # what a machine that loses its power may leave
    rotten.write_bytes(bytes(SIZE_BYTES))

    budget = DiskBudget(work, LIMITS)
    objects = ObjectStores()
    cache = ParquetCache(work / "cache", budget, objects, copy_local=True)
    cache.recover()
    assert sorted((work / "cache").iterdir()) == sorted([sound, rotten])
    assert budget.figures().cache_bytes == 2 * SIZE_BYTES

    async def read_all() -> dict[str, bytes]:
        read: dict[str, bytes] = {}
        for ref in await objects.find(str(source)):
            async with cache.open(ref) as path:
                read[ref.url] = path.read_bytes()
        return read

    assert asyncio.run(read_all()) == {str(path): path.read_bytes() for path in source.iterdir()}
    assert (cache.hits, cache.misses) == (1, 4)
    names = [CacheFile.parse(path.name) for path in (work / "cache").iterdir()]
    assert len(names) == 5
    assert all(names)
    assert budget.figures().cache_bytes == 5 * SIZE_BYTES
    budget.check_invariants()
