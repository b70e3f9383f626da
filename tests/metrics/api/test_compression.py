"""gzip: what is sent, and to whom."""

import gzip

import pytest

from quarterdeck.metrics.api.compression import accepts_gzip, compressed


@pytest.mark.parametrize("level", [1, 6])
def test_what_is_packed_can_be_unpacked(level: int) -> None:
    chunks = [b'{"a":%d}' % number * 1000 for number in range(100)]
    packed = list(compressed(iter(chunks), level))
    assert gzip.decompress(b"".join(packed)) == b"".join(chunks)
    assert b"" not in packed
    assert sum(map(len, packed)) * 10 < sum(map(len, chunks))


def test_nothing_is_a_valid_stream_too() -> None:
    assert gzip.decompress(b"".join(compressed([]))) == b""


@pytest.mark.parametrize(
    "header, wanted",
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate", False),
        ("identity", False),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0", False),
        ("gzip; Q=0.001", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0, gzip", True),
        ("gzip;q=x", False),
        ("br;q=1, gzip", True),
        (",,", False),
    ],
)
def test_who_gets_gzip(header: str | None, wanted: bool) -> None:
    assert accepts_gzip(header) is wanted
