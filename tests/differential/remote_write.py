"""The bytes of remote write 1.0 requests: protobuf in snappy blocks, written by hand so that every bit of a value
arrives, a staleness marker's too, and as arrays, so that millions of samples take seconds.

The blocks hold literals only, which every reader of snappy understands; nothing is saved by compressing here.
"""

import struct
from collections.abc import Iterable, Iterator

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.memory import Series

_LITERAL_LIMIT = 1 << 16
_LITERAL_WITH_TWO_LENGTH_BYTES = 61 << 2
_REQUEST_BYTES = 4 << 20
_TIME_BYTES = 6
"""Of a time in milliseconds, up to the year 2109."""
_SAMPLE_BYTES = 12 + _TIME_BYTES


def write_requests(dataset: Iterable[Series], span_ms: int) -> Iterator[bytes]:
    """All samples in requests of a few megabytes; all series advance together, by `span_ms` at a time."""
    series = [(_labels(one.labels), one.timestamps, one.values) for one in dataset]
    start = min(int(times[0]) for _, times, _ in series)
    end = max(int(times[-1]) for _, times, _ in series)
    for low_ms in range(start, end + 1, span_ms):
        parts, size = list[bytes](), 0
        for labels, times, values in series:
            low, high = np.searchsorted(times, (low_ms, low_ms + span_ms))
            if low == high:
                continue
            parts.append(_field(1, labels + _samples(times[low:high], values[low:high])))
            size += len(parts[-1])
            if size > _REQUEST_BYTES:
                yield _snappy(b"".join(parts))
                parts, size = [], 0
        if parts:
            yield _snappy(b"".join(parts))


def _labels(labels: Labels) -> bytes:
    return b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)


def _samples(times: I64, values: F64) -> bytes:
    """A field for each sample: the value, and the time with all its bytes even where fewer would do."""
    out = np.empty((len(times), _SAMPLE_BYTES), np.uint8)
    out[:, 0], out[:, 1], out[:, 2], out[:, 11] = 0x12, _SAMPLE_BYTES - 2, 0x09, 0x10
    out[:, 3:11] = values.astype("<f8").view(np.uint8).reshape(-1, 8)
    for byte in range(_TIME_BYTES):
        out[:, 12 + byte] = (times >> (7 * byte)) & 0x7F | (0x80 if byte < _TIME_BYTES - 1 else 0)
    return out.tobytes()


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
