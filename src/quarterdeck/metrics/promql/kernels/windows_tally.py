"""Which samples of a series are in the window, by rank: for large windows, and any number of them.

The samples are ranked once for a series. A window then is a set of ranks, and the n-th of its samples is found by
counting: there are counts for stretches of 16, 256 and 4096 ranks. To put a sample in or out takes the same time for
every size of window, and to find the n-th nearly so.
"""

from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.kernels.compile import part_of_kernel

_SIGN: Final = np.uint64(1 << 63)
_BYTE: Final = np.uint64(255)


@part_of_kernel
def stretches(size: int, shift: int) -> int:
    """How many stretches of 2 ** shift ranks there are."""
    return (size >> shift) + 1


@part_of_kernel
def rank(values: F64, first: int, past: int) -> tuple[I64, I64, int]:
    """Rank the samples from `first` to before `past`.

    The samples by rank; the rank of each, at its distance from `first`, and -1 for NaN; how many are numbers. A radix
    sort: the bits of a number, turned such that they rise with it, are sorted by one byte after the other.
    """
    bits = values.view(np.uint64)
    counts = np.zeros((8, 256), np.int64)
    ranks = np.full(past - first, -1, np.int64)
    keys = np.empty(past - first, np.uint64)
    keys_too = np.empty(past - first, np.uint64)
    order = np.empty(past - first, np.int64)
    order_too = np.empty(past - first, np.int64)
    size = 0
    for at in range(first, past):
        if values[at] == values[at]:
            key = ~bits[at] if bits[at] & _SIGN else bits[at] | _SIGN
            keys[size] = key
            order[size] = at
            size += 1
            for byte in range(8):
                counts[byte, (key >> np.uint64(8 * byte)) & _BYTE] += 1
    for byte in range(8):
        shift = np.uint64(8 * byte)
        count = counts[byte]
        if size == 0 or count[(keys[0] >> shift) & _BYTE] == size:
            continue
        total = 0
        for digit in range(256):
            here = count[digit]
            count[digit] = total
            total += here
        for at in range(size):
            digit = (keys[at] >> shift) & _BYTE
            place = count[digit]
            count[digit] += 1
            keys_too[place] = keys[at]
            order_too[place] = order[at]
        keys, keys_too = keys_too, keys
        order, order_too = order_too, order
    for place in range(size):
        ranks[order[place] - first] = place
    return order, ranks, size


@part_of_kernel
def put(place: int, by: int, ones: I64, by_16: I64, by_256: I64, by_4096: I64) -> None:
    """Put the sample of a rank into the set (`by` is 1) or out of it (-1)."""
    ones[place] += by
    by_16[place >> 4] += by
    by_256[place >> 8] += by
    by_4096[place >> 12] += by


@part_of_kernel
def nth(left: int, ones: I64, by_16: I64, by_256: I64, by_4096: I64) -> int:
    """The rank of the n-th sample in the set, which has more than n."""
    at = 0
    while by_4096[at] <= left:
        left -= by_4096[at]
        at += 1
    at <<= 4
    while by_256[at] <= left:
        left -= by_256[at]
        at += 1
    at <<= 4
    while by_16[at] <= left:
        left -= by_16[at]
        at += 1
    at <<= 4
    while ones[at] <= left:
        left -= ones[at]
        at += 1
    return at
