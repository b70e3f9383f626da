"""`over_columns`: runs a kernel over ranges of steps, on a few threads.

A group's rows lie anywhere, so rows cannot be shared out. Steps can: each thread takes some columns of every row, and
the result has the same bits for any number of threads. It pays for kernels that take ten nanoseconds or so for a cell.
Those that add up take one, and wait for memory, which they read fastest as it lies: two threads with half a row each
were measured to take twice as long as one with all, so these have none.
"""

from collections.abc import Callable

import numpy as np

from quarterdeck.metrics.promql.kernels.threads import Threads


def over_columns(rows: int, steps: int, part: Callable[[int, int], None], threads: Threads | None) -> None:
    """Call `part(low, high)` for ranges of steps that together are all of them. Without threads: one range."""
    if threads is None:
        part(0, steps)
    else:
        # To `Threads` a column is what a series is elsewhere, and a row one of its samples.
        threads.run(np.arange(steps + 1, dtype=np.int64) * max(rows, 1), 0, part)
