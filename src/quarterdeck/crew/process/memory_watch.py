"""What a process really takes, looked at a few times a second, in a thread of its own: a stalled event loop takes
memory too.

Close to what it may take, it first gives back what can be had for nothing (memory that the allocator keeps, then caches
and garbage), then nobody may become heavy, and then the largest goes; see `memory_budget`. Nobody is refused or ended
for memory that is free already. When nothing runs, what queries have freed goes back to the system. While queries come
one after the other, and there is room, it stays, since they would ask for it again.

What a process takes when nothing runs is not the queries' to use: the budget has what is left beside it.
"""

import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from quarterdeck.crew.process.memory_budget import HEAVY_BYTES, MemoryBudget
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_INTERVAL_S: Final = 0.25
_IDLE_LOOKS: Final = 8
"""For two seconds nothing has run: whoever asks again and again comes back sooner."""
_TRIM_LOOKS: Final = 4
"""A second lies between two times that freed memory goes back while memory is short: queries ask for it again."""
_RELIEF_LOOKS: Final = 40
"""Ten seconds lie between two collections, of which each may take a tenth of one."""
_SHORT_SHARE: Final = 0.8
_FULL_SHARE: Final = 0.9
"""Of what the process may take. Accounts are estimates, and a query ends some milliseconds after it was told to."""
_WORTH_BYTES: Final = 64 << 20
"""Less than this is not given back: the allocator is asked to keep as much."""
_LEAST_BYTES: Final = HEAVY_BYTES
"""What queries may take however little there is: a limit below what an idle process takes cannot be kept."""

_STATM: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    """What this process has in memory now; 0 where the system does not tell."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    import resource  # noqa: PLC0415 - where /proc is, it is too

    return pages * resource.getpagesize()


class MemoryWatch:
    """Use it as a context when the process is ready, or call `look` yourself."""

    def __init__(
        self,
        budget: MemoryBudget,
        limit_bytes: int,
        *,
        trim: Callable[[], object],
        caches: Sequence[Callable[[], object]] = (),
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        """`limit_bytes` is what the process may take altogether. `trim` gives freed memory back to the system; each of
        `caches` lets go of what can be had again."""
        self._budget: Final = budget
        self._limit_bytes: Final = limit_bytes
        self._trim: Final = trim
        self._caches: Final = tuple(caches)
        self._resident: Final = resident
        self._idle_bytes: int = resident()
        """What it takes when nothing runs."""
        self._idle_looks: int = 0
        self._looks_since_trim: int = _TRIM_LOOKS
        self._looks_since_relief: int = _RELIEF_LOOKS
        self._left_bytes: int = 0
        """What the last relief left: without much more, another one would free nothing."""
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._watch, name="watch memory", daemon=True)
        self._share_out()

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Does what is to be done at this moment."""
        self._looks_since_relief += 1
        self._looks_since_trim += 1
        now_bytes = self._resident()
        if now_bytes > self._full_bytes:
            now_bytes = self._relieve(now_bytes)
        if self._is_short(now_bytes) and self._looks_since_trim >= _TRIM_LOOKS:
            now_bytes = self._trimmed()
        if self._must_end(now_bytes) and self._looks_since_trim:
            now_bytes = self._trimmed()
        self._budget.is_short = self._is_short(now_bytes)
        if self._must_end(now_bytes):
            taken, most = now_bytes >> 20, self._limit_bytes >> 20
            self._budget.end_largest(f"the process takes {taken:,} MiB of the {most:,} MiB that it may")
        self._settle(now_bytes)

    @property
    def _full_bytes(self) -> float:
        return _FULL_SHARE * self._limit_bytes

    def _is_short(self, now_bytes: int) -> bool:
        return now_bytes > _SHORT_SHARE * self._limit_bytes and self._is_ours(now_bytes)

    def _must_end(self, now_bytes: int) -> bool:
        """One at a time, unless what is about to be free is not enough."""
        return now_bytes - self._budget.ending_bytes > self._full_bytes and self._is_ours(now_bytes)

    def _is_ours(self, now_bytes: int) -> bool:
        """Whether queries have to do with it: an idle process may take more than its limit all by itself."""
        return now_bytes > self._idle_bytes + _LEAST_BYTES

    def _trimmed(self) -> int:
        """What the process takes when what is free has gone back."""
        self._looks_since_trim = 0
        self._trim()
        return self._resident()

    def _relieve(self, now_bytes: int) -> int:
        """Gives back what costs nobody an answer; what the process takes then."""
        if self._looks_since_relief < _RELIEF_LOOKS or now_bytes < self._left_bytes + _WORTH_BYTES:
            return now_bytes
        self._looks_since_relief = 0
        for let_go in self._caches:
            let_go()
        gc.collect()
        self._left_bytes = self._trimmed()
        _log.info("memory was given back", before_bytes=now_bytes, after_bytes=self._left_bytes)
        return self._left_bytes

    def _settle(self, now_bytes: int) -> None:
        """When nothing has run for a while, what the queries before have left goes back."""
        self._idle_looks = self._idle_looks + 1 if self._budget.is_idle else 0
        if not self._idle_looks:
            return
        if now_bytes < self._idle_bytes:
            self._idle_bytes = now_bytes
            self._share_out()
        elif self._idle_looks >= _IDLE_LOOKS and now_bytes > self._idle_bytes + _WORTH_BYTES:
            self._idle_looks = 0
            self._trim()
            now_bytes = self._resident()
            if now_bytes > self._idle_bytes + _WORTH_BYTES:
                if self._looks_since_relief < _RELIEF_LOOKS:
                    return  # it may be garbage: only what a collection leaves is the idle process's own
                self._looks_since_relief = 0
                gc.collect()
                self._trim()
                now_bytes = self._resident()
            self._idle_bytes = now_bytes
            self._share_out()

    def _share_out(self) -> None:
        self._budget.limit_bytes = max(_LEAST_BYTES, round(self._full_bytes) - self._idle_bytes)
