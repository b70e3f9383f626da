"""Sizes as people write them: `10GiB`, `512 MB`, or a plain number of bytes."""

import re
from typing import Final

_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("kmgt", start=1)},  # as Kubernetes writes them
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_BINARY: Final = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def parse_size(value: object) -> int:
    """The number of bytes; raises `ValueError` for what is not a size.

    A unit of one letter is not taken: half of the world means 1000 by it and the other half 1024.

    >>> parse_size("10GiB"), parse_size("1.5 kB"), parse_size(4096)
    (10737418240, 1500, 4096)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise ValueError("not a size")
    size = float(match[1]) * _UNITS[match[2]] if "." in match[1] else int(match[1]) * _UNITS[match[2]]
    if size != int(size):
        raise ValueError("not a whole number of bytes")
    return int(size)


def format_size(size_bytes: int) -> str:
    """The shortest form that `parse_size` reads back as the same number.

    >>> format_size(10 * 1024**3), format_size(1500)
    ('10GiB', '1500')
    """
    for unit, factor in _BINARY:
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)
