"""The Parquet cache: one download for all who ask, whoever of them goes away; and only what is whole and sound."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.cache_files import CacheFile
from quarterdeck.stores.disk import DiskBudget, DiskFullError, GrowingFile
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.patience import PATIENCE_S
from tests.stores import parquet
from tests.stores.budgets import add_artifacts, small_budget
from tests.stores.s3 import Bucket
from tests.stores.shop import Shop


class Cached:
    """A cache over a played shop, in a folder of its own beside the budget's artifacts."""

    def __init__(self, tmp_path: Path, limit_bytes: int = 100_000) -> None:
        self.shop = Shop()
        self.folder = tmp_path / "cache"
        self.budget = small_budget(tmp_path / "artifacts", limit_bytes)
        self.downloads: list[tuple[float, int]] = []
        self.cache = ParquetCache(
            self.folder,
            self.budget,
            self.shop,
            on_download=lambda seconds, size: self.downloads.append((seconds, size)),
        )
        self.cache.recover()

    def count_download(self, seconds: float, size_bytes: int) -> None:
        self.downloads.append((seconds, size_bytes))

    async def read(self, ref: ObjectRef) -> bytes:
        async with self.cache.open(ref) as path:
            return path.read_bytes()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


async def ended(task: "asyncio.Task[bytes]") -> None:
    await asyncio.wait((task,))
    assert task.cancelled()


# Downloading


def test_an_object_is_downloaded_once_and_found_after_that(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        for _ in range(3):
            assert await cached.read(ref) == parquet.looks_like_parquet(300)
        assert cached.shop.deliveries == [ref.url]
        assert cached.cache.received_bytes == 300
        assert (cached.cache.hits, cached.cache.misses) == (2, 1)
        ((seconds, size_bytes),) = cached.downloads
        assert 0 <= seconds < 10
        assert size_bytes == 300
        (name,) = cached.files()
        file = CacheFile.parse(name)
        assert file is not None
        assert file.size_bytes == 300
        assert cached.budget.figures().cache_bytes == 300

    run(test)


def test_another_version_is_another_object(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        first = cached.shop.stock("a.parquet", 300)
        await cached.read(first)
        second = ObjectRef(first.url, 300, '"2"')
        await cached.read(second)
        assert cached.cache.misses == 2

    run(test)


def test_many_who_ask_at_once_get_one_download(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        cached.shop.door.clear()
        asking = [asyncio.create_task(cached.read(ref)) for _ in range(20)]
        await cached.shop.waiting.wait()
        assert cached.files()[0].endswith(".part")
        cached.shop.door.set()
        assert set(await asyncio.gather(*asking)) == {parquet.looks_like_parquet(300)}
        assert cached.shop.deliveries == [ref.url]
        assert (cached.cache.hits, cached.cache.misses) == (19, 1)
        cached.budget.check_invariants()

    run(test)


def test_a_download_goes_on_when_who_began_it_is_canceled(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        cached.shop.door.clear()
        first = asyncio.create_task(cached.read(ref))
        await cached.shop.waiting.wait()
        second = asyncio.create_task(cached.read(ref))
        await asyncio.sleep(0)
        first.cancel()
        await ended(first)
        cached.shop.door.set()
        assert await second == parquet.looks_like_parquet(300)
        assert cached.shop.deliveries == [ref.url]
        assert cached.shop.broken_off == 0

    run(test)


def test_a_download_that_nobody_waits_for_any_more_stops_and_leaves_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        cached.shop.door.clear()
        asking = [asyncio.create_task(cached.read(ref)) for _ in range(3)]
        await cached.shop.waiting.wait()
        for task in asking:
            task.cancel()
        for task in asking:
            await ended(task)
        assert cached.shop.broken_off == 1
        assert cached.files() == []
        assert cached.budget.figures().cache_bytes == 0
        cached.shop.door.set()
        assert await cached.read(ref) == parquet.looks_like_parquet(300)
        assert cached.cache.misses == 2

    run(test)


def test_who_asks_while_a_download_is_being_stopped_gets_a_new_one(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        cached.shop.door.clear()
        first = asyncio.create_task(cached.read(ref))
        await cached.shop.waiting.wait()
        first.cancel()
        await asyncio.sleep(0)  # it has told the download to stop, and waits for that
        assert not first.done()
        second = asyncio.create_task(cached.read(ref))
        cached.shop.door.set()
        assert await second == parquet.looks_like_parquet(300)
        await ended(first)
        assert len(cached.shop.deliveries) == 2
        cached.budget.check_invariants()

    run(test)


def test_canceling_at_any_moment_leaves_nothing_that_is_not_whole(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet", 1000)
        turns = 0
        while True:
            task = asyncio.create_task(cached.read(ref))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            await asyncio.wait((task,))
            cached.budget.check_invariants()
            assert not [name for name in cached.files() if name.endswith(".part")]
            for name in cached.files():  # it was whole already when it was canceled
                file = CacheFile.parse(name)
                assert file is not None
                cached.budget.remove(f"cache-{file.source}")
            assert cached.budget.figures().cache_bytes == 0
            turns += 1 + turns // 10
        assert await task == parquet.looks_like_parquet(1000)

    run(test)


class Slowed:
    """A method that does nothing, in its thread, before it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.called = asyncio.Event()
        self.go_on = threading.Event()
        loop = asyncio.get_running_loop()
        really: Callable[..., object] = getattr(owner, name)

        def slowly(*given: object, **named: object) -> object:
            loop.call_soon_threadsafe(self.called.set)
            assert self.go_on.wait(10)
            return really(*given, **named)

        monkeypatch.setattr(owner, name, slowly)


@pytest.mark.parametrize(("owner", "step"), [(DiskBudget, "create"), (GrowingFile, "keep_pinned")])
def test_canceling_while_a_thread_has_the_file_undoes_what_comes_of_it(
    tmp_path: Path, owner: type, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        cached = Cached(tmp_path, limit_bytes=1000)
        ref = cached.shop.stock("a.parquet")
        slowed = Slowed(monkeypatch, owner, step)
        reading = asyncio.create_task(cached.read(ref))
        await slowed.called.wait()
        reading.cancel()
        await asyncio.sleep(0)
        assert not reading.done()
        slowed.go_on.set()
        await ended(reading)
        monkeypatch.undo()
        cached.budget.check_invariants()
        add_artifacts(cached.budget, "big", size_bytes=1000)  # nothing grows or is pinned
        assert cached.files() == []

    run(test)


def test_an_error_reaches_all_who_wait_and_the_next_who_asks_begins_anew(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        cached.shop.failure = QuarterdeckError(ErrorCode.UNAVAILABLE, ref.url, "the network is down", "try again")
        cached.shop.door.clear()
        asking = [asyncio.create_task(cached.read(ref)) for _ in range(3)]
        await cached.shop.waiting.wait()
        cached.shop.door.set()
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(outcome, QuarterdeckError)
            assert outcome.code is ErrorCode.UNAVAILABLE
        assert cached.files() == []
        assert cached.budget.figures().cache_bytes == 0
        cached.shop.failure = None
        assert await cached.read(ref) == parquet.looks_like_parquet(300)

    run(test)


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(100), bytes(100) + b"PAR1", b"not parquet at all"]
)
def test_what_is_no_parquet_file_is_not_kept(tmp_path: Path, data: bytes) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet", data=data)
        with pytest.raises(QuarterdeckError, match="not a Parquet file") as caught:
            await cached.read(ref)
        assert caught.value.code is ErrorCode.WORK_FAILED
        assert ref.url in caught.value.what
        assert cached.files() == []

    run(test)


def test_something_else_than_parquet_is_kept_for_who_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.ndjson.gz", data=b"not parquet at all")
        for _ in range(2):
            async with cached.cache.open(ref, is_parquet=False) as path:
                assert path.read_bytes() == b"not parquet at all"
        assert cached.shop.deliveries == [ref.url]

    run(test)


def test_a_local_file_that_is_something_else_is_used_where_it_is_unless_it_has_changed(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        file = tmp_path / "a.ndjson.gz"
        file.write_bytes(b"not parquet at all")
        ref = await ObjectStores().head(str(file))
        async with cached.cache.open(ref, is_parquet=False) as path:
            assert path == file
        file.write_bytes(b"something else")
        with pytest.raises(QuarterdeckError, match="has changed"):
            async with cached.cache.open(ref, is_parquet=False):
                pass

    run(test)


def test_a_copy_with_another_checksum_than_named_is_not_kept_and_the_right_one_is_when_it_is_there(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        whole = parquet.looks_like_parquet(300)
        expected = xxhash.xxh3_128_hexdigest(whole)
        damaged = whole[:100] + b"?" + whole[101:]
        ref = replace(cached.shop.stock("a.parquet", data=damaged), checksum=expected)
        with pytest.raises(QuarterdeckError, match=f"{expected} was expected") as caught:
            await cached.read(ref)
        assert not caught.value.retryable
        assert cached.files() == []
        cached.shop.stock("a.parquet", data=whole)
        assert await cached.read(ref) == whole

    run(test)


def test_an_object_of_another_size_than_listed_is_not_kept(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet", 300)
        for size_bytes in (299, 301):
            with pytest.raises(QuarterdeckError, match="300 bytes came instead of"):
                await cached.read(ObjectRef(ref.url, size_bytes, ref.version))
        assert cached.files() == []

    run(test)


# Room


def test_what_is_open_is_never_evicted_and_what_is_not_goes_by_last_use(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path, limit_bytes=1000)
        a, b, c, d = (cached.shop.stock(f"{name}.parquet", 300) for name in "abcd")
        async with cached.cache.open(a) as path:
            await cached.read(b)
            await cached.read(c)
            await cached.read(b)
            await cached.read(d)
            assert path.exists()
        assert cached.cache.misses == 4
        for ref in (a, b, d):
            await cached.read(ref)
        assert cached.cache.misses == 4
        await cached.read(c)
        assert cached.cache.misses == 5

    run(test)


def test_an_object_that_does_not_fit_is_refused_before_it_is_downloaded(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path, limit_bytes=1000)
        with pytest.raises(DiskFullError):
            await cached.read(cached.shop.stock("a.parquet", 1001))
        assert cached.shop.deliveries == []
        assert cached.files() == []

    run(test)


def test_an_evicted_file_is_downloaded_again(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path, limit_bytes=1000)
        ref = cached.shop.stock("a.parquet", 300)
        await cached.read(ref)
        add_artifacts(cached.budget, "big", size_bytes=1000)
        assert cached.files() == []
        cached.budget.remove("big")
        await cached.read(ref)
        assert cached.cache.misses == 2

    run(test)


# Local files


def test_a_local_file_is_used_where_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        path = tmp_path / "a.parquet"
        parquet.write(parquet.numbers(), path)
        ref = await ObjectStores().head(str(path))
        for _ in range(2):
            async with cached.cache.open(ref) as used:
                assert used == path
        assert cached.files() == []
        assert (cached.cache.hits, cached.cache.misses) == (0, 0)

    run(test)


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_local_file_that_has_changed_or_is_gone_is_an_error(tmp_path: Path, seen_before: bool) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        path = tmp_path / "a.parquet"
        path.write_bytes(parquet.looks_like_parquet(300))
        ref = await ObjectStores().head(str(path))
        if seen_before:
            await cached.read(ref)
        os.utime(path, ns=(0, 0))
        with pytest.raises(QuarterdeckError, match="changed since it was listed"):
            await cached.read(ref)
        path.unlink()
        with pytest.raises(QuarterdeckError) as caught:
            await cached.read(ref)
        assert caught.value.code is ErrorCode.NOT_FOUND

    run(test)


def test_a_local_file_that_is_no_parquet_is_an_error_every_time(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        path = tmp_path / "a.parquet"
        path.write_bytes(b"no parquet at all")
        ref = await ObjectStores().head(str(path))
        for _ in range(2):
            with pytest.raises(QuarterdeckError, match="not a Parquet file"):
                await cached.read(ref)

    run(test)


def test_a_local_file_is_copied_when_so_asked(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "a.parquet"
        path.write_bytes(parquet.looks_like_parquet(3000))
        stores = ObjectStores()
        cache = ParquetCache(tmp_path / "cache", small_budget(tmp_path / "b", 10_000), stores, copy_local=True)
        cache.recover()
        async with cache.open(await stores.head(str(path))) as used:
            assert used.parent == tmp_path / "cache"
            assert used.read_bytes() == path.read_bytes()
        assert cache.misses == 1

    run(test)


def test_an_object_from_s3_is_read_as_parquet(tmp_path: Path, bucket: Bucket) -> None:
    async def test() -> None:
        local = tmp_path / "a.parquet"
        parquet.write(parquet.numbers(5000), local)
        bucket.put("t/a.parquet", local.read_bytes())
        stores = ObjectStores(bucket.options)
        cache = ParquetCache(tmp_path / "cache", small_budget(tmp_path / "b", 1_000_000), stores)
        cache.recover()
        (ref,) = await stores.find(f"{bucket.url}/t/*.parquet")
        async with cache.open(ref) as path:
            assert parquet.read(path).equals(parquet.numbers(5000))
        bucket.put("t/a.parquet", parquet.looks_like_parquet(ref.size_bytes))
        async with cache.open(ref) as path:  # the version that was listed is still here
            assert parquet.read(path).equals(parquet.numbers(5000))
        bucket.delete("t/a.parquet")
        with pytest.raises(QuarterdeckError) as caught:
            await stores.head(ref.url)
        assert caught.value.code is ErrorCode.NOT_FOUND

    run(test)


# After a restart


def fresh(tmp_path: Path, shop: Shop, limit_bytes: int = 100_000) -> tuple[ParquetCache, DiskBudget]:
    """As a new process finds it."""
    budget = small_budget(tmp_path / "artifacts", limit_bytes)
    cache = ParquetCache(tmp_path / "cache", budget, shop)
    cache.recover()
    return cache, budget


async def read_from(cache: ParquetCache, ref: ObjectRef) -> bytes:
    async with cache.open(ref) as path:
        return path.read_bytes()


def test_whole_files_are_found_again_after_a_restart_and_verified_once(tmp_path: Path) -> None:
    async def test() -> None:
        first = Cached(tmp_path)
        ref = first.shop.stock("a.parquet")
        await first.read(ref)
        cache, budget = fresh(tmp_path, first.shop)
        assert budget.figures().cache_bytes == 300
        results = await asyncio.gather(*(read_from(cache, ref) for _ in range(5)))
        assert set(results) == {parquet.looks_like_parquet(300)}
        assert (cache.hits, cache.misses) == (5, 0)
        (name,) = first.files()
        path = first.folder / name
        path.write_bytes(parquet.looks_like_parquet(300, b"y"))  # nobody looks a second time
        assert await read_from(cache, ref) == parquet.looks_like_parquet(300, b"y")
        budget.check_invariants()

    run(test)


@pytest.mark.parametrize("damage", ["a flipped byte", "zeros", "missing"])
def test_a_file_that_does_not_verify_is_deleted_and_downloaded_again(tmp_path: Path, damage: str) -> None:
    async def test() -> None:
        first = Cached(tmp_path)
        ref = first.shop.stock("a.parquet")
        await first.read(ref)
        (name,) = first.files()
        path = first.folder / name
        cache, budget = fresh(tmp_path, first.shop)
        match damage:
            case "a flipped byte":
                path.write_bytes(parquet.looks_like_parquet(299) + b"?")
            case "zeros":
                path.write_bytes(bytes(300))
            case _:
                path.unlink()
        assert await read_from(cache, ref) == parquet.looks_like_parquet(300)
        assert (cache.hits, cache.misses) == (0, 1)
        budget.check_invariants()
        assert budget.figures().cache_bytes == 300

    run(test)


def test_nobody_is_given_a_file_that_is_not_sound_while_it_is_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        first = Cached(tmp_path)
        ref = first.shop.stock("a.parquet")
        await first.read(ref)
        (name,) = first.files()
        (first.folder / name).write_bytes(bytes(300))
        cache, _ = fresh(tmp_path, first.shop)
        slowed = Slowed(monkeypatch, DiskBudget, "remove")
        asking = [asyncio.create_task(read_from(cache, ref))]
        await slowed.called.wait()
        asking.append(asyncio.create_task(read_from(cache, ref)))
        for _ in range(5):
            await asyncio.sleep(0)
        slowed.go_on.set()
        assert set(await asyncio.gather(*asking)) == {parquet.looks_like_parquet(300)}
        assert cache.misses == 1

    run(test)


def test_a_file_that_somebody_deleted_is_downloaded_again(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        await cached.read(ref)
        (name,) = cached.files()
        (cached.folder / name).unlink()
        assert await cached.read(ref) == parquet.looks_like_parquet(300)
        assert (cached.cache.hits, cached.cache.misses) == (0, 2)
        cached.budget.check_invariants()

    run(test)


def test_a_file_that_was_evicted_before_it_was_verified_is_downloaded_again(tmp_path: Path) -> None:
    async def test() -> None:
        first = Cached(tmp_path)
        ref = first.shop.stock("a.parquet")
        await first.read(ref)
        cache, budget = fresh(tmp_path, first.shop, 1000)
        add_artifacts(budget, "big", size_bytes=1000)
        budget.remove("big")
        assert await read_from(cache, ref) == parquet.looks_like_parquet(300)
        assert cache.misses == 1

    run(test)


def test_recovery_deletes_parts_and_files_of_another_size_and_leaves_what_is_not_ours(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    source, checksum = "0" * 32, "f" * 32
    whole = folder / str(CacheFile(source, 5, checksum))
    whole.write_bytes(b"12345")
    (folder / str(CacheFile("1" * 32, 5, checksum))).write_bytes(b"1234")
    (folder / f"{source}-5.part").write_bytes(b"12")
    foreign = {"notes.txt", "photo.part", "data.parquet", f"{source}-5-{checksum}"}
    for name in foreign:
        (folder / name).write_bytes(b"mine")
    (folder / f"{'2' * 32}-5-{checksum}.parquet").mkdir()
    _, budget = fresh(tmp_path, Shop())
    left = {path.name for path in folder.iterdir() if path.is_file()}
    assert left == foreign | {whole.name}
    assert budget.figures().cache_bytes == 5


def test_of_two_copies_of_one_object_the_later_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    older, later = (folder / str(CacheFile("0" * 32, 5, checksum * 32)) for checksum in "ab")
    for age_s, path in ((100, older), (10, later)):
        path.write_bytes(b"12345")
        os.utime(path, (time.time() - age_s, time.time() - age_s))
    _, budget = fresh(tmp_path, Shop())
    assert list(folder.iterdir()) == [later]
    assert budget.figures().cache_bytes == 5


@pytest.mark.parametrize("factor", [1, 3, 7, 9])
def test_when_not_all_fits_any_more_the_most_recently_used_is_kept(tmp_path: Path, factor: int) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    for number in range(10):
        path = folder / str(CacheFile(f"{number:032}", 100, "f" * 32))
        path.write_bytes(bytes(100))
        used_at_s = time.time() - 1000 * ((number * factor) % 10)
        os.utime(path, (used_at_s, used_at_s))
    (folder / str(CacheFile("a" * 32, 600, "f" * 32))).write_bytes(bytes(600))
    _, budget = fresh(tmp_path, Shop(), 350)
    kept = {int(path.name[:32]) for path in folder.iterdir()}
    assert kept == {number for number in range(10) if (number * factor) % 10 < 3}
    assert budget.figures().cache_bytes == 300
    budget.check_invariants()


def test_the_last_use_is_left_on_the_disk_for_the_next_process(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        await cached.read(ref)
        (name,) = cached.files()
        path = cached.folder / name
        os.utime(path, (1000.0, 1000.0))
        await cached.read(ref)
        assert time.time() - path.stat().st_mtime < 60

    run(test)


def test_it_is_known_what_needs_no_download(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        ref = cached.shop.stock("a.parquet")
        assert not cached.cache.is_here(ref)
        await cached.read(ref)
        assert cached.cache.is_here(ref)
        assert not cached.cache.is_here(cached.shop.stock("b.parquet"))
        local = ObjectRef(str(tmp_path / "local.parquet"), 1, "")
        assert cached.cache.is_here(local)
        assert not ParquetCache(tmp_path / "c", cached.budget, cached.shop, copy_local=True).is_here(local)

    run(test)


def test_a_local_file_without_a_version_is_met_by_its_size(tmp_path: Path) -> None:
    async def test() -> None:
        cached = Cached(tmp_path)
        path = tmp_path / "s.parquet"
        path.write_bytes(parquet.looks_like_parquet(300))
        ref = ObjectRef(str(path), 300, "")
        assert await cached.read(ref) == path.read_bytes()
        os.utime(path, ns=(1, 1))
        assert await cached.read(ref) == path.read_bytes()
        path.write_bytes(parquet.looks_like_parquet(301))
        with pytest.raises(QuarterdeckError, match="has changed"):
            await cached.read(ref)

    run(test)
