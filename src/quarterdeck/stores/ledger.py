"""What is used, what is about to go, and what has to go so that more fits.

Pure: it counts bytes and picks entries, and knows no file, lock, clock or file system. `disk.py` has the lock.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from quarterdeck.stores.limits import DiskLimits, Owner
from quarterdeck.stores.shelf import ALL_STANDINGS, Entry, Shelf, Standing

if TYPE_CHECKING:
    from quarterdeck.stores.growing_file import GrowingFile
    from quarterdeck.stores.room import Room

_AT_ONCE = 64
"""How many entries are picked at once: the caller holds a lock."""

_UNWANTED: Final = tuple(standing for standing in ALL_STANDINGS if standing is not Standing.WANTED)
_MAY_EVICT: Final = {
    Owner.ARTIFACTS: ALL_STANDINGS,
    # An input that can be downloaded again is not worth a result that is waited for.
    Owner.CACHE: _UNWANTED,
    # One query is not worth more than another.
    Owner.TEMPORARY: _UNWANTED,
}


class Missing(NamedTuple):
    """How many bytes are to be freed before a reservation fits."""

    any_bytes: int
    """Whosever."""
    cached_bytes: int
    """Of the cache's own."""


NOTHING: Final = Missing(0, 0)


class Account:
    """One owner's bytes."""

    __slots__ = ("leaving_bytes", "used_bytes")

    def __init__(self) -> None:
        self.used_bytes = 0
        """Entries, reservations, and what is leaving."""
        self.leaving_bytes = 0
        """What is being deleted right now."""


class Ledger:
    """The accounts of all owners, and the shelf with what is there."""

    def __init__(self, limits: DiskLimits) -> None:
        self.limits: Final = limits
        self.cache: Final = Account()
        self.artifacts: Final = Account()
        self.temporary: Final = Account()
        self.shelf: Final = Shelf()

    def account(self, owner: Owner) -> Account:
        match owner:
            case Owner.CACHE:
                return self.cache
            case Owner.ARTIFACTS:
                return self.artifacts
            case Owner.TEMPORARY:
                return self.temporary

    @property
    def used_bytes(self) -> int:
        return self.cache.used_bytes + self.artifacts.used_bytes + self.temporary.used_bytes

    @property
    def leaving_bytes(self) -> int:
        return self.cache.leaving_bytes + self.artifacts.leaving_bytes + self.temporary.leaving_bytes

    def missing(self, owner: Owner, amount_bytes: int, free_bytes: int | None) -> Missing:
        """What more of it does not fit. `free_bytes` is what the file system has to give; None when it need not give
        anything, because the bytes are there already."""
        any_bytes = self.used_bytes + amount_bytes - self.limits.limit_bytes
        if free_bytes is not None:
            any_bytes = max(any_bytes, amount_bytes - free_bytes)
        cached_bytes = 0
        if owner is Owner.CACHE:
            cached_bytes = self.cache.used_bytes + amount_bytes - self.limits.cache_limit_bytes
        if any_bytes <= 0 and cached_bytes <= 0:
            return NOTHING
        return Missing(max(0, any_bytes), max(0, cached_bytes))

    def could_free(self, owner: Owner, missing: Missing) -> bool:
        """Whether eviction can help; if not, nothing should be evicted in vain."""
        any_bytes = self.shelf.spare_bytes(_MAY_EVICT[owner]) + self.leaving_bytes
        cached_bytes = self.shelf.spare_bytes((Standing.CACHED,)) + self.cache.leaving_bytes
        return missing.any_bytes <= any_bytes and missing.cached_bytes <= cached_bytes

    def is_above_high(self, pending_bytes: int) -> bool:
        """Whether room is to be made, with what is not counted in yet."""
        return self.used_bytes - self.leaving_bytes + pending_bytes > self.limits.high_bytes

    def pick(self, owner: Owner, missing: Missing, pending_bytes: int, *, to_low: bool) -> list[Entry]:
        """Takes off the shelf what has to leave besides what is leaving already: enough for what is missing and, if
        asked, down to the low watermark. It takes some at a time, and none if that is enough or there are no more."""
        any_bytes = missing.any_bytes - self.leaving_bytes
        if to_low:
            excess_bytes = self.used_bytes - self.leaving_bytes + pending_bytes - self.limits.low_bytes
            any_bytes = max(any_bytes, excess_bytes)
        cached_bytes = missing.cached_bytes - self.cache.leaving_bytes
        if any_bytes <= 0 and cached_bytes <= 0:
            return []
        victims = self.shelf.take_victims(_MAY_EVICT[owner], any_bytes, cached_bytes, _AT_ONCE)
        for entry in victims:
            self.account(entry.owner).leaving_bytes += entry.size_bytes
        return victims

    def check_invariants(self, present: Iterable[Entry], growing: Iterable["GrowingFile | Room"]) -> None:
        """What is counted is what is there and what is reserved, within the limits; raises `AssertionError`."""
        there_bytes = dict.fromkeys(Owner, 0)
        spare_bytes = 0
        for entry in present:
            there_bytes[entry.owner] += entry.size_bytes
            on_shelf = self.shelf.has(entry)
            assert entry.pins >= 0, f"{entry.key} was let go too often"
            assert not (entry.removed and on_shelf), f"{entry.key} was removed and could still be found"
            spare_bytes += entry.size_bytes if on_shelf and not entry.pins else 0
        for file in growing:
            there_bytes[file.owner] += file.reserved_bytes
            assert file.size_bytes <= file.reserved_bytes, f"{file.key} is larger than what was reserved for it"
        for owner in Owner:
            account = self.account(owner)
            assert account.used_bytes == there_bytes[owner], f"{owner}: {account.used_bytes}, not {there_bytes[owner]}"
            assert 0 <= account.leaving_bytes <= account.used_bytes
        assert self.shelf.spare_bytes(ALL_STANDINGS) == spare_bytes
        assert self.used_bytes <= self.limits.limit_bytes, "above the limit"
        assert self.cache.used_bytes <= self.limits.cache_limit_bytes, "the cache is in the artifact floor"
