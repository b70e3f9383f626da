"""What an engine's process says is not trusted: what is too large or makes no sense is no answer."""

import json

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.engine_wire import (
    BrokenAnswerError,
    FrameKind,
    decode_error,
    encode_error,
    header_of,
    read_header,
)


@pytest.mark.parametrize("letter", ["x", "\N{GRINNING FACE}", "\x00", '"'])
def test_an_error_is_cut_to_what_may_travel(letter: str) -> None:
    error = QuarterdeckError(ErrorCode.WORK_FAILED, letter * 10**6, letter * 10**6, letter * 10**6, retryable=True)
    payload = encode_error(error)
    assert read_header(header_of(FrameKind.ERROR, 1, len(payload))).size_bytes == len(payload)
    read = decode_error(payload)
    assert (read.code, read.retryable) == (error.code, True)
    for part in (read.what, read.why, read.next_step):
        assert part.startswith(letter * 1_000)
        assert part.endswith(" ...")


def test_a_short_error_is_told_as_it_is() -> None:
    error = QuarterdeckError(ErrorCode.UNAVAILABLE, "a", "b", "c")
    read = decode_error(encode_error(error))
    assert (read.message, read.code, read.retryable) == (error.message, error.code, error.retryable)


def test_an_error_that_is_too_large_is_not_even_read() -> None:
    with pytest.raises(BrokenAnswerError, match="an error of 1000000 bytes"):
        read_header(header_of(FrameKind.ERROR, 1, 1_000_000), 2**30)
    assert read_header(header_of(FrameKind.BATCH, 1, 1_000_000), 2**30).size_bytes == 1_000_000


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff", json.dumps({"code": "x"}).encode()])
def test_what_is_no_error_makes_no_sense(payload: bytes) -> None:
    with pytest.raises(BrokenAnswerError):
        decode_error(payload)
