"""Which bytes a range names."""

import pytest

from quarterdeck.crew.artifacts.ranges import ByteRange, UnsatisfiableRangeError, requested_range


@pytest.mark.parametrize(
    "header, start, length",
    [
        (b"bytes=0-9", 0, 10),
        (b"bytes=0-0", 0, 1),
        (b"bytes=9-9", 9, 1),
        (b"bytes=3-", 3, 7),
        (b"bytes=-3", 7, 3),
        (b"bytes=-100", 0, 10),
        (b"bytes=4-100", 4, 6),
        (b"Bytes=4-5", 4, 2),
    ],
)
def test_one_range_is_cut_to_the_file(header: bytes, start: int, length: int) -> None:
    assert requested_range(header, 10) == ByteRange(start, length)


@pytest.mark.parametrize("header", [b"bytes=10-", b"bytes=10-12", b"bytes=9999999999999999999-", b"bytes=-0"])
def test_a_range_behind_the_end_cannot_be_satisfied(header: bytes) -> None:
    with pytest.raises(UnsatisfiableRangeError):
        requested_range(header, 10)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"bytes=-",
        b"bytes=5-3",
        b"bytes=0-1,4-5",
        b"bytes=a-b",
        b"bytes= 0-1",
        b"items=0-1",
        b"bytes=0-1\n",
        b"bytes=" + b"9" * 5000 + b"-",
        "bytes=٣-٤".encode(),
    ],
)
def test_what_is_not_one_range_of_bytes_is_ignored(header: bytes) -> None:
    assert requested_range(header, 10) is None


def test_the_answer_names_the_first_and_the_last_byte_and_the_size() -> None:
    assert ByteRange(3, 4).content_range(10) == b"bytes 3-6/10"
