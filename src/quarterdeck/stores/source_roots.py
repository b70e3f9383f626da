"""Folders and buckets below which a caller may name files, unless the caller is the user who runs the process.

A local path is judged by where it really is: a link below a root that leads out of it does not help, whether it was
named or found in a folder. Finding out where a path really is may hang, like any access to a file system, so it is done
where that harms nobody.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Protocol, TypeVar

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.gate import Caller
from quarterdeck.stores.globs import has_wildcard
from quarterdeck.stores.locations import Location, parse_location

ResultT = TypeVar("ResultT")

_AT_ONCE: Final = 200
"""Paths that one call looks at, so that each call is short."""


class Looker(Protocol):
    """What can look at local paths without harm when they hang; `ObjectStores` is one."""

    def by_mount(self, paths: Iterable[str]) -> Sequence[Sequence[str]]: ...

    def look(self, path: Path, work: Callable[[], ResultT], /) -> Awaitable[ResultT]: ...


@dataclass(frozen=True, slots=True)
class Border:
    """The roots as they are at the moment, for one request."""

    texts: tuple[str, ...]
    """As the setting names them."""
    places: tuple[Location, ...]
    """Where they are, as far as that had to be found out."""

    def insist(self, place: Location, shown: str) -> None:
        """Raises PERMISSION_DENIED for what is not below a root. Of a local file the place is where it really is."""
        if not any(_is_below(place, root) for root in self.places):
            raise self._refusal(shown)

    def insist_link(self, path: str) -> None:
        """The same for a link that was found in a folder. It blocks."""
        place = _real(path)
        roots = (_real(f"/{root.key}") for root in self.places if root.bucket is None)
        if not any(_is_below(place, root) for root in chain(self.places, roots)):
            raise self._refusal(path)

    def _refusal(self, source: str) -> QuarterdeckError:
        allowed = ", ".join(self.texts) or "none"
        return QuarterdeckError(
            ErrorCode.PERMISSION_DENIED,
            f"{source} may not be read",
            f"it is outside of what source_roots allows here ({allowed})",
            "ask for something below these, or ask this process's owner to add its folder or bucket to source_roots",
        )


class SourceRoots:
    def __init__(self, roots: Iterable[str]) -> None:
        self._texts: Final = tuple(roots)
        self._roots: Final = tuple(parse_location(root) for root in self._texts)

    async def insist_for(self, caller: Caller, sources: Iterable[str], looker: Looker) -> Border | None:
        """Raises PERMISSION_DENIED for a file, folder or glob that is not below one of the roots; what is found below
        folders and globs has to be within the border too. None: the user who runs this process may read what it
        can."""
        if caller.is_this_user:
            return None
        wanted = {source: _fixed(parse_location(source)) for source in sources}
        paths = [f"/{place.key}" for place in wanted.values() if place.bucket is None]
        real = await _real_places(looker, paths)
        border = await self._border(looker, needs_links=any(not self._is_plain(each) for each in real.values()))
        for source, place in wanted.items():
            border.insist(place if place.bucket is not None else real[f"/{place.key}"], source)
        return border

    def _is_plain(self, place: Location) -> bool:
        """Whether it is below a root as that is written: where the root's links lead need not be known."""
        return any(_is_below(place, root) for root in self._roots)

    async def _border(self, looker: Looker, *, needs_links: bool) -> Border:
        """Roots that cannot be looked at count as they are written."""
        paths = [f"/{root.key}" for root in self._roots if root.bucket is None]
        places = list(self._roots)
        for path in paths if needs_links else ():
            try:
                places.extend((await _real_places(looker, [path])).values())
            except QuarterdeckError:
                continue
        return Border(self._texts, tuple(places))


async def _real_places(looker: Looker, paths: Iterable[str]) -> dict[str, Location]:
    """Where paths really are."""
    found: dict[str, Location] = {}
    for group in looker.by_mount(paths):
        for start in range(0, len(group), _AT_ONCE):
            some = group[start : start + _AT_ONCE]
            found.update(
                zip(some, await looker.look(Path(some[0]), lambda some=some: [*map(_real, some)]), strict=True)
            )
    return found


def _real(path: str) -> Location:
    return Location(None, os.path.realpath(path).strip("/"))


def _fixed(location: Location) -> Location:
    """Without what begins with the first wildcard."""
    segments = location.key.split("/")
    for number, segment in enumerate(segments):
        if has_wildcard(segment):
            return Location(location.bucket, "/".join(segments[:number]))
    return location


def _is_below(place: Location, root: Location) -> bool:
    if place.bucket != root.bucket:
        return False
    return not root.key or place.key == root.key or place.key.startswith(f"{root.key}/")
