"""Memory that one query frees is kept by the process for the next.

glibc gives large arrays back to the system as they are freed, and the system clears each of their pages when the next
query asks for them. Measured with a sum over 7.2 million samples: a third of a worker's processor time went into that.
What is kept at the end of the heap is bounded, and arrays larger than 32 MiB are given back as before. What is kept in
between is not: it goes back when nothing runs.
"""

import ctypes
import os
from typing import Any, Final

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none

_arrow: Any = pyarrow
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Names of malloc.h. Setting one also stops glibc from changing the other by itself."""
_LARGEST_KEPT_BYTES: Final = 32 << 20
"""The most that glibc takes."""
_KEPT_BYTES: Final = 64 << 20
_BY_HAND: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def use_one_allocator() -> None:
    """Arrow allocates as everything else does from now on, where Python asks it; what its C++ asks for by itself is set
    when the process begins, in `launching`. Its own allocator keeps what a thread has freed until that
    thread asks again: 250 MB after a wide query, which nobody could give back."""
    _arrow.set_memory_pool(_arrow.system_memory_pool())


def share_arenas(count: int = 2) -> None:
    """All threads allocate from so many heaps: what one has freed serves the others, and less lies idle in each. For a
    process whose threads take turns anyway. Those that have a heap of their own already keep it."""
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and not any(name in os.environ for name in (*_BY_HAND, "MALLOC_ARENA_MAX")):
        mallopt(_ARENA_MAX, count)


def keep_freed_memory() -> bool:
    """Whether it is so from now on: not where the C library is another one, or somebody has set it by hand."""
    if any(name in os.environ for name in _BY_HAND):
        return False
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))


def give_back_freed_memory() -> None:
    """What is kept goes back to the system: for when nothing runs. It takes a tenth of a second for some gigabytes, in
    which other threads go on."""
    malloc_trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
