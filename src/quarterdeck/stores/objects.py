"""Objects in stores: found by a pattern, read as a stream, the same way on the local file system and on S3.

An object is named by a reference, which says its size and its version. Reading it later gives those bytes or an error,
never other bytes. Every call has a deadline: a call that hangs is reported with the object's name. It must not know
what is in an object, and keeps none.
"""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import obstore
from obstore.store import S3Store

from quarterdeck.stores.durable_file import link_durably, write_durably
from quarterdeck.stores.globs import Glob, has_wildcard
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.local_files import ENTRIES_MAX, HIDDEN, LocalFile, Walk, read_range, remove
from quarterdeck.stores.locations import Location, parse_location
from quarterdeck.stores.object_errors import changed, hangs, in_the_way, nothing_found, told_with, too_many, unreachable
from quarterdeck.stores.regular_files import check_regular, stat_regular
from quarterdeck.stores.s3_options import S3Options
from quarterdeck.stores.source_roots import Border
from quarterdeck.stores.store_calls import SLOWEST_BYTES_PER_S, StoreCalls
from quarterdeck.telemetry.metrics import StoreFigures

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta

__all__ = ["ListedObject", "ObjectRef", "ObjectStores", "S3Options", "local_version"]

ResultT = TypeVar("ResultT")

CHUNK_BYTES: Final = 8 * MIB
_LOCAL_CHUNK_BYTES_MIN: Final = 16 * 1024
"""Of a local file no less is read at once: the way to a thread and back takes as long."""
TIMEOUT_S: Final = 60.0
"""Longer than the retries of S3 take by default: they are to say what is wrong themselves."""
_BUCKET_CALLS_MAX: Final = 64
"""Requests to one bucket at the same time; the others wait for their turn, within their deadline."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One version of one object."""

    url: str
    """Of a local file, its absolute path."""
    size_bytes: int
    version: str
    """Its e_tag; of a local file, its size and when it was last written. Empty: whichever is there, if it has the size;
    for objects that are never changed, and whose reader knows their checksum."""

    checksum: str = ""
    """The xxh3_128 of its bytes in hexadecimal, if whoever names the object knows it. Then other bytes are not kept as
    a copy."""

    def is_met_by(self, found: "ObjectRef") -> bool:
        """Whether an object as it is now is the one that is meant."""
        return found == self or (not self.version and found.size_bytes == self.size_bytes and found.url == self.url)


def local_version(size_bytes: int, mtime_us: int) -> str:
    return f"{size_bytes}-{mtime_us}"


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object as a listing tells of it."""

    url: str
    size_bytes: int
    modified_s: float
    """Since 1970, by the clock of the store."""


class ObjectStores:
    """All stores there are, behind one set of names."""

    def __init__(
        self, s3: S3Options | None = None, *, timeout_s: float = TIMEOUT_S, calls: StoreCalls | None = None
    ) -> None:
        """`timeout_s` is for each call, and for each chunk of a stream; what moves many bytes has more."""
        self._s3: Final = s3 or S3Options()
        self._calls: Final = calls or StoreCalls(timeout_s)
        self._buckets: Final[dict[str, _Bucket]] = {}

    async def find(self, pattern: str, border: Border | None = None) -> list[ObjectRef]:
        """What a file, a folder or a glob means, sorted by URL. A folder is all that is in it and below, without what
        begins with a dot or an underscore. To find nothing is an error, and so is a link that leads out of the
        border."""
        location = parse_location(pattern)
        with told_with(pattern):
            look = self._match if has_wildcard(location.key) else self._list
            found = await look(location, border)
        if not found:
            raise nothing_found(pattern)
        return sorted(found, key=lambda ref: ref.url)

    async def head(self, url: str) -> ObjectRef:
        """The object as it is now."""
        location = parse_location(url)
        with told_with(url):
            if location.bucket is None:
                path = f"/{_key(location)}"
                return _local_ref(path, await self._calls.run(path, lambda: stat_regular(path)))
            return await self._head(location)

    async def stream(self, ref: ObjectRef, chunk_bytes: int = CHUNK_BYTES) -> AsyncGenerator[bytes]:
        """Its bytes, all of them and of that version, or an error. Close it when leaving early: `aclosing`."""
        location = parse_location(ref.url)
        if location.bucket is None:
            # Each chunk opens it again, so that nothing stays open, whenever the reader leaves.
            step = max(chunk_bytes, _LOCAL_CHUNK_BYTES_MIN)
            for start in range(0, ref.size_bytes, step) if ref.size_bytes else (0,):
                if chunk := await self._read_local(ref, location, start, min(start + step, ref.size_bytes)):
                    yield chunk
            return
        bucket = self._bucket(location.bucket)
        options: GetOptions = {"if_match": ref.version} if ref.version.startswith('"') else {}
        read_bytes = 0
        with told_with(ref.url):
            key = _key(location)
            result = await self._ask(location, lambda: obstore.get_async(bucket.store, key, options=options))
            if not ref.is_met_by(_ref(location, result.meta)):
                _hang_up(result)
                raise changed(ref.url)
            next_chunk = partial(anext, aiter(result.stream(min_chunk_size=chunk_bytes)), None)
            try:
                while (chunk := await self._ask(location, next_chunk, chunk_bytes)) is not None:
                    read_bytes += len(chunk)
                    yield chunk
            finally:
                del next_chunk  # or an error keeps it through this frame, and it keeps the connection
        if read_bytes != ref.size_bytes:
            raise unreachable(ref.url, f"it ended after {read_bytes} of {ref.size_bytes} bytes")

    async def read_range(self, ref: ObjectRef, start: int, end: int) -> bytes:
        """Its bytes from `start` to before `end`, of that version, or an error."""
        if not 0 <= start <= end <= ref.size_bytes:
            raise ValueError(f"{ref.url} has {ref.size_bytes} bytes, and none from {start} to {end}")
        if start == end:
            return b""
        location = parse_location(ref.url)
        if location.bucket is None:
            return await self._read_local(ref, location, start, end)
        options: GetOptions = {"range": (start, end)}
        if ref.version.startswith('"'):
            options["if_match"] = ref.version
        bucket = self._bucket(location.bucket)
        with told_with(ref.url):
            key = _key(location)
            result = await self._ask(location, lambda: obstore.get_async(bucket.store, key, options=options))
            if not ref.is_met_by(_ref(location, result.meta)):
                _hang_up(result)
                raise changed(ref.url)
            data = bytes(await self._ask(location, result.bytes_async, end - start))
        if len(data) != end - start:
            raise unreachable(ref.url, f"{len(data)} bytes came instead of {end - start}")
        return data

    async def put(self, url: str, data: bytes) -> None:
        """Writes an object, all of it or nothing; one of the same name is replaced. When this returns it is safe: a
        local file is on the disk, not only in the system's memory."""
        location = parse_location(url)
        with told_with(url):
            key = _key(location)
            if location.bucket is None:
                path = Path(f"/{key}")
                try:
                    await self._calls.run(
                        str(path), lambda: write_durably(path, data), moved_bytes=len(data), finish=True
                    )
                except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
                    raise in_the_way(url, error) from error
            else:
                bucket = self._bucket(location.bucket)
                await self._ask(location, lambda: obstore.put_async(bucket.store, key, data), len(data))

    async def delete(self, url: str, *, empty_folders: int = 0) -> None:
        """One that is not there is fine. Of a local file also so many folders above it, as far as nothing is left in
        them; a bucket has none."""
        location = parse_location(url)
        with told_with(url), suppress(FileNotFoundError):
            key = _key(location)
            if location.bucket is None:
                await self._calls.run(f"/{key}", lambda: remove(f"/{key}", empty_folders), finish=True)
            else:
                bucket = self._bucket(location.bucket)
                await self._ask(location, lambda: obstore.delete_async(bucket.store, key))

    async def copy(self, url: str, to_url: str) -> None:
        """Makes an object that never changes known under another name, in the same place: of a local file that is a
        second name, where the file system has such. One that is there already stays or is replaced, as safe as with
        `put`."""
        location, target = parse_location(url), parse_location(to_url)
        if location.bucket != target.bucket:
            raise ValueError(f"{url} and {to_url} are in different stores")
        with told_with(url):
            key, to_key = _key(location), _key(target)
            if location.bucket is None:
                path, to_path = Path(f"/{key}"), Path(f"/{to_key}")
                await self._calls.run(f"/{key}", lambda: link_durably(path, to_path), finish=True)
            else:
                bucket = self._bucket(location.bucket)
                await self._ask(location, lambda: obstore.copy_async(bucket.store, key, to_key))

    async def list_all(self, url: str) -> AsyncGenerator[list[ListedObject]]:
        """Everything in a folder and below, hidden or not, some at a time and in no order; nothing if the folder does
        not exist. In a local folder, what may not be read or has a name that is not UTF-8 is skipped."""
        location = parse_location(url)
        with told_with(url):
            if location.bucket is None:
                folder = f"/{location.key}"
                walk = Walk(folder, everything=True, mounts=self._calls.mount_points())
                with suppress(FileNotFoundError, NotADirectoryError):
                    while (files := await self._calls.run(walk.at, walk.step)) is not None:
                        yield [ListedObject(file.path, file.size_bytes, file.mtime_us / 1e6) for file in files]
            else:
                async for metas in self._pages(location, location.key):
                    yield [
                        ListedObject(location.with_key(meta["path"]), meta["size"], meta["last_modified"].timestamp())
                        for meta in metas
                    ]

    def local_path(self, ref: ObjectRef) -> Path | None:
        """Where it is, if it is on this machine."""
        return parse_location(ref.url).path

    # What may hang

    async def look(self, path: Path, work: Callable[[], ResultT], *, moved_bytes: int = 0) -> ResultT:
        """Does something with a local file that may hang, where it harms nobody; raises what it raises, or that it
        takes too long."""
        return await self._calls.run(str(path), work, moved_bytes=moved_bytes)

    def by_mount(self, paths: Iterable[str]) -> list[list[str]]:
        """Local paths, those together that hang together, each once: what is done for one group is one `look`."""
        return self._calls.by_mount(paths)

    def trouble(self) -> list[str]:
        """What is wrong, for the readiness of the process: nothing, or one sentence."""
        return self._calls.trouble()

    def figures(self) -> StoreFigures:
        """For the metrics; any thread may ask."""
        return StoreFigures(hanging=len(self._calls.hanging()), timed_out=self._calls.timed_out)

    # Listing

    async def _list(self, location: Location, border: Border | None) -> list[ObjectRef]:
        if location.bucket is None:
            return await self._list_local(location, border)
        if not location.is_folder:
            try:
                return [await self._head(location)]
            except FileNotFoundError:
                pass  # then it may be a folder
        skip = len(location.key) + 1 if location.key else 0
        return [
            _ref(location, meta)
            for meta in await self._below(location, location.key)
            if not any(name.startswith(HIDDEN) for name in meta["path"][skip:].split("/"))
        ]

    async def _list_local(self, location: Location, border: Border | None) -> list[ObjectRef]:
        path = f"/{location.key}"
        try:
            found = await self._calls.run(path, lambda: os.stat(path))  # noqa: PTH116 - a text, as all paths here
            if stat.S_ISDIR(found.st_mode):
                return await self._walk(path, border=border)
            if location.is_folder:
                return []
            check_regular(path, found)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [_local_ref(path, found)]

    async def _match(self, location: Location, border: Border | None) -> list[ObjectRef]:
        if location.is_folder:
            return []  # nothing that can be read has a name with a slash at its end
        segments = location.key.split("/")
        fixed = next(number for number, segment in enumerate(segments) if has_wildcard(segment))
        folder, pattern = "/".join(segments[:fixed]), "/".join(segments[fixed:])
        glob = Glob(pattern)
        if location.bucket is None:
            try:
                return await self._walk(f"/{folder}", glob, border)
            except (FileNotFoundError, NotADirectoryError):
                return []
        if fixed == len(segments) - 1 and pattern != "**":
            # Its other overload returns a table of a package that is not installed.
            list_folder = obstore.list_with_delimiter_async  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            store = self._bucket(location.bucket).store
            listed = await self._ask(location, lambda: list_folder(store, folder or None))
            metas: Sequence[ObjectMeta] = listed["objects"]
        else:
            metas = await self._below(location, folder)
        skip = len(folder) + 1 if folder else 0
        return [_ref(location, meta) for meta in metas if _is_data(meta) and glob.matches(meta["path"][skip:])]

    async def _walk(self, folder: str, glob: Glob | None = None, border: Border | None = None) -> list[ObjectRef]:
        walk = Walk(folder, glob, mounts=self._calls.mount_points(), border=border)
        found: list[ObjectRef] = []
        while (files := await self._calls.run(walk.at, walk.step)) is not None:
            found.extend(_ref_of_file(file) for file in files)
        return found

    async def _below(self, location: Location, folder: str) -> list["ObjectMeta"]:
        found: list[ObjectMeta] = []
        async for metas in self._pages(location, folder):
            found.extend(meta for meta in metas if _is_data(meta))
            if len(found) > ENTRIES_MAX:
                raise too_many(location.with_key(folder), ENTRIES_MAX)
        return found

    async def _pages(self, location: Location, folder: str) -> AsyncGenerator[Sequence["ObjectMeta"]]:
        assert location.bucket is not None
        # As above, another overload's type is unknown.
        list_all = obstore.list  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        pages = aiter(list_all(self._bucket(location.bucket).store, folder or None, chunk_size=1000))
        while (metas := await self._ask(location, lambda: anext(pages, None))) is not None:
            yield metas

    # One call

    async def _read_local(self, ref: ObjectRef, location: Location, start: int, end: int) -> bytes:
        path = f"/{_key(location)}"

        def check(found: os.stat_result) -> None:
            if not ref.is_met_by(_local_ref(ref.url, found)):
                raise changed(ref.url)

        with told_with(ref.url):
            data = await self._calls.run(path, lambda: read_range(path, start, end, check), moved_bytes=end - start)
        if len(data) != end - start:
            raise unreachable(ref.url, f"it ended after {start + len(data)} of {ref.size_bytes} bytes")
        return data

    async def _head(self, location: Location) -> ObjectRef:
        assert location.bucket is not None
        store, key = self._bucket(location.bucket).store, _key(location)
        return _ref(location, await self._ask(location, lambda: obstore.head_async(store, key)))

    async def _ask(self, location: Location, begin: Callable[[], Awaitable[ResultT]], moved_bytes: int = 0) -> ResultT:
        """One request to a bucket, within the deadline. It begins when it is called, and so not before its turn."""
        assert location.bucket is not None
        allowed_s = self._calls.timeout_s + moved_bytes // SLOWEST_BYTES_PER_S
        timeout = asyncio.timeout(allowed_s)
        try:
            async with timeout, self._bucket(location.bucket).turn:
                return await begin()
        except TimeoutError:
            if not timeout.expired():
                raise
            self._calls.timed_out += 1
            raise hangs(location.url, allowed_s) from None
        finally:
            del begin  # or an error keeps it through this frame, and it keeps the connection

    def _bucket(self, name: str) -> "_Bucket":
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._s3.open_bucket(name), asyncio.Semaphore(_BUCKET_CALLS_MAX))
        return bucket


def _hang_up(answer: "GetResult") -> None:
    """Ends the connection of an answer that nobody will read. To let go of the answer is not enough: a thread of the
    client has the future that brought it, and on a busy machine keeps that until the next request. So the connection is
    moved into a stream, which nobody keeps."""
    answer.stream()


@dataclass(frozen=True, slots=True)
class _Bucket:
    store: S3Store
    turn: asyncio.Semaphore


def _key(location: Location) -> str:
    if not location.key:
        raise ValueError("it names no object")
    return location.key


def _is_data(meta: "ObjectMeta") -> bool:
    """Some tools mark a folder in a bucket by an empty object; a name without a suffix tells it from an empty file."""
    return meta["size"] > 0 or "." in meta["path"].rpartition("/")[2]


def _ref(location: Location, meta: "ObjectMeta") -> ObjectRef:
    version = meta["e_tag"]
    if version is None:
        version = local_version(meta["size"], (meta["last_modified"] - _EPOCH) // timedelta(microseconds=1))
    return ObjectRef(location.with_key(meta["path"]), meta["size"], version)


def _local_ref(url: str, found: os.stat_result) -> ObjectRef:
    return ObjectRef(url, found.st_size, local_version(found.st_size, found.st_mtime_ns // 1000))


def _ref_of_file(file: LocalFile) -> ObjectRef:
    return ObjectRef(file.path, file.size_bytes, local_version(file.size_bytes, file.mtime_us))
