"""Objects in stores: found by a pattern, read as a stream, the same on the local file system and on S3.

An object is named by a reference, which says how large it was and which version of it; reading it later gives those
bytes or an error, never others. It must not know what is in an object, nor keep one.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.store import LocalStore, S3Store

from quarterdeck.stores.durable_file import write_durably
from quarterdeck.stores.globs import Glob, has_wildcard
from quarterdeck.stores.limits import MIB
from quarterdeck.stores.locations import Location, parse_location
from quarterdeck.stores.object_errors import changed, nothing_found, told_with, unreachable
from quarterdeck.stores.s3_options import S3Options
from quarterdeck.stores.threads import finish_in_thread

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

__all__ = ["ObjectRef", "ObjectStores", "S3Options", "local_version"]

CHUNK_BYTES: Final = 8 * MIB
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HIDDEN: Final = (".", "_")
"""How a name in a folder begins that is not data: `_SUCCESS`, `_delta_log/`, `.part-0.crc`."""


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
    """Of its bytes, xxh3_128 in hexadecimal, where whoever names it knows it: other bytes are not kept as a copy."""

    def is_met_by(self, found: "ObjectRef") -> bool:
        """Whether an object as it is now is the one that is meant."""
        return found == self or (not self.version and found.size_bytes == self.size_bytes and found.url == self.url)


def local_version(size_bytes: int, mtime_us: int) -> str:
    return f"{size_bytes}-{mtime_us}"


class ObjectStores:
    """All stores there are, behind one set of names."""

    def __init__(self, s3: S3Options | None = None) -> None:
        self._s3: Final = s3 or S3Options()
        self._local: Final = LocalStore("/")
        self._buckets: Final[dict[str, S3Store]] = {}

    async def find(self, pattern: str) -> list[ObjectRef]:
        """What a file, a folder or a glob means, sorted by URL. A folder is all that is in it and below, without what
        begins with a dot or an underscore. To find nothing is an error."""
        location = parse_location(pattern)
        with told_with(pattern):
            found = await (self._match(location) if has_wildcard(location.key) else self._list(location))
        if not found:
            raise nothing_found(pattern)
        return sorted(found, key=lambda ref: ref.url)

    async def head(self, url: str) -> ObjectRef:
        """The object as it is now."""
        location = parse_location(url)
        with told_with(url):
            return _ref(location, await obstore.head_async(self._store(location), _key(location)))

    async def stream(self, ref: ObjectRef, chunk_bytes: int = CHUNK_BYTES) -> AsyncGenerator[bytes]:
        """Its bytes, all of them and of that version, or an error. Close it when leaving early: `aclosing`."""
        location = parse_location(ref.url)
        store = self._store(location)
        options: GetOptions = {"if_match": ref.version} if ref.version.startswith('"') else {}
        read_bytes = 0
        with told_with(ref.url):
            result = await obstore.get_async(store, _key(location), options=options)
            if not ref.is_met_by(_ref(location, result.meta)):
                del result  # else the error would keep it with this frame, and it the connection
                raise changed(ref.url)
            async for chunk in result.stream(min_chunk_size=chunk_bytes):
                read_bytes += len(chunk)
                yield chunk
        if location.bucket is None and not ref.is_met_by(await self.head(ref.url)):
            raise changed(ref.url)  # a local file may be written to while it is read
        if read_bytes != ref.size_bytes:
            raise unreachable(ref.url, f"it ended after {read_bytes} of {ref.size_bytes} bytes")

    async def read_range(self, ref: ObjectRef, start: int, end: int) -> bytes:
        """Its bytes from `start` to before `end`, of that version, or an error."""
        if not 0 <= start <= end <= ref.size_bytes:
            raise ValueError(f"{ref.url} has {ref.size_bytes} bytes, and none from {start} to {end}")
        if start == end:
            return b""
        location = parse_location(ref.url)
        options: GetOptions = {"range": (start, end)}
        if ref.version.startswith('"'):
            options["if_match"] = ref.version
        if location.bucket is None and not ref.is_met_by(await self.head(ref.url)):
            raise changed(ref.url)  # asked ahead: the client may keep a file open for a while that is not read
        with told_with(ref.url):
            result = await obstore.get_async(self._store(location), _key(location), options=options)
            if not ref.is_met_by(_ref(location, result.meta)):
                del result  # else the error would keep it with this frame, and it the connection
                raise changed(ref.url)
            data = bytes(await result.bytes_async())
        if location.bucket is None and not ref.is_met_by(await self.head(ref.url)):
            raise changed(ref.url)  # a local file may be written to while it is read
        if len(data) != end - start:
            raise unreachable(ref.url, f"{len(data)} bytes came instead of {end - start}")
        return data

    async def put(self, url: str, data: bytes) -> None:
        """Writes an object, all of it or nothing; one of the same name is replaced. When this returns it is safe: a
        local file is on the disk, not only in the system's memory."""
        location = parse_location(url)
        with told_with(url):
            if location.path is not None:
                await finish_in_thread(lambda path=location.path: write_durably(path, data))
            else:
                await obstore.put_async(self._store(location), _key(location), data)

    async def delete(self, url: str) -> None:
        """One that is not there is fine."""
        location = parse_location(url)
        with told_with(url), suppress(FileNotFoundError):
            await obstore.delete_async(self._store(location), _key(location))

    def local_path(self, ref: ObjectRef) -> Path | None:
        """Where it is, if it is on this machine."""
        return parse_location(ref.url).path

    # Listing

    async def _list(self, location: Location) -> list[ObjectRef]:
        if not location.is_folder:
            try:
                return [_ref(location, await obstore.head_async(self._store(location), location.key))]
            except FileNotFoundError:
                pass  # then it may be a folder
        skip = len(location.key) + 1 if location.key else 0
        return [
            _ref(location, meta)
            for meta in await self._below(location, location.key)
            if not any(name.startswith(_HIDDEN) for name in meta["path"][skip:].split("/"))
        ]

    async def _match(self, location: Location) -> list[ObjectRef]:
        if location.is_folder:
            return []  # nothing that can be read has a name with a slash at its end
        segments = location.key.split("/")
        fixed = next(number for number, segment in enumerate(segments) if has_wildcard(segment))
        folder, pattern = "/".join(segments[:fixed]), "/".join(segments[fixed:])
        glob = Glob(pattern)
        if fixed == len(segments) - 1 and pattern != "**":
            # Its other overload returns a table of a package that is not installed.
            list_folder = obstore.list_with_delimiter_async  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            metas: Sequence[ObjectMeta] = (await list_folder(self._store(location), folder or None))["objects"]
        else:
            metas = await self._below(location, folder)
        skip = len(folder) + 1 if folder else 0
        return [
            _ref(location, meta) for meta in metas if _is_data(location, meta) and glob.matches(meta["path"][skip:])
        ]

    async def _below(self, location: Location, folder: str) -> list["ObjectMeta"]:
        found: list[ObjectMeta] = []
        # As above, another overload's type is unknown.
        list_all = obstore.list  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        async for metas in list_all(self._store(location), folder or None, chunk_size=1000):
            found.extend(meta for meta in metas if _is_data(location, meta))
        return found

    def _store(self, location: Location) -> LocalStore | S3Store:
        if location.bucket is None:
            return self._local
        store = self._buckets.get(location.bucket)
        if store is None:
            store = self._buckets[location.bucket] = self._s3.open_bucket(location.bucket)
        return store


def _key(location: Location) -> str:
    if not location.key:
        raise ValueError("it names no object")
    return location.key


def _is_data(location: Location, meta: "ObjectMeta") -> bool:
    """Some tools mark a folder in a bucket by an empty object; a name without a suffix tells it from an empty file."""
    return location.bucket is None or meta["size"] > 0 or "." in meta["path"].rpartition("/")[2]


def _ref(location: Location, meta: "ObjectMeta") -> ObjectRef:
    version = meta["e_tag"]
    if location.bucket is None or version is None:
        version = local_version(meta["size"], (meta["last_modified"] - _EPOCH) // timedelta(microseconds=1))
    return ObjectRef(location.with_key(meta["path"]), meta["size"], version)
