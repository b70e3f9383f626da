"""gzip, for clients that ask for it."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

FAST: Final = 1
"""The level for answers made while somebody waits: a quarter of the size, at four times the speed of the usual 6."""

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
"""The largest window, in the format of gzip."""


def compressed(chunks: Iterable[bytes], level: int = FAST) -> Iterator[bytes]:
    """The same bytes as one gzip stream. A chunk that only went into the compressor's memory gives none."""
    packer = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW)
    for chunk in chunks:
        packed = packer.compress(chunk)
        if packed:
            yield packed
    yield packer.flush()


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether an `Accept-Encoding` header asks for gzip. What is named counts before `*`, and a weight of 0 is a no.

    >>> accepts_gzip("deflate, gzip;q=0.5"), accepts_gzip("*"), accepts_gzip("gzip;q=0, *"), accepts_gzip(None)
    (True, True, False, False)
    """
    weights: dict[str, float] = {}
    for part in (accept_encoding or "").split(","):
        coding, *parameters = part.split(";")
        weights[coding.strip().lower()] = _weight(parameters)
    for coding in ("gzip", "x-gzip", "*"):
        if coding in weights:
            return weights[coding] > 0
    return False


def _weight(parameters: list[str]) -> float:
    """The weight of a coding, 1 if there is none; one that is no number is taken for a no."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
