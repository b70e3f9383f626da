"""Where sources may be: folders and buckets below which a caller may name files, if it is not the user who runs the
process.

A local path is judged where it really is: a link below a root that leads out of it does not help.
"""

import os
from collections.abc import Iterable
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.gate import Caller
from quarterdeck.stores.globs import has_wildcard
from quarterdeck.stores.locations import Location, parse_location
from quarterdeck.stores.threads import finish_in_thread


class SourceRoots:
    def __init__(self, roots: Iterable[str]) -> None:
        self._texts: Final = tuple(roots)
        self._roots: Final = tuple(parse_location(root) for root in self._texts)

    async def insist_for(self, caller: Caller, sources: Iterable[str]) -> None:
        """The same for whoever asks: the user who runs this process may read what it can read."""
        if not caller.is_this_user:
            await finish_in_thread(lambda: self.insist(sources))  # a path is looked at on the disk

    def insist(self, sources: Iterable[str]) -> None:
        """Raises PERMISSION_DENIED for a file, folder or glob that is not below one of the roots."""
        for source in sources:
            if not any(_is_below(_fixed(parse_location(source)), root) for root in self._roots):
                raise self._refusal(source)

    def _refusal(self, source: str) -> QuarterdeckError:
        allowed = ", ".join(self._texts) or "none"
        return QuarterdeckError(
            ErrorCode.PERMISSION_DENIED,
            f"{source} may not be read",
            f"it is outside of what source_roots allows here ({allowed})",
            "ask for something below these, or have whoever runs this process add its folder or bucket to source_roots",
        )


def _fixed(location: Location) -> Location:
    """Without what begins with the first wildcard."""
    segments = location.key.split("/")
    for number, segment in enumerate(segments):
        if has_wildcard(segment):
            return Location(location.bucket, "/".join(segments[:number]))
    return location


def _is_below(location: Location, root: Location) -> bool:
    if location.bucket != root.bucket:
        return False
    key, above = location.key, root.key
    if location.bucket is None:
        key, above = (os.path.realpath(f"/{each}").strip("/") for each in (key, above))
    return not above or key == above or key.startswith(f"{above}/")
