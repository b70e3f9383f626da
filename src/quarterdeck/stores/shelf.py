"""What is on the disk, in the order in which it is given up.

Pure: it knows no file, lock or clock. Pinned entries are skipped. Otherwise the standing decides, and within one
standing the longest unused entry goes first. No operation is linear in the number of entries, except one sort after
entries were added out of order.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from quarterdeck.stores.limits import Owner


class Standing(StrEnum):
    """What an entry is worth, the least first: this order is the order of eviction."""

    CACHED = "cached"
    """Can be downloaded again."""
    ACKNOWLEDGED = "acknowledged"
    """An artifact that was fetched."""
    EXPIRED = "expired"
    """An artifact nobody came for in time."""
    WANTED = "wanted"
    """An artifact that will be asked for: losing it costs an attempt."""


ALL_STANDINGS: Final = tuple(Standing)


@dataclass(slots=True, eq=False)
class Entry:
    """A whole file."""

    owner: Owner
    key: str
    path: Path
    size_bytes: int
    standing: Standing
    since_s: float
    """When it was last used, for a cached file; when it got its standing, for an artifact."""
    pins: int = 0
    """How many use it now."""
    removed: bool = False
    """To be deleted when nobody uses it any more."""


class Pin:
    """Keeps an entry where it is until it is released."""

    __slots__ = ("_entry", "_unpin", "path")

    def __init__(self, entry: Entry, unpin: Callable[[Entry], None]) -> None:
        self.path: Final = entry.path
        self._entry: Entry | None = entry
        self._unpin: Final = unpin

    def release(self) -> None:
        """Again is fine."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._unpin(entry)


class Shelf:
    """Entries that may be given up, those in use included."""

    def __init__(self) -> None:
        self._lines: dict[Standing, OrderedDict[str, Entry]] = {standing: OrderedDict() for standing in Standing}
        self._spare_bytes: dict[Standing, int] = dict.fromkeys(Standing, 0)
        self._unsorted: set[Standing] = set()

    def spare_bytes(self, standings: Iterable[Standing]) -> int:
        """What could be given up, of these."""
        return sum(self._spare_bytes[standing] for standing in standings)

    def has(self, entry: Entry) -> bool:
        return self._lines[entry.standing].get(entry.key) is entry

    def put(self, entry: Entry) -> None:
        line = self._lines[entry.standing]
        if line and entry.since_s < line[next(reversed(line))].since_s:
            self._unsorted.add(entry.standing)
        line[entry.key] = entry
        if not entry.pins:
            self._spare_bytes[entry.standing] += entry.size_bytes

    def take(self, entry: Entry) -> None:
        del self._lines[entry.standing][entry.key]
        if not entry.pins:
            self._spare_bytes[entry.standing] -= entry.size_bytes

    def pin(self, entry: Entry) -> None:
        if not entry.pins:
            self._spare_bytes[entry.standing] -= entry.size_bytes
        entry.pins += 1

    def unpin(self, entry: Entry) -> None:
        entry.pins -= 1
        if not entry.pins:
            self._spare_bytes[entry.standing] += entry.size_bytes

    def move(self, entry: Entry, standing: Standing, now_s: float) -> None:
        self.take(entry)
        entry.standing = standing
        entry.since_s = now_s
        self.put(entry)

    def use(self, entry: Entry, now_s: float) -> None:
        """Moves a cached file to the end of its line."""
        entry.since_s = now_s
        self._lines[entry.standing].move_to_end(entry.key)

    def take_victims(
        self, standings: Iterable[Standing], any_bytes: int, cached_bytes: int, at_most: int
    ) -> list[Entry]:
        """Takes off as many entries of these standings as make up `any_bytes`, including `cached_bytes` of cached ones.
        It takes fewer if there are no more, or if it would take more than `at_most`."""
        victims: list[Entry] = []
        freed_bytes = 0
        for standing in standings:
            goal_bytes = max(any_bytes, cached_bytes) if standing is Standing.CACHED else any_bytes
            if freed_bytes >= goal_bytes:
                continue
            for entry in self._sorted(standing).values():
                if freed_bytes >= goal_bytes or len(victims) >= at_most:
                    break
                if not entry.pins:
                    victims.append(entry)
                    freed_bytes += entry.size_bytes
        for entry in victims:
            self.take(entry)
        return victims

    def _sorted(self, standing: Standing) -> OrderedDict[str, Entry]:
        if standing in self._unsorted:
            self._unsorted.discard(standing)
            by_age = sorted(self._lines[standing].values(), key=lambda entry: entry.since_s)
            self._lines[standing] = OrderedDict((entry.key, entry) for entry in by_age)
        return self._lines[standing]
