"""`OrphanCollector`: removes from the lake what nothing refers to, and publishes what an import has left staged.

Rules: it looks only at names of ours (`places`) that are older than the grace time. That is longer than any import may
take, so nothing of a running import is removed. What the catalog lists stays. If the catalog or the lake cannot be
read, nothing is removed. Published segments of a tenant are removed only if at least one segment of that tenant is both
listed and there: otherwise it may be another catalog's lake, or the catalog was lost.

Any number of coordinators may do this at once: what is gone already is fine.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics import places
from quarterdeck.metrics.catalog import listed_among, mark_published, segment_url, staged_segments
from quarterdeck.metrics.metering import LakeMetrics, OrphanKind
from quarterdeck.metrics.places import PlaceKind
from quarterdeck.metrics.publishing import publish
from quarterdeck.stores.database.port import Database
from quarterdeck.stores.objects import ListedObject, ObjectStores
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_ROUND_S: Final = 900.0
"""Between two looks, give or take a half. A look lists the whole lake."""
_FIRST_S: Final = 60.0
_REMOVED_MAX: Final = 1000
"""In one round; the rest has time."""
_PUBLISHED_MAX: Final = 1000
_LINGER_S: Final = 600.0
"""How long a staged segment stays after it was seen to be published, at least: queries that have begun may read it.
When it was staged says nothing about that: an import takes hours, or was killed and is published by us."""
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
        self._published_since: dict[str, float] = {}
        """Staged segments that the last look found published, and since when they are known to be."""

    async def run(self) -> None:
        """For ever. What fails is told, and tried again in the next round."""
        wait_s = _FIRST_S
        while True:
            await asyncio.sleep(wait_s * (0.5 + self._chance()))
            wait_s = _ROUND_S
            for step in (self.publish_left, self.collect):
                await self._try(step)

    async def _try(self, step: Callable[[], Awaitable[int]]) -> None:
        try:
            await step()
        except QuarterdeckError as error:
            self._metrics.rounds_failed.inc()
            _log.warning("the lake was not cleaned up", reason=error.message)
        except Exception:  # noqa: BLE001 - nobody's query depends on it
            self._metrics.rounds_failed.inc()
            _log.exception("the lake was not cleaned up")

    async def publish_left(self) -> int:
        """Publishes what imports have left staged, those that were killed; how many segments. One import that cannot be
        published keeps no other from it: what is wrong with the first is raised in the end."""
        published, last, wrong = 0, -1, list[QuarterdeckError]()
        while rows := await self._database.read(
            lambda connection, last=last: staged_segments(connection, last, _PUBLISHED_MAX)
        ):
            by_folder: dict[str, list[str]] = {}
            last = rows[-1][0]
            for _, folder, place in rows:
                by_folder.setdefault(folder, []).append(place)
            for folder, staged in by_folder.items():
                try:
                    await publish(self._objects, self._lake_url, folder, staged, self._listed)
                except QuarterdeckError as error:
                    wrong.append(error)
                    continue
                await self._database.run(lambda connection, staged=staged: mark_published(connection, staged))
                published += len(staged)
        if wrong:
            raise wrong[0]
        return published

    async def collect(self) -> int:
        """One round; how many objects were removed. One that cannot be removed keeps no other from it: what is wrong
        with the first is raised in the end."""
        if not self._grace_s:
            return 0
        published_since: dict[str, float] = {}
        parts: list[_Orphan] = []
        segments: dict[str, list[_Orphan]] = {}
        seen: set[str] = set()
        base = segment_url(self._lake_url, "")
        async for batch in self._objects.list_all(self._lake_url):
            for orphan in await self._orphans(base, batch, seen, published_since):
                line = parts if orphan.kind is not PlaceKind.PUBLISHED else segments.setdefault(orphan.folder, [])
                if len(line) < _REMOVED_MAX:
                    line.append(orphan)
        orphans = parts + [orphan for folder in seen for orphan in segments.get(folder, ())]
        self._published_since = published_since
        removed, wrong = 0, list[QuarterdeckError]()
        for orphan in orphans[:_REMOVED_MAX]:
            try:
                await self._objects.delete(
                    segment_url(self._lake_url, orphan.place), empty_folders=places.folders_of_run(orphan.place)
                )
            except QuarterdeckError as error:
                wrong.append(error)
                continue
            self._metrics.removed[_KINDS[orphan.kind]].inc()
            self._metrics.removed_bytes.inc(orphan.size_bytes)
            removed += 1
        if removed:
            _log.info("orphans in the lake were removed", objects=removed)
        if wrong:
            raise wrong[0]
        return removed

    async def _orphans(
        self, base: str, batch: Sequence[ListedObject], seen: set[str], published_since: dict[str, float]
    ) -> list[_Orphan]:
        """Of some objects those that nobody needs. `seen` gets the folders of tenants that have a listed one,
        `published_since` the staged ones that are published."""
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
            if kind is PlaceKind.STAGED and final in listed:
                since_s = published_since[place] = self._published_since.get(place, now_s)
                is_over = now_s - since_s >= self._linger_s
            else:
                is_over = now_s - each.modified_s >= self._grace_s
            if is_over:
                orphans.append(_Orphan(place, kind, each.size_bytes))
        return orphans

    async def _listed(self, asked: Sequence[str]) -> set[str]:
        return await self._database.read(lambda connection: listed_among(connection, asked))
