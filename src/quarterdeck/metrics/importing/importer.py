"""`Importer`: a file's samples become segments in the lake and rows in the catalog, all of them or none.

Segments are staged first; the catalog learns of them in one transaction at the end; then they are published where
people look for them (`publishing`). An import that fails removes what it has staged. One that is killed leaves staged
objects that nobody refers to, and that coordinators remove (`orphans`), or listed ones that they publish. The same
content with the same options is imported once.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from secrets import token_hex
from typing import Final

import xxhash

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.catalog import (
    ImportRecord,
    NewSegment,
    find_import,
    listed_among,
    mark_published,
    record_import,
    segment_url,
)
from quarterdeck.metrics.importing.assembly import Assembly, Piece
from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.errors import SourceError, told_with
from quarterdeck.metrics.model import MetricMetadata
from quarterdeck.metrics.places import folder_of, folders_of_run, place_of, staged
from quarterdeck.metrics.publishing import publish
from quarterdeck.metrics.segments.file import CHECKSUM_PREFIX, checksum_of
from quarterdeck.metrics.segments.label_index import LabelIndex
from quarterdeck.metrics.segments.layout import segment_bytes
from quarterdeck.stores.database.sql import SqlDatabase
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.regular_files import open_regular

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_PUTS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Lake:
    """Where an import goes."""

    database: SqlDatabase
    objects: ObjectStores
    url: str
    orphan_grace_s: float = 0.0
    """After which what an import has staged may be removed, if the catalog does not list it; 0 is never."""


@dataclass(frozen=True, slots=True)
class ImportSource:
    """What is imported: a file and how it is read."""

    path: Path | None
    """None: it is no file, and all that decides what is read is in the options."""
    options: str
    """All that decides how it is read, as one text: the same file read differently is another import."""
    open: Callable[[], SampleReader]
    name: str = ""
    """What people call it, where that is not its path."""

    @property
    def shown(self) -> str:
        """A name that is no UTF-8 is escaped: the catalog takes text only."""
        return (self.name or str(self.path)).encode(errors="backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of it."""

    record: ImportRecord
    segments: int
    size_bytes: int
    duplicates: int
    was_there: bool
    """Whether the same content had been imported before; then nothing was done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import has got."""

    read_bytes: int
    size_bytes: int
    samples: int
    segments: int
    step: str


def import_file(
    lake: Lake,
    source: ImportSource,
    tenant: str,
    *,
    shard_count: int | None = None,
    again: bool = False,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Imported:
    """Imports one file. Raises what the reader raises, and then nothing of it is in the catalog. `again` also imports
    what was imported before, and replaces it: its segments are written anew."""
    fingerprint = _fingerprint(source, shard_count, on_progress)
    known = lake.database.read(lambda connection: find_import(connection, tenant, fingerprint))
    if known is not None and not again:
        return Imported(known, 0, 0, 0, was_there=True)
    import_id = xxhash.xxh3_128_hexdigest(f"{tenant}\0{fingerprint}".encode())
    return asyncio.run(_Import(lake, source, tenant, fingerprint, import_id, shard_count, on_progress).run(again))


class _Import:
    """One import on its way."""

    def __init__(
        self,
        lake: Lake,
        source: ImportSource,
        tenant: str,
        fingerprint: str,
        import_id: str,
        shard_count: int | None,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._lake = lake
        self._source = source
        self._tenant = tenant
        self._fingerprint = fingerprint
        self._import_id = import_id
        self._on_progress = on_progress
        self._assembly = Assembly(shard_count)
        self._segments: list[NewSegment] = []
        self._samples = 0
        self._folder = folder_of(tenant, import_id)
        self._run = token_hex(4)
        self._began_s = time.monotonic()
        self._began_wall_s = time.time()

    async def run(self, again: bool) -> Imported:
        try:
            record, metadata = await self._stage()
        except (Exception, asyncio.CancelledError):
            await self._remove_staged()
            raise
        segments = tuple(self._segments)
        recorded = self._lake.database.run(
            lambda connection: record_import(connection, record, segments, metadata, replace=again)
        )
        if recorded.was_there:
            await self._remove_staged()
            return Imported(recorded.record, 0, 0, 0, was_there=True)
        await self._publish([segment.place for segment in segments])
        size_bytes = sum(segment.size_bytes for segment in segments)
        return Imported(record, len(segments), size_bytes, self._assembly.duplicates, was_there=False)

    async def _stage(self) -> tuple[ImportRecord, dict[str, MetricMetadata]]:
        reader = self._source.open()
        for batch in reader.batches():
            self._assembly.add(batch)
            self._samples += len(batch.timestamps)
            self._tell(reader, "reading")
            if self._assembly.is_full:
                await self._write(reader)
        await self._write(reader)
        self._samples -= self._assembly.duplicates
        record = ImportRecord(
            self._import_id,
            self._tenant,
            self._source.shown,
            self._fingerprint,
            self._samples,
            self._assembly.series,
            time.time_ns() // 1_000_000,
            min((segment.min_ts_ms for segment in self._segments), default=None),
            max((segment.max_ts_ms for segment in self._segments), default=None),
        )
        metadata = dict(reader.metadata)
        self._check_time()
        return record, metadata

    async def _remove_staged(self) -> None:
        """What the catalog was not told of: else imports that fail again and again fill the disk. What cannot be
        removed is left to the coordinators."""
        with suppress(QuarterdeckError):
            for segment in self._segments:
                url = segment_url(self._lake.url, segment.place)
                await self._lake.objects.delete(url, empty_folders=folders_of_run(segment.place))

    async def _publish(self, places: Sequence[str]) -> None:
        database = self._lake.database

        async def listed(asked: Sequence[str]) -> set[str]:
            return database.read(lambda connection: listed_among(connection, asked))

        await publish(self._lake.objects, self._lake.url, self._folder, places, listed)
        database.run(lambda connection: mark_published(connection, places))

    def _check_time(self) -> None:
        """Half of the grace time, so that clocks may differ: what was staged first is still there then. By the clock
        on the wall too, by which files grow old: the other one stands still while the machine sleeps."""
        limit_s = self._lake.orphan_grace_s / 2
        taken_s = max(time.monotonic() - self._began_s, time.time() - self._began_wall_s)
        if limit_s and taken_s > limit_s:
            raise SourceError(
                f"{self._source.shown} was not imported",
                f"it took longer than half of metrics.orphan_grace_s, {limit_s:g} s; what it has written "
                "may be removed soon",
                "raise metrics.orphan_grace_s, here and for the coordinators, or import it in parts",
            )

    async def _write(self, reader: SampleReader) -> None:
        self._tell(reader, "sorting")
        self._check_time()
        waiting: list[tuple[str, bytes]] = []
        for piece in self._assembly.take():
            waiting.append(self._segment(piece))
            self._tell(reader, "writing")
            if len(waiting) == _PUTS_AT_ONCE:
                await self._put(waiting)
                waiting.clear()
        await self._put(waiting)

    def _segment(self, piece: Piece) -> tuple[str, bytes]:
        block = piece.block
        data = segment_bytes(block)
        checksum = checksum_of(data)
        final = place_of(self._folder, len(self._segments), checksum.removeprefix(CHECKSUM_PREFIX), self._run)
        place = staged(final)
        assert place is not None, f"{final} has the name of a run"
        counts: list[int] = (block.offsets[1:] - block.offsets[:-1]).tolist()
        firsts: list[int] = block.timestamps[block.offsets[:-1]].tolist()
        lasts: list[int] = block.timestamps[block.offsets[1:] - 1].tolist()
        index = LabelIndex.of(block.axis.labels, counts, list(zip(firsts, lasts, strict=True)))
        self._segments.append(
            NewSegment(
                piece.shard,
                piece.shard_count,
                place,
                len(data),
                checksum,
                int(block.timestamps.min()),
                int(block.timestamps.max()),
                len(block.timestamps),
                len(block.axis),
                index.encoded(),
            )
        )
        return place, data

    async def _put(self, waiting: Sequence[tuple[str, bytes]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for place, data in waiting:
                    group.create_task(self._lake.objects.put(segment_url(self._lake.url, place), data))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    def _tell(self, reader: SampleReader, step: str) -> None:
        self._on_progress(Progress(reader.read_bytes, reader.size_bytes, self._samples, len(self._segments), step))


def _opened(path: Path) -> FileIO:
    return os.fdopen(open_regular(path), "rb", buffering=0)


def _fingerprint(source: ImportSource, shard_count: int | None, on_progress: Callable[[Progress], None]) -> str:
    """Of the content and of how it is read."""
    hasher = xxhash.xxh3_128(f"{source.options}\0{shard_count}\0".encode())
    if source.path is None:
        return hasher.hexdigest()
    read_bytes = 0
    with told_with(source.shown, "it cannot be read", "check the file"), _opened(source.path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        while chunk := file.read(_CHUNK_BYTES):
            hasher.update(chunk)
            read_bytes += len(chunk)
            on_progress(Progress(read_bytes, size_bytes, 0, 0, "checking"))
    return hasher.hexdigest()
