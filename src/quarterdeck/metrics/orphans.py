"""`OrphanCollector`: removes from the lake what nobody refers to, and publishes what an import has left staged.

Rules: only what has a name of ours is looked at (`places`), and only when it is older than the grace time, which is
longer than any import may take: so nothing of an import that still runs is removed. What the catalog lists stays. When
the catalog or the lake cannot be read, nothing is removed. Of a tenant no segment of whose is both listed and there,
published segments are not removed: then it may be another catalog's lake, or the catalog was lost.

Any number of coordinators may do this at once: what is gone already is fine.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics import places
from quarterdeck.metrics.catalog import listed_among, mark_published, segment_url, staged_segments
from quarterdeck.metrics.places import PlaceKind
from quarterdeck.metrics.publishing import publish
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.objects import ListedObject, ObjectStores
from quarterdeck.telemetry.logs import get_logger
from quarterdeck.telemetry.metrics import LakeMetrics, OrphanKind

_log = get_logger(__name__)

_ROUND_S: Final = 900.0
"""Between two looks, give or take a half. A look lists the whole lake."""
_FIRST_S: Final = 60.0
_REMOVED_MAX: Final = 1000
"""In one round; the rest has time."""
_PUBLISHED_MAX: Final = 1000
_LINGER_S: Final = 600.0
"""How long a staged segment stays that has been published, at least: queries that have begun may read it."""
_KINDS: Final = {
    PlaceKind.PUBLISHED: OrphanKind.SEGMENT,
    PlaceKind.STAGED: OrphanKind.PART,
    PlaceKind.UNFINISHED: OrphanKind.PART,
}


@dataclass(frozen=True, slots=True)
class _Orphan:
    place: str
    kind: PlaceKind
    size_bytes: int

    @property
    def folder(self) -> str:
        """Of the tenant, if it is published."""
        return self.place.partition("/")[0]


class OrphanCollector:
    """See the module."""

    def __init__(
        self,
        database: Database,
        objects: ObjectStores,
        lake_url: str,
        metrics: LakeMetrics,
        *,
        grace_s: float,
        query_timeout_s: float,
        chance: Callable[[], float],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """With a grace of 0 nothing is removed."""
        self._database: Final = database
        self._objects: Final = objects
        self._lake_url: Final = lake_url
        self._metrics: Final = metrics
        self._grace_s: Final = grace_s
        self._linger_s: Final = max(_LINGER_S, 2 * query_timeout_s)
        self._chance: Final = chance
        self._wall_s: Final = wall_s

    async def run(self) -> None:
        """For ever. What fails is told, and tried again in the next round."""
        wait_s = _FIRST_S
        while True:
            await asyncio.sleep(wait_s * (0.5 + self._chance()))
            wait_s = _ROUND_S
            try:
                await self.publish_left()
                await self.collect()
            except QuarterdeckError as error:
                self._metrics.rounds_failed.inc()
                _log.warning("orphans in the lake were not looked for", reason=error.message)
            except Exception:  # noqa: BLE001 - nobody's query depends on it
                self._metrics.rounds_failed.inc()
                _log.exception("orphans in the lake were not looked for")

    async def publish_left(self) -> int:
        """Publishes what imports have left staged, those that were killed; how many segments."""
        rows = await self._database.read(lambda connection: staged_segments(connection, _PUBLISHED_MAX))
        by_folder: dict[str, list[str]] = {}
        for folder, place in rows:
            by_folder.setdefault(folder, []).append(place)
        for folder, staged in by_folder.items():
            await publish(self._objects, self._lake_url, folder, staged, self._listed)
            await self._database.run(lambda connection, staged=staged: mark_published(connection, staged))
        return len(rows)

    async def collect(self) -> int:
        """One round; how many objects were removed."""
        if not self._grace_s:
            return 0
        parts: list[_Orphan] = []
        segments: dict[str, list[_Orphan]] = {}
        seen: set[str] = set()
        base = segment_url(self._lake_url, "")
        async for batch in self._objects.list_all(self._lake_url):
            for orphan in await self._orphans(base, batch, seen):
                line = parts if orphan.kind is not PlaceKind.PUBLISHED else segments.setdefault(orphan.folder, [])
                if len(line) < _REMOVED_MAX:
                    line.append(orphan)
        orphans = parts + [orphan for folder in seen for orphan in segments.get(folder, ())]
        removed = 0
        for orphan in orphans[:_REMOVED_MAX]:
            await self._objects.delete(segment_url(self._lake_url, orphan.place))
            self._metrics.removed[_KINDS[orphan.kind]].inc()
            self._metrics.removed_bytes.inc(orphan.size_bytes)
            removed += 1
        if removed:
            _log.info("orphans in the lake were removed", objects=removed)
        return removed

    async def _orphans(self, base: str, batch: Sequence[ListedObject], seen: set[str]) -> list[_Orphan]:
        """Of some objects those that nobody needs. `seen` gets the folders of tenants that have a listed one."""
        now_s = self._wall_s()
        found = [
            (place, kind, each) for each in batch if (kind := places.kind_of(place := each.url.removeprefix(base)))
        ]
        finals = [place if kind is PlaceKind.PUBLISHED else places.published(place) for place, kind, _ in found]
        asked = [place for place in finals if place is not None]
        listed = await self._listed(asked) if asked else set[str]()
        orphans: list[_Orphan] = []
        for (place, kind, each), final in zip(found, finals, strict=True):
            if place in listed or (kind is PlaceKind.PUBLISHED and places.staged(place) in listed):
                if kind is PlaceKind.PUBLISHED:
                    seen.add(place.partition("/")[0])
                continue
            grace_s = self._linger_s if kind is PlaceKind.STAGED and final in listed else self._grace_s
            if now_s - each.modified_s >= grace_s:
                orphans.append(_Orphan(place, kind, each.size_bytes))
        return orphans

    async def _listed(self, asked: Sequence[str]) -> set[str]:
        return await self._database.read(lambda connection: listed_among(connection, asked))
