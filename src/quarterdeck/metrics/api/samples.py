"""Samples as JSON, many series at once: `[1435781430.781,"1"],[1435781431.781,"2"]` between texts that are given.

A compiled loop writes into one buffer until that is full, so that an answer of any size goes out in chunks. It knows
nothing of what stands between the samples: for each series there is a text to write before its first sample.

Times repeat from series to series. What was written for a time is kept in a table, by a hash of the time, and copied.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from quarterdeck.metrics.api.decimals import U64, Bytes, write_float, write_text, write_whole, write_word
from quarterdeck.metrics.promql.blocks import F64, I64, totals_before
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel, warms

CHUNK_BYTES: Final = 128 * 1024
"""What goes out at once: large enough that handing it on costs nothing, and small enough to stay in the cache."""

_CELL_BYTES: Final = 64
"""Room for a sample: a comma, brackets and quotes, 21 for the time and 25 for the value."""
_TIME_WORDS: Final = 3
"""Of eight bytes: what stands before a value has at most 24."""
_SLOT_BITS: Final = 13
_HASH_SHIFT: Final = np.uint64(64 - _SLOT_BITS)
_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)  # of the golden ratio: spreads what lies at equal distances
_THOUSAND, _HUNDRED, _TEN, _EIGHT, _NAUGHT = (np.uint64(number) for number in (1000, 100, 10, 8, 0))
_FIRST, _SECOND, _THIRD = (np.uint64(number) for number in range(3))


@kernel
def _fill(
    out: Bytes,
    texts: Bytes,
    text_offsets: I64,
    offsets: I64,
    timestamps: I64,
    bits: U64,
    known_times: I64,
    known_sizes: I64,
    known_words: U64,
    row: int,
    sample: int,
) -> tuple[int, int, int]:
    """Write from a sample of a row on, until there is no room; the number of bytes, and where to go on."""
    position = 0
    while row < len(offsets) - 1:
        if sample == offsets[row]:
            low, high = text_offsets[row], text_offsets[row + 1]
            if position + high - low + _CELL_BYTES > len(out):
                return position, row, sample
            position = write_text(out, position, texts, low, high)
        while sample < offsets[row + 1]:
            if position + _CELL_BYTES > len(out):
                return position, row, sample
            if sample > offsets[row]:
                out[position] = 44  # ,
                position += 1
            time_ms = timestamps[sample]
            slot = (np.uint64(time_ms) * _HASH_FACTOR) >> _HASH_SHIFT
            if known_sizes[slot] == 0 or known_times[slot] != time_ms:
                known_sizes[slot] = _write_start(out, position, time_ms) - position
                known_times[slot] = time_ms
                for word in range(_TIME_WORDS):
                    known_words[slot, word] = _word(out, position + 8 * word)
            size = known_sizes[slot]
            first, second, third = known_words[slot, _FIRST], known_words[slot, _SECOND], known_words[slot, _THIRD]
            write_word(out, position, first)
            write_word(out, position + 8, second)
            write_word(out, position + 16, third)
            position += size
            position = write_float(out, position, bits[sample])
            out[position] = 34  # "
            out[position + 1] = 93  # ]
            position += 2
            sample += 1
        row += 1
    return position, row, sample


@part_of_kernel
def _write_start(out: Bytes, position: int, time_ms: int) -> int:
    """`[1435781430.781,"`: all of a sample that stands before its value."""
    out[position] = 91  # [
    end = _write_time(out, position + 1, time_ms)
    out[end] = 44  # ,
    out[end + 1] = 34  # "
    return end + 2


@part_of_kernel
def _word(text: Bytes, position: int) -> np.uint64:
    """Eight bytes, the lowest first."""
    place, word = np.uint64(position), np.uint64(0)
    for index in range(_EIGHT):
        word |= np.uint64(text[place + index]) << (index * _EIGHT)
    return word


@part_of_kernel
def _write_time(out: Bytes, position: int, time_ms: int) -> int:
    """Seconds, with three decimals unless there are none."""
    if time_ms < 0:
        out[position] = 45  # -
        position += 1
    distance = np.uint64(abs(time_ms))
    seconds = distance // _THOUSAND
    rest = distance - seconds * _THOUSAND
    position = write_whole(out, position, seconds)
    if rest == _NAUGHT:
        return position
    out[position] = 46  # .
    out[position + 1] = 48 + np.uint8(rest // _HUNDRED)
    out[position + 2] = 48 + np.uint8(rest // _TEN % _TEN)
    out[position + 3] = 48 + np.uint8(rest % _TEN)
    return position + 4


def chunks_of(texts: Sequence[bytes], offsets: I64, timestamps: I64, values: F64) -> Iterator[bytes]:
    """For each series its text and then its samples, which lie from one of the `offsets` to the next.

    >>> b"".join(chunks_of([b"a:", b" b:"], np.array([0, 2, 3]), np.array([0, 1500, -50]), np.array([1.0, 0.5, 1e21])))
    b'a:[0,"1"],[1.500,"0.5"] b:[-0.050,"1e+21"]'
    """
    joined = given(np.frombuffer(b"".join(texts), np.uint8))
    text_offsets = given(totals_before(np.array([len(text) for text in texts], np.int64)))
    out = np.empty(CHUNK_BYTES + max(map(len, texts), default=0), np.uint8)
    slots = 1 << _SLOT_BITS
    known = np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros((slots, _TIME_WORDS), np.uint64)
    given_offsets, given_times = given(offsets), given(timestamps)
    bits = given(values).view(np.uint64)
    row, sample = 0, int(offsets[0])
    while row < len(texts):
        written, row, sample = _fill(out, joined, text_offsets, given_offsets, given_times, bits, *known, row, sample)
        yield out[:written].tobytes()


@warms
def warm_samples() -> None:
    """One series of one sample."""
    list(chunks_of([b"a"], np.array([0, 1]), np.array([0]), np.zeros(1)))
