"""Lines as NDJSON, in pieces that can be sent. There is no loop over rows here."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from pyarrow import compute  # pyright: ignore[reportMissingTypeStubs]

_arrow: Final[Any] = pyarrow
_compute: Final[Any] = compute

TextArray: TypeAlias = Any
"""A `pyarrow.StringArray`."""

_PIECE_BYTES: Final = 128 * 1024


def rendered(lines: TextArray) -> Iterator[bytes]:
    """Whole lines, each with its end."""
    if not len(lines):
        return
    joined: Any = _compute.binary_join(_arrow.ListArray.from_arrays([0, len(lines)], lines), "\n")
    text = b"%b\n" % joined[0].as_buffer()
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + _PIECE_BYTES) + 1 or text.index(b"\n", start) + 1
        yield text[start:end]
        start = end
