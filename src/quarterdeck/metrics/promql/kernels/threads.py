"""`Threads`: runs a kernel over the series of a block on a few threads.

The series are cut into contiguous parts of about equal work. A part takes some milliseconds: between parts a caller
can stop, and a thread that is done early takes the next one. What a part writes is its own rows, so that the result
does not depend on the number of threads or on their order.
"""

import bisect
import contextlib
import copy
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import I64

INLINE_WORK: Final = 50_000
"""Samples and cells below which handing work to a thread costs more than it saves."""
PART_WORK: Final = 500_000
"""Samples and cells in a part. One takes from 2 to 30 ns, hence a part some milliseconds."""


class Stopped(Exception):
    """The caller asked to stop; what has been computed so far is worth nothing."""


class Threads:
    """A pool of `count` threads. The thread that calls is one of them: with a count of one there is no other."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"a pool needs one thread or more, not {count}")
        self.count: Final = count
        self._pool: Final = ThreadPoolExecutor(count - 1, "promql-kernel") if count > 1 else None
        self._should_stop: Callable[[], bool] | None = None
        self._closed: Final = threading.Event()

    def close(self) -> None:
        """End the threads, when what they run now is done; who calls `run` from then on is told to stop."""
        self._closed.set()
        if self._pool is not None:
            self._pool.shutdown()

    @property
    def is_closed(self) -> bool:
        """Whether nothing is run any more."""
        return self._closed.is_set()

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def until(self, should_stop: Callable[[], bool]) -> "Threads":
        """The same threads, for one caller whose every `run` asks this. Close the pool itself, not this."""
        if self.is_closed:
            raise Stopped
        threads = copy.copy(self)
        threads._should_stop = should_stop  # noqa: SLF001 - of its own class
        return threads

    def run(
        self,
        offsets: I64,
        cells_per_series: int,
        part: Callable[[int, int], None],
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        """Call `part(low, high)` for ranges of series that together are all of them.

        `offsets` are those of the block; a cell that takes as long as many samples counts as many. Raises `Stopped`
        when `should_stop` says so before a part or the pool is closed, and what a part raises; no part runs any more
        when this returns.
        """
        if self.is_closed:
            raise Stopped
        work = work_of(offsets, cells_per_series)
        parts = 1 if work < INLINE_WORK else max(-(-work // PART_WORK), self.count)
        cuts = cut(offsets, cells_per_series, parts)
        queue = _Work(cuts, part, should_stop or self._should_stop)
        helpers = min(self.count, len(cuts) - 1) - 1
        if self._pool is None or helpers < 1:
            queue.take_parts()
        else:
            helping: list[Future[None]] = []
            # If the pool is closed just now, the thread that calls does what is left of this.
            with contextlib.suppress(RuntimeError):
                helping.extend(self._pool.submit(queue.take_parts) for _ in range(helpers))
            queue.take_parts()
            for future in helping:
                # One that another caller's work still keeps waiting has nothing left to do here.
                if not future.cancel():
                    future.result()
        queue.raise_failure()


def work_of(offsets: I64, cells_per_series: int) -> int:
    """Samples read and cells written."""
    return int(offsets[-1] - offsets[0]) + (len(offsets) - 1) * cells_per_series


def cut(offsets: I64, cells_per_series: int, parts: int) -> list[int]:
    """Where the parts begin, and the end of the last: of about equal work, and none without a series."""
    series = len(offsets) - 1
    if parts <= 1 or series <= 1:
        return [0, series] if series else [0]
    before: list[int] = (offsets + cells_per_series * np.arange(series + 1, dtype=np.int64)).tolist()
    whole = before[-1] - before[0]
    targets = (before[0] + whole * part // parts for part in range(parts + 1))
    return sorted({0, series, *(bisect.bisect_left(before, target) for target in targets)})


class _Work:
    """The parts of one call, and who stopped it."""

    def __init__(
        self, cuts: list[int], part: Callable[[int, int], None], should_stop: Callable[[], bool] | None
    ) -> None:
        self._parts: Final = list(itertools.pairwise(cuts))
        self._part: Final = part
        self._should_stop: Final = should_stop
        self._lock: Final = threading.Lock()
        self._next: int = 0
        self._failure: BaseException | None = None

    def take_parts(self) -> None:
        """Run parts until there are none, or one has failed."""
        while True:
            with self._lock:
                if self._failure is not None or self._next == len(self._parts):
                    return
                low, high = self._parts[self._next]
                self._next += 1
            try:
                if self._should_stop is not None and self._should_stop():
                    raise Stopped
                self._part(low, high)
            except BaseException as failure:  # noqa: BLE001 - it is raised again by the thread that called
                with self._lock:
                    self._failure = self._failure or failure
                return

    def raise_failure(self) -> None:
        """Raise what stopped the work, if anything did. Once: the failure leads to this work, so that a work which kept
        it would be a cycle, with all that its parts have in hand."""
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure
