"""Compressed text, told by its extension or its first bytes."""

import gzip
from pathlib import Path
from typing import Any, Final

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from tests.metrics.importing.files import refusal, samples, write

_arrow: Final[Any] = pyarrow

TEXT = b"".join(b'up{a="%d"} 1 %d\n' % (at % 3, at) for at in range(5000)) + b"# EOF\n"


def zstd(data: bytes) -> bytes:
    return _arrow.compress(data, codec="zstd", asbytes=True)


COMPRESSED = {
    "a.om.gz": gzip.compress(TEXT),
    "a.om.zst": zstd(TEXT),
    "gzip.om": gzip.compress(TEXT),
    "zstd.om": zstd(TEXT),
    "parts.om.gz": gzip.compress(TEXT[:77]) + gzip.compress(TEXT[77:]),
    "parts.om.zst": zstd(TEXT[:77]) + zstd(TEXT[77:]),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_files_are_read_like_others(name: str, tmp_path: Path) -> None:
    expected = samples(OpenMetricsReader(write(tmp_path, TEXT)))
    reader = OpenMetricsReader(write(tmp_path, COMPRESSED[name], name))
    assert samples(reader) == expected
    assert reader.read_bytes == reader.size_bytes == len(COMPRESSED[name])


@pytest.mark.parametrize("name", ["a.om.gz", "a.om.zst", "gzip.om", "zstd.om"])
def test_a_truncated_compressed_file_is_refused(name: str, tmp_path: Path) -> None:
    whole = COMPRESSED[name]
    for size in (len(whole) // 2, len(whole) - 1, 10, 5):
        error = refusal(OpenMetricsReader(write(tmp_path, whole[:size], name)))
        assert name in error.what
        assert "decompressed" in error.why or "truncated" in error.why


@pytest.mark.parametrize("name", ["a.om.gz", "a.om.zst"])
def test_a_plain_file_with_the_extension_of_a_compressed_one_is_refused(name: str, tmp_path: Path) -> None:
    error = refusal(OpenMetricsReader(write(tmp_path, TEXT, name)))
    assert "cannot be decompressed" in error.why
    assert "extension" in error.next_step
