"""`Catalog`: which segments there are, in the database. Queries read it. Imports write it, and so does whoever
publishes what an import has left staged; nobody else does.

A coordinator keeps each tenant's segments in memory. Before each query it asks the database for the tenant's version, a
row that every change increments. So a query that comes after an import sees it, whichever coordinator is asked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, or_, select, update

from quarterdeck.metrics import places, tables
from quarterdeck.metrics.model import MetricMetadata, Segment
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.database.inserts import insert_into
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.locations import parse_location
from quarterdeck.stores.objects import ObjectRef

_MOST_IN_A_STATEMENT: Final = 500
"""SQLite takes some thousands of values in one statement."""


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment that is in the object store, and not yet in the catalog."""

    shard: int
    shard_count: int
    place: str
    """In the lake."""
    size_bytes: int
    checksum: str
    min_ts_ms: int
    max_ts_ms: int
    row_count: int
    series_count: int
    label_index: bytes


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """One import, as people see it afterwards."""

    import_id: str
    tenant: str
    source: str
    fingerprint: str
    sample_count: int
    series_count: int
    imported_at_ms: int
    first_ms: int | None = None
    """When the first sample is, by the segments; None where there is none."""
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the catalog has after an import."""

    record: ImportRecord
    was_there: bool
    """Whether it had been imported before, and nothing was changed."""


class Catalog:
    """See the module. One event loop uses it."""

    def __init__(self, database: Database, lake_url: str) -> None:
        """`lake_url` is the folder or bucket with the segments: the catalog knows them by their place in it, so that it
        can be moved."""
        self._database: Final = database
        self._lake_url: Final = lake_url
        self._universes: Final[dict[str, Universe]] = {}
        self._loading: Final[dict[str, asyncio.Lock]] = {}

    async def universe(self, tenant: str) -> Universe:
        """The tenant's segments now."""
        known = self._universes.get(tenant)
        version = await self._database.read(lambda connection: _version(connection, tenant))
        if known is not None and known.version == version:
            return known
        if version == 0:
            return Universe()  # of tenants that have nothing, nothing is kept
        async with self._loading.setdefault(tenant, asyncio.Lock()):
            known = self._universes.get(tenant, Universe())
            if known.version == version:
                return known
            if known.version > version:
                known = Universe()  # the catalog was restored to what it was before, or has changed since we asked
            universe = await self._database.read(lambda connection: _load(connection, tenant, known, self._lake_url))
            self._universes[tenant] = universe
            return universe

    async def metadata(self, tenant: str) -> Mapping[str, MetricMetadata]:
        """What is known about the tenant's metrics, by metric."""
        table = tables.metric_metadata

        def load(connection: Connection) -> dict[str, MetricMetadata]:
            columns = (table.c.metric, table.c.type, table.c.help, table.c.unit)
            rows = connection.execute(select(*columns).where(table.c.tenant == tenant).order_by(table.c.metric))
            return {row.metric: MetricMetadata(row.metric, row.type, row.help, row.unit) for row in rows}

        return await self._database.read(load)


def find_import(connection: Connection, tenant: str, fingerprint: str) -> ImportRecord | None:
    """The import of the same content, if there was one."""
    table = tables.imports
    row = connection.execute(
        _imports().where(table.c.tenant == tenant, table.c.fingerprint == fingerprint)
    ).one_or_none()
    return None if row is None else _import_record(row)


def list_imports(connection: Connection, tenant: str) -> list[ImportRecord]:
    """All imports of a tenant, the latest last."""
    table = tables.imports
    rows = connection.execute(_imports().where(table.c.tenant == tenant).order_by(table.c.imported_at_ms))
    return [_import_record(row) for row in rows]


def _imports() -> Select[Any]:
    """Imports, and when their samples begin and end: the segments know, those of earlier releases too."""
    imports, segments = tables.imports, tables.segments
    first, last = func.min(segments.c.min_ts_ms).label("first_ms"), func.max(segments.c.max_ts_ms).label("last_ms")
    joined = imports.outerjoin(segments, segments.c.import_id == imports.c.import_id)
    return select(imports, first, last).select_from(joined).group_by(imports.c.import_id)


def record_import(
    connection: Connection,
    record: ImportRecord,
    segments: Sequence[NewSegment],
    metadata: Mapping[str, MetricMetadata],
    *,
    replace: bool = False,
) -> Recorded:
    """An import with all that belongs to it, in the caller's transaction: all of it is there, or nothing. Where the
    same content was imported meanwhile, that stays, unless it is to be replaced."""
    _bump(connection, record.tenant)  # first: then imports of a tenant come one after the other
    known = find_import(connection, record.tenant, record.fingerprint)
    if known is not None:
        if not replace:
            return Recorded(known, was_there=True)
        remove_import(connection, record.tenant, known.import_id)
    connection.execute(
        tables.imports.insert().values(
            import_id=record.import_id,
            tenant=record.tenant,
            source=record.source,
            fingerprint=record.fingerprint,
            sample_count=record.sample_count,
            series_count=record.series_count,
            imported_at_ms=record.imported_at_ms,
        )
    )
    for low in range(0, len(segments), _MOST_IN_A_STATEMENT):
        some = segments[low : low + _MOST_IN_A_STATEMENT]
        connection.execute(tables.segments.insert(), [_segment_row(record, segment) for segment in some])
    for known in metadata.values():
        row = {"type": known.type, "help": known.help, "unit": known.unit}
        statement = insert_into(connection, tables.metric_metadata).values(
            tenant=record.tenant, metric=known.metric, **row
        )
        connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "metric"], set_=row))
    return Recorded(record, was_there=False)


def remove_import(connection: Connection, tenant: str, import_id: str) -> list[str]:
    """Takes an import out of the catalog; the places of its segments, whose objects nobody needs any more."""
    _bump(connection, tenant)
    segments, imports = tables.segments, tables.imports
    where = (segments.c.tenant == tenant) & (segments.c.import_id == import_id)
    places = [row.url for row in connection.execute(select(segments.c.url).where(where))]
    connection.execute(delete(segments).where(where))
    connection.execute(delete(imports).where(imports.c.tenant == tenant, imports.c.import_id == import_id))
    return places


def staged_segments(connection: Connection, after: int, at_most: int) -> list[tuple[int, str, str]]:
    """Segments that are listed where they were staged, with a larger number than `after`: the number, the folder of the
    import, and the place."""
    table = tables.segments
    rows = connection.execute(
        select(table.c.segment_id, table.c.tenant, table.c.import_id, table.c.url)
        .where(table.c.segment_id > after, table.c.url.startswith(places.STAGING_PREFIX, autoescape=True))
        .order_by(table.c.segment_id)
        .limit(at_most)
    )
    return [(row.segment_id, places.folder_of(row.tenant, row.import_id), row.url) for row in rows]


def mark_published(connection: Connection, staged: Sequence[str]) -> None:
    """From now on these are listed where they are published. Those that are not listed any more stay so."""
    table = tables.segments
    for low in range(0, len(staged), _MOST_IN_A_STATEMENT):
        some = staged[low : low + _MOST_IN_A_STATEMENT]
        tenants = connection.execute(select(table.c.tenant).where(table.c.url.in_(some)).distinct()).scalars().all()
        for tenant in sorted(tenants):
            _bump(connection, tenant)
        moves = [{"before": place, "after": after} for place in some if (after := places.published(place)) is not None]
        connection.execute(
            update(table).where(table.c.url == bindparam("before")).values(url=bindparam("after")), moves
        )


def listed_among(connection: Connection, asked: Sequence[str]) -> set[str]:
    """Where the catalog lists those of these segments that it lists: there, or where they were staged."""
    table = tables.segments
    found: set[str] = set()
    for low in range(0, len(asked), _MOST_IN_A_STATEMENT):
        some = asked[low : low + _MOST_IN_A_STATEMENT]
        either = [*some, *(place for each in some if (place := places.staged(each)) is not None)]
        found.update(connection.execute(select(table.c.url).where(table.c.url.in_(either))).scalars())
    return found


def segment_url(lake_url: str, place: str) -> str:
    """Where a segment is, by its place in the lake."""
    location = parse_location(lake_url)
    return location.with_key(f"{location.key}/{place}" if location.key else place)


def _bump(connection: Connection, tenant: str) -> None:
    table = tables.catalog_versions
    statement = insert_into(connection, table).values(tenant=tenant, version=1)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["tenant"], set_={"version": table.c.version + 1})
    )


def _version(connection: Connection, tenant: str) -> int:
    table = tables.catalog_versions
    return connection.execute(select(table.c.version).where(table.c.tenant == tenant)).scalar() or 0


def _load(connection: Connection, tenant: str, known: Universe, lake_url: str) -> Universe:
    """The version and the segments, of one moment. Those that are known already are not read again."""
    version = _version(connection, tenant)
    table = tables.segments
    before = {segment.segment_id: segment for segment in known.segments}
    newest = max(before, default=-1)
    there = select(func.count()).where(table.c.tenant == tenant, table.c.segment_id <= newest)
    if connection.execute(there).scalar() != len(before):  # some are gone
        before, newest = {}, -1
    # Staged ones are read again: they may have been published since.
    staging = segment_url(lake_url, places.STAGING_PREFIX)
    moving = [key for key, segment in before.items() if segment.object.url.startswith(staging)]
    if len(moving) > _MOST_IN_A_STATEMENT:
        before, moving, newest = {}, [], -1
    for key in moving:
        del before[key]
    rows = connection.execute(
        select(table)
        .where(table.c.tenant == tenant, or_(table.c.segment_id > newest, table.c.segment_id.in_(moving)))
        .order_by(table.c.segment_id)
    )
    found = before | {row.segment_id: _segment(row, lake_url) for row in rows}
    return Universe(version, tuple(found[key] for key in sorted(found)))


def _segment(row: Row[Any], lake_url: str) -> Segment:
    return Segment(
        row.segment_id,
        row.shard,
        row.shard_count,
        ObjectRef(segment_url(lake_url, row.url), row.size_bytes, row.version),
        row.checksum,
        row.min_ts_ms,
        row.max_ts_ms,
        row.row_count,
        row.series_count,
        row.label_index,
    )


def _segment_row(record: ImportRecord, segment: NewSegment) -> dict[str, object]:
    return {
        "import_id": record.import_id,
        "tenant": record.tenant,
        "shard": segment.shard,
        "shard_count": segment.shard_count,
        "url": segment.place,
        "version": "",
        "size_bytes": segment.size_bytes,
        "checksum": segment.checksum,
        "min_ts_ms": segment.min_ts_ms,
        "max_ts_ms": segment.max_ts_ms,
        "row_count": segment.row_count,
        "series_count": segment.series_count,
        "label_index": segment.label_index,
    }


def _import_record(row: Row[Any]) -> ImportRecord:
    return ImportRecord(
        row.import_id,
        row.tenant,
        row.source,
        row.fingerprint,
        row.sample_count,
        row.series_count,
        row.imported_at_ms,
        row.first_ms,
        row.last_ms,
    )
