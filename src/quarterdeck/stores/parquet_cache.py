"""Copies of Parquet objects on the local disk, within the disk budget.

Rules: an object is downloaded once, however many ask for it at the same time, and as long as at least one of them still
waits. Open files are pinned. A file from before this process is verified when it is first asked for, and downloaded
again if it is damaged. A file on this machine's disk is used where it is, unless the settings say otherwise.

The cache has no list of files: the budget has the entries, and their names say the rest. One event loop uses it.
"""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

import xxhash

from quarterdeck.stores.cache_files import (
    CacheFile,
    Verification,
    check_in_place,
    check_parquet,
    check_unchanged,
    is_part,
    source_of,
    unfinished_name,
)
from quarterdeck.stores.disk import DiskBudget, DiskFullError, GrowingFile, Owner, Pin
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.object_errors import not_as_named, unreachable
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.threads import in_thread, wait_for_end

_CHUNK_BYTES: Final = MIB
"""At once in memory, and then again in the client; measured, more is not faster and holds up the loop longer."""
_REMEMBERED_IN_PLACE: Final = 10_000
_STAMP_AFTER_S: Final = 600.0
"""How stale a file's time of last use may become on the disk, where only the next process looks at it."""


class _Bringing:
    """One object on its way, and how many wait for it."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Pin] | None = None
        self.askers = 0
        self.downloaded = False
        """Whether it had to be; it may have been here already, only not verified."""
        self.given_up = False
        self.ended = asyncio.Event()


class ParquetCache:
    """See the module."""

    def __init__(
        self,
        folder: Path,
        budget: DiskBudget,
        objects: ObjectStores,
        *,
        copy_local: bool = False,
        on_download: Callable[[float, int], None] | None = None,
    ) -> None:
        self.hits = 0
        """How often somebody asked and needed no download of their own."""
        self.misses = 0
        """How many downloads were begun."""
        self.received_bytes = 0
        """Called with the bytes of all downloads as they come, so that whoever waits for one sees its progress."""
        self._folder: Final = folder
        self._budget: Final = budget
        self._objects: Final = objects
        self._copy_local: Final = copy_local
        self._on_download: Final = on_download
        """Told of every download: how many seconds it took, and of how many bytes."""
        self._unverified: Final[set[str]] = set()
        """What the last process left and nobody has asked for yet."""
        self._on_their_way: Final[dict[str, _Bringing]] = {}
        self._seen_in_place: Final[OrderedDict[ObjectRef, None]] = OrderedDict()
        """Local files that are Parquet."""

    def recover(self) -> None:
        """At start, before the loop: deletes what was not finished and takes in what is whole by its size. Files with
        other names are not touched."""
        self._folder.mkdir(parents=True, exist_ok=True)
        whole: dict[str, tuple[float, Path]] = {}
        for used_at_s, path in sorted(self._left_by_last_process()):
            source = path.name.partition("-")[0]
            if source in whole:
                whole.pop(source)[1].unlink()  # two copies of one object: the later one is as good
            whole[source] = used_at_s, path
        now_s, wall_s = self._budget.clock(), time.time()
        # The longest unused first: if there is no room for all, they make room for those used since.
        for source, (used_at_s, path) in whole.items():
            try:
                self._budget.adopt(Owner.CACHE, _key(source), path, now_s - max(0.0, wall_s - used_at_s))
            except DiskFullError:
                path.unlink()
            else:
                self._unverified.add(_key(source))

    def _left_by_last_process(self) -> Iterator[tuple[float, Path]]:
        """Whole files, and when they were last used; the others are deleted."""
        with os.scandir(self._folder) as found:
            for each in found:
                file = CacheFile.parse(each.name)
                if not each.is_file(follow_symlinks=False) or not (file or is_part(each.name)):
                    continue
                status = each.stat()
                if file is not None and status.st_size == file.size_bytes:
                    yield status.st_mtime, Path(each.path)
                else:
                    Path(each.path).unlink()

    @asynccontextmanager
    async def open(self, ref: ObjectRef, *, is_parquet: bool = True) -> AsyncGenerator[Path]:
        """Where to read the object, for as long as the block lasts. A file other than Parquet is also kept, but nobody
        checks how it begins and ends."""
        path = self._objects.local_path(ref)
        if path is not None and not self._copy_local:
            await self._check_in_place(ref, path, is_parquet=is_parquet)
            yield path
            return
        key = _key(source_of(ref))
        pin = self._pin_ready(key) or await self._bring(ref, key, is_parquet=is_parquet)
        try:
            yield pin.path
        finally:
            pin.release()

    def is_here(self, ref: ObjectRef) -> bool:
        """Whether it can be opened without a download."""
        if self._objects.local_path(ref) is not None and not self._copy_local:
            return True
        return _key(source_of(ref)) in self._budget

    async def _check_in_place(self, ref: ObjectRef, path: Path, *, is_parquet: bool) -> None:
        """Not on the loop, though a second look is short: the file's disk may hang."""
        if ref in self._seen_in_place or not is_parquet:
            await self._objects.look(path, lambda: check_unchanged(ref, path))
            return
        await self._objects.look(path, lambda: check_in_place(ref, path))
        self._seen_in_place[ref] = None
        if len(self._seen_in_place) > _REMEMBERED_IN_PLACE:
            self._seen_in_place.popitem(last=False)

    def _pin_ready(self, key: str) -> Pin | None:
        if key in self._unverified:
            return None
        try:
            pin = self._budget.pin(key)
        except KeyError:
            return None
        if not _stamp(pin.path):
            pin.release()
            self._budget.remove(key)
            return None
        self.hits += 1
        return pin

    # One for all who ask

    async def _bring(self, ref: ObjectRef, key: str, *, is_parquet: bool) -> Pin:
        """Waits for the object, which somebody else may have asked for already."""
        while (bringing := self._on_their_way.get(key)) is not None and bringing.given_up:
            await bringing.ended.wait()
        is_first = bringing is None
        if bringing is None:
            bringing = self._on_their_way[key] = _Bringing()
            bringing.task = asyncio.create_task(
                self._fetch(ref, key, bringing, is_parquet=is_parquet), name=f"bring {ref.url}"
            )
        assert bringing.task is not None
        bringing.askers += 1
        try:
            await asyncio.shield(bringing.task)
            pin = self._budget.pin(key)  # it is there: the task's own pin is released by the last who leaves
        finally:
            bringing.askers -= 1
            if not bringing.askers:
                await self._end(bringing, bringing.task, key)
        self.hits += not (is_first and bringing.downloaded)
        return pin

    async def _end(self, bringing: _Bringing, task: "asyncio.Task[Pin]", key: str) -> None:
        """Nobody waits any more."""
        bringing.given_up = True
        try:
            if not task.done():
                task.cancel()
                await wait_for_end(task)
        finally:
            del self._on_their_way[key]
            bringing.ended.set()
            if not task.cancelled() and task.exception() is None:
                task.result().release()

    async def _fetch(self, ref: ObjectRef, key: str, bringing: _Bringing, *, is_parquet: bool) -> Pin:
        pin = await self._verify(key)
        if pin is None:
            bringing.downloaded = True
            pin = await self._download(ref, key, is_parquet=is_parquet)
        return pin

    async def _verify(self, key: str) -> Pin | None:
        """What the last process left, if it is sound; if not, it is deleted."""
        if key not in self._unverified:
            return None
        try:
            pin = self._budget.pin(key)
        except KeyError:  # evicted meanwhile
            self._unverified.discard(key)
            return None
        verification = Verification(pin.path)
        try:
            while (sound := await in_thread(verification.step)) is None:
                pass
        except BaseException:
            pin.release()
            raise
        if sound and _stamp(pin.path):
            self._unverified.discard(key)
            return pin
        pin.release()
        await in_thread(lambda: self._budget.remove(key))
        self._unverified.discard(key)  # not before: until then somebody might take it for sound
        return None

    async def _download(self, ref: ObjectRef, key: str, *, is_parquet: bool) -> Pin:
        self.misses += 1
        began_s = time.monotonic()
        path = self._folder / unfinished_name(ref)
        file = await in_thread(
            lambda: self._budget.create(Owner.CACHE, key, path, expected_bytes=ref.size_bytes),
            undo=GrowingFile.abandon,
        )
        checksum = xxhash.xxh3_128()

        def append(chunk: bytes) -> None:
            checksum.update(chunk)
            file.write(chunk)
            self.received_bytes += len(chunk)

        def keep() -> Pin:
            if file.size_bytes != ref.size_bytes:
                raise unreachable(ref.url, f"{file.size_bytes} bytes came instead of {ref.size_bytes}")
            if is_parquet:
                check_parquet(file.path, ref.url)
            if ref.checksum not in ("", checksum.hexdigest()):
                raise not_as_named(ref.url, checksum.hexdigest(), ref.checksum)
            return file.keep_pinned(self._folder / str(CacheFile(source_of(ref), ref.size_bytes, checksum.hexdigest())))

        try:
            async with aclosing(self._objects.stream(ref, _CHUNK_BYTES)) as chunks:
                async for chunk in chunks:
                    await in_thread(lambda chunk=chunk: append(chunk))
            if self._on_download is not None:
                self._on_download(time.monotonic() - began_s, ref.size_bytes)
            return await in_thread(keep, undo=Pin.release)
        except BaseException:
            await in_thread(file.abandon)
            raise


def _key(source: str) -> str:
    """In the budget, beside the keys of artifacts."""
    return f"cache-{source}"


def _stamp(path: Path) -> bool:
    """Leaves on the disk when it was last used, roughly, for the next process. Whether it is there: somebody may have
    cleared the folder."""
    try:
        if time.time() - path.stat().st_mtime > _STAMP_AFTER_S:
            os.utime(path)
    except FileNotFoundError:
        return False
    return True
