"""The bytes of a remote write 1.0 request: protobuf in a snappy block, written by hand so that every bit of a value
arrives, a staleness marker's too.

The block holds literals only, which every reader of snappy understands; nothing is saved by compressing here.
"""

import struct
from collections.abc import Iterable

from quarterdeck.metrics.promql.labels import Labels

_LITERAL_LIMIT = 1 << 16
_LITERAL_WITH_TWO_LENGTH_BYTES = 61 << 2


def write_request(series: Iterable[tuple[Labels, Iterable[tuple[int, float]]]]) -> bytes:
    """A request with some samples of each series, as pairs of milliseconds and value."""
    return _snappy(b"".join(_field(1, _series(labels, samples)) for labels, samples in series))


def _series(labels: Labels, samples: Iterable[tuple[int, float]]) -> bytes:
    pairs = (_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)
    points = (_field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(time)) for time, value in samples)
    return b"".join(pairs) + b"".join(points)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _snappy(content: bytes) -> bytes:
    out = [_varint(len(content))]
    for start in range(0, len(content), _LITERAL_LIMIT):
        piece = content[start : start + _LITERAL_LIMIT]
        out += [bytes([_LITERAL_WITH_TWO_LENGTH_BYTES]), struct.pack("<H", len(piece) - 1), piece]
    return b"".join(out)
