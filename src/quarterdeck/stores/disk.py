"""One budget for everything that a process keeps on its disk: artifacts, cached files, and what queries put aside.

It owns the accounting and the files' deletion. Rules:

- Files and reservations together never exceed the limit. If room cannot be made for something, it is refused with
  `DiskFullError`.
- Above the high watermark, room is made down to the low one, in the order of `Standing`: cached files, acknowledged
  artifacts, expired artifacts, wanted ones. Within a standing the longest unused goes first. A file that grows or is
  pinned never goes.
- The cache may use at most the limit less the artifact floor. It yields first, and no wanted artifact is given up for
  it.
- Whenever space is reserved, the file system's own free space is checked, and what has to stay free stays free.
- What a query puts aside is never deleted by the budget. No wanted artifact is given up for it.
- A file counts until it is deleted. Files are deleted outside the lock, so that nobody who holds it waits for a disk.

Any thread may call all of it. It must not know what a key means.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from quarterdeck.stores.disk_full import DiskFullError, refused
from quarterdeck.stores.growing_file import PART_SUFFIX, GrowingFile
from quarterdeck.stores.ledger import NOTHING, Ledger, Missing
from quarterdeck.stores.limits import DiskFigures, DiskLimits, Owner
from quarterdeck.stores.room import Room
from quarterdeck.stores.shelf import ALL_STANDINGS, Entry, Pin, Standing
from quarterdeck.telemetry.logs import get_logger

__all__ = [
    "PART_SUFFIX",
    "DiskBudget",
    "DiskFigures",
    "DiskFullError",
    "DiskLimits",
    "GrowingFile",
    "Owner",
    "Pin",
    "Room",
]

_FIRST_STEP_BYTES = 64 * 1024
"""A file gets this much at first, and then as much again as it has, up to the step of the limits: many small artifacts
at once must not reserve the whole budget."""

_log = get_logger(__name__)


def _nobody_listens(owner: Owner, key: str) -> None:
    pass


class DiskBudget:
    """See the module. `on_evicted` is called after a file was evicted (not for one that was removed), from the thread
    that needed the room, with no lock held."""

    def __init__(
        self,
        folder: Path,
        limits: DiskLimits,
        *,
        clock: Callable[[], float] = time.monotonic,
        free_bytes: Callable[[], int] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder: Final = folder
        self.limits: Final = limits
        self.clock: Final = clock
        self.on_evicted: Callable[[Owner, str], None] = _nobody_listens
        self._folder_name: Final = str(folder)
        self._free_bytes: Final = free_bytes or self._ask_file_system
        self._lock: Final = threading.Lock()
        self._gone: Final = threading.Condition(self._lock)
        """Told of every file that was deleted."""
        self._ledger: Final = Ledger(limits)
        self._entries: Final[dict[str, Entry]] = {}
        self._leaving: Final[dict[str, Entry]] = {}
        """Being deleted, or removed and still in use: not to be found any more, and still on the disk."""
        self._growing: Final[dict[str, GrowingFile]] = {}
        self._rooms: Final[set[Room]] = set()
        self._returned: Final[deque[Room]] = deque()
        """Rooms that are to be counted out. It is added to without the lock."""

    # Files come and go

    def create(self, owner: Owner, key: str, path: Path, *, expected_bytes: int = 0) -> GrowingFile:
        """Begins a file. What it is expected to need, if that is known, is reserved at once."""
        file = GrowingFile(self, owner, key, path)
        with self._lock:
            self._claim(key)
            self._growing[key] = file
        try:
            if expected_bytes:
                self.reserve(file, expected_bytes)
            file.open()
        except BaseException:
            with self._lock:
                self._stop_growing(file)
            raise
        return file

    def room(self, owner: Owner, key: str) -> Room:
        """For what is written past the budget; `key` names it in errors. It has no bytes yet."""
        room = Room(owner, key, self._enlarge, self._returned)
        with self._lock:
            self._rooms.add(room)
        return room

    def adopt(self, owner: Owner, key: str, path: Path, last_used: float) -> None:
        """Adds a whole file that was found at the start; `last_used` is by the budget's clock. If there is no room for
        it, this raises `DiskFullError`, and nobody counts the file."""
        size_bytes = path.stat().st_size
        with self._lock:
            self._claim(key)
        self._acquire(owner, key, size_bytes, size_bytes, None)
        with self._lock:
            try:
                self._claim(key)
            except ValueError:  # another thread was faster
                self._ledger.account(owner).used_bytes -= size_bytes
                raise
            self._add(Entry(owner, key, path, size_bytes, _first_standing(owner), last_used))

    def remove(self, key: str) -> None:
        """Deletes the file, at once or when nobody uses it any more; a key that is not there is fine."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is None:
                return
            self._ledger.shelf.take(entry)
            self._leaving[key] = entry
            if entry.pins:
                entry.removed = True
                return
            self._ledger.account(entry.owner).leaving_bytes += entry.size_bytes
        self._delete(entry)

    # Their standing

    def acknowledge(self, key: str) -> None:
        """Nobody waits for this artifact any more. A key that is not there is fine: it may have been evicted."""
        self._demote(key, Standing.ACKNOWLEDGED)

    def expire(self, key: str) -> None:
        """This artifact is past its time to live. A key that is not there is fine: it may have been evicted."""
        self._demote(key, Standing.EXPIRED)

    def touch(self, key: str) -> None:
        """A cached file was used. A key that is not there is fine: it may have been evicted."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._used(entry)

    def __contains__(self, key: str) -> bool:
        """Whether it is here now; the next moment it may have been evicted."""
        return key in self._entries

    def pin(self, key: str) -> Pin:
        """Keeps it from being evicted until the pin is released; `KeyError` if it is not there. It counts as a use."""
        with self._lock:
            return self._pin(self._entries[key])

    @contextmanager
    def pinned(self, key: str) -> Generator[Path]:
        """As `pin`, for a block."""
        pin = self.pin(key)
        try:
            yield pin.path
        finally:
            pin.release()

    def figures(self) -> DiskFigures:
        """Costs nothing but a look at the file system."""
        with self._lock:
            self._take_back()
            return self._figures()

    def check_invariants(self) -> None:
        """Raises `AssertionError` when the books are wrong; for tests. Not O(1). What could not be deleted counts, and
        is in no book: then they differ."""
        with self._lock:
            present = [*self._entries.values(), *self._leaving.values()]
            self._take_back()
            self._ledger.check_invariants(present, [*self._growing.values(), *self._rooms])

    # What growing files ask for

    def reserve(self, file: GrowingFile, needed_bytes: int) -> None:
        """More room for a file, in a step if there is room for a step."""
        step_bytes = min(self.limits.step_bytes, max(_FIRST_STEP_BYTES, file.size_bytes))
        self._acquire(file.owner, file.key, needed_bytes, max(needed_bytes, step_bytes), file)

    def settle(self, file: GrowingFile, path: Path) -> None:
        """A file is whole and at its path: from a reservation it becomes an entry."""
        with self._lock:
            self._enter(file, path)

    def settle_pinned(self, file: GrowingFile, path: Path) -> Pin:
        with self._lock:
            return self._pin(self._enter(file, path))

    def discard(self, file: GrowingFile, part: str) -> None:
        """A file is abandoned: it is deleted and its space given back."""
        deleted = _unlink(part)
        with self._lock:
            self._stop_growing(file)
            if not deleted:
                self._ledger.account(file.owner).used_bytes += file.size_bytes

    # Room

    def _acquire(
        self, owner: Owner, key: str, needed_bytes: int, wished_bytes: int, file: GrowingFile | Room | None
    ) -> None:
        """Counts in what is wished, or at least what is needed, making room for it. Without a file the bytes are on the
        disk already."""
        missing = NOTHING
        granted = draining = False
        while True:
            with self._lock:
                if not granted:
                    missing = self._grant(owner, needed_bytes, wished_bytes, file)
                    granted = missing is NOTHING
                    if not granted and not self._ledger.could_free(owner, missing):
                        raise refused(owner, key, needed_bytes, self._figures(), self.limits, self.folder)
                pending_bytes = 0 if granted else needed_bytes
                draining = draining or self._ledger.is_above_high(pending_bytes)
                if granted and not draining:
                    return
                victims = self._ledger.pick(owner, missing, pending_bytes, to_low=draining)
                for entry in victims:
                    self._leaving[entry.key] = self._entries.pop(entry.key)
                if granted and not victims:
                    return
                if not victims:
                    self._gone.wait()  # for files that other threads delete: each of them tells when it is done
            self._evict(victims)

    def _enlarge(self, room: Room, more_bytes: int) -> None:
        self._acquire(room.owner, room.key, more_bytes, more_bytes, room)

    def _evict(self, victims: list[Entry]) -> None:
        with ExitStack() as steps:  # the last comes first; and whatever one of them raises, the others are taken
            for entry in reversed(victims):
                steps.callback(self.on_evicted, entry.owner, entry.key)
            for entry in reversed(victims):
                steps.callback(self._delete, entry)

    def _delete(self, entry: Entry) -> None:
        deleted = False
        try:
            deleted = _unlink(entry.path)
        finally:  # somebody may be waiting for it
            with self._lock:
                del self._leaving[entry.key]
                account = self._ledger.account(entry.owner)
                account.leaving_bytes -= entry.size_bytes
                if deleted:
                    account.used_bytes -= entry.size_bytes
                self._gone.notify_all()

    # Under the lock

    def _grant(self, owner: Owner, needed_bytes: int, wished_bytes: int, file: GrowingFile | Room | None) -> Missing:
        """Counts it in, or says what is missing."""
        self._take_back()
        free_bytes = None
        if file is not None:
            # What is reserved and not yet written is free to the file system, and not to us.
            unwritten_bytes = sum([growing.reserved_bytes - growing.size_bytes for growing in self._growing.values()])
            unwritten_bytes += sum([room.reserved_bytes - room.size_bytes for room in self._rooms])
            free_bytes = self._free_bytes() - self.limits.keep_free_bytes - unwritten_bytes
        amount_bytes = wished_bytes
        missing = self._ledger.missing(owner, amount_bytes, free_bytes)
        if missing is not NOTHING:
            amount_bytes = needed_bytes
            missing = self._ledger.missing(owner, amount_bytes, free_bytes)
        if missing is NOTHING:
            self._ledger.account(owner).used_bytes += amount_bytes
            if file is not None:
                file.reserved_bytes += amount_bytes
        return missing

    def _claim(self, key: str) -> None:
        """A key is used once at a time; one whose file is being deleted is free when that is done."""
        while (leaving := self._leaving.get(key)) is not None and not leaving.removed:
            self._gone.wait()
        if key in self._entries or key in self._growing or key in self._leaving:
            raise ValueError(f"{key} is there already; remove it first, and let go of it")

    def _enter(self, file: GrowingFile, path: Path) -> Entry:
        self._stop_growing(file)
        self._ledger.account(file.owner).used_bytes += file.size_bytes
        entry = Entry(file.owner, file.key, path, file.size_bytes, _first_standing(file.owner), self.clock())
        self._add(entry)
        return entry

    def _add(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._ledger.shelf.put(entry)

    def _stop_growing(self, file: GrowingFile) -> None:
        del self._growing[file.key]
        self._ledger.account(file.owner).used_bytes -= file.reserved_bytes

    def _take_back(self) -> None:
        """Counts out what was given back without the lock."""
        while self._returned:
            room = self._returned.popleft()
            if room in self._rooms:
                self._rooms.remove(room)
                self._ledger.account(room.owner).used_bytes -= room.reserved_bytes

    def _used(self, entry: Entry) -> None:
        if entry.owner is Owner.CACHE:
            self._ledger.shelf.use(entry, self.clock())

    def _pin(self, entry: Entry) -> Pin:
        self._ledger.shelf.pin(entry)
        self._used(entry)
        return Pin(entry, self._unpin)

    def _figures(self) -> DiskFigures:
        ledger = self._ledger
        return DiskFigures(
            self.limits.limit_bytes,
            ledger.artifacts.used_bytes,
            ledger.cache.used_bytes,
            ledger.temporary.used_bytes,
            self._free_bytes(),
        )

    # Taking it

    def _demote(self, key: str, standing: Standing) -> None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return
            if entry.owner is not Owner.ARTIFACTS:
                raise ValueError(f"{key} is no artifact: only an artifact is {standing}")
            if ALL_STANDINGS.index(standing) < ALL_STANDINGS.index(entry.standing):
                self._ledger.shelf.move(entry, standing, self.clock())

    def _unpin(self, entry: Entry) -> None:
        with self._lock:
            if not entry.removed:
                self._ledger.shelf.unpin(entry)
                self._used(entry)
                return
            entry.pins -= 1
            if entry.pins:
                return
            entry.removed = False
            self._ledger.account(entry.owner).leaving_bytes += entry.size_bytes
        self._delete(entry)

    def _ask_file_system(self) -> int:
        found = os.statvfs(self._folder_name)
        return found.f_bavail * found.f_frsize


def _first_standing(owner: Owner) -> Standing:
    return Standing.CACHED if owner is Owner.CACHE else Standing.WANTED


def _unlink(path: Path | str) -> bool:
    """Whether it is gone. A file that cannot be deleted goes on being counted, because it is there."""
    try:
        os.unlink(path)  # noqa: PTH108 - every path object costs as much as a system call
    except FileNotFoundError:
        return True
    except OSError as error:
        _log.error("a file cannot be deleted and goes on taking its space", path=str(path), error=str(error))
        return False
    return True
