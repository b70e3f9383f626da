"""The one range of bytes that a request may ask for, as RFC 9110 (section 14) reads it."""

import re
from dataclasses import dataclass
from typing import Final

# 19 digits: more than any file has bytes, and few enough for int() to take without complaint.
_RANGE: Final = re.compile(rb"bytes=(\d{0,19})-(\d{0,19})", re.IGNORECASE)


class UnsatisfiableRangeError(Exception):
    """It begins behind the end of the file."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    length: int

    def content_range(self, size_bytes: int) -> bytes:
        return b"bytes %d-%d/%d" % (self.start, self.start + self.length - 1, size_bytes)


def requested_range(header: bytes, size_bytes: int) -> ByteRange | None:
    """What the header asks for; None when it is to be ignored: malformed, another unit, or several ranges.

    >>> requested_range(b"bytes=-3", 10)
    ByteRange(start=7, length=3)
    """
    match = _RANGE.fullmatch(header)
    if match is None:
        return None
    first, last = match[1], match[2]
    if not first:
        return _suffix(last, size_bytes)
    start = int(first)
    end = int(last) if last else size_bytes - 1
    if last and end < start:
        return None
    if start >= size_bytes:
        raise UnsatisfiableRangeError
    return ByteRange(start, min(end, size_bytes - 1) - start + 1)


def _suffix(last: bytes, size_bytes: int) -> ByteRange | None:
    """The last so many bytes."""
    if not last:
        return None
    length = min(int(last), size_bytes)
    if length == 0:
        raise UnsatisfiableRangeError
    return ByteRange(size_bytes - length, length)
