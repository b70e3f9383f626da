"""Publishing an import: its segments go from where they were staged to where people look for Parquet files.

The catalog lists them staged, then they are published, then the catalog lists them there. So at every moment what the
catalog lists is in the lake, and what is published is listed. Whoever is killed in between leaves it to the next who
publishes; to do it twice, or both at once, changes nothing. The staged ones stay for queries that have begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from quarterdeck.metrics import places
from quarterdeck.metrics.catalog import segment_url
from quarterdeck.metrics.places import PlaceKind
from quarterdeck.stores.objects import ObjectStores

_AT_ONCE: Final = 8

Listed = Callable[[Sequence[str]], Awaitable[set[str]]]
"""Where the catalog lists those of some segments that it lists, as `catalog.listed_among`."""


async def publish(objects: ObjectStores, lake_url: str, folder: str, staged: Iterable[str], listed: Listed) -> None:
    """Publishes segments of one import that the catalog lists as staged. Earlier versions of it go first, so that
    nobody finds the same samples twice; and those that were published while somebody replaced them go in the end."""
    await _remove_unlisted(objects, lake_url, folder, listed)
    left = iter(staged)

    async def copy_one_after_the_other() -> None:
        for place in left:
            final = places.published(place)
            if final is not None:
                await objects.copy(segment_url(lake_url, place), segment_url(lake_url, final))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(copy_one_after_the_other())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    await _remove_unlisted(objects, lake_url, folder, listed)


async def _remove_unlisted(objects: ObjectStores, lake_url: str, folder: str, listed: Listed) -> None:
    """What is published of this import and not listed. It was listed before it was published, and no name is used
    twice: so it will not be listed again. The catalog is read after the lake for that."""
    base = segment_url(lake_url, "")
    found = [
        place
        async for batch in objects.list_all(segment_url(lake_url, folder))
        for each in batch
        if places.kind_of(place := each.url.removeprefix(base)) is PlaceKind.PUBLISHED
    ]
    known = await listed(found) if found else set[str]()
    for place in found:
        if place not in known and places.staged(place) not in known:
            await objects.delete(segment_url(lake_url, place))
