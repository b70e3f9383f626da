"""Frames: what is written is read, in whatever pieces it comes, and nothing else is."""

import random
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.recruiter import frames
from quarterdeck.recruiter.frames import (
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    decode_error,
    decode_progress,
    decode_report,
    decode_rows,
    encode_error,
    encode_progress,
    encode_report,
    encode_rows,
)
from quarterdeck.recruiter.model import ChunkReport, FileProblem

_arrow: Any = pyarrow
REPORT = ChunkReport(
    10**12, 7, (FileProblem("/a\u00e9", "no\nsuch", 3), FileProblem("s3://b/c", "gone")), frozenset("xy")
)


def rows(*values: object, name: str = "v") -> Any:
    return _arrow.record_batch({name: list(values)})


def decoded(data: bytes, piece_bytes: int = 1 << 30) -> list[Frame]:
    decoder = FrameDecoder()
    return [frame for at in range(0, len(data), piece_bytes) for frame in decoder.feed(data[at : at + piece_bytes])]


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 5, 7, 64, 1 << 20])
def test_frames_come_out_as_they_went_in_whatever_the_pieces(piece_bytes: int) -> None:
    batch = rows(*range(1000))
    data = encode_progress(5) + b"".join(encode_rows([batch])) + encode_report(REPORT)
    progress, some_rows, report = decoded(data, piece_bytes)
    assert (progress.kind, decode_progress(progress.payload)) == (FrameKind.PROGRESS, 5)
    assert some_rows.kind is FrameKind.ROWS
    assert decode_rows(some_rows.payload)[0].equals(batch)
    assert (report.kind, decode_report(report.payload)) == (FrameKind.REPORT, REPORT)


def test_an_error_keeps_its_code_and_words() -> None:
    error = QuarterdeckError(ErrorCode.RESOURCE_EXHAUSTED, "what", "why", "next", retryable=False)
    (frame,) = decoded(encode_error(error))
    assert frame.kind is FrameKind.ERROR
    assert decode_error(frame.payload).args == error.args


def test_the_wire_is_as_it_is_written_down() -> None:
    assert encode_progress(7) == b'\x13\x00\x00\x00\x02{"scanned_bytes":7}'


# Rows


def frames_of(*batches: Any) -> list[Frame]:
    return decoded(b"".join(encode_rows(batches)))


def test_no_rows_are_no_frame() -> None:
    assert frames_of() == []


def test_small_batches_go_together() -> None:
    batches = [rows(number) for number in range(100)]
    (frame,) = frames_of(*batches)
    assert [batch.to_pydict() for batch in decode_rows(frame.payload)] == [{"v": [number]} for number in range(100)]


def test_batches_of_different_columns_do_not() -> None:
    assert len(frames_of(rows(1), rows("a"), rows("b", name="w"))) == 3


def test_a_large_batch_goes_in_parts_and_stays_in_order() -> None:
    chance = random.Random(1)
    batch = rows(*(chance.randbytes(1000) for _ in range(20_000)))
    found = frames_of(batch)
    assert 4 <= len(found) <= 8
    assert max(len(frame.payload) for frame in found) < 5_000_000
    table = _arrow.Table.from_batches([part for frame in found for part in decode_rows(frame.payload)])
    assert table.equals(_arrow.Table.from_batches([batch]))


def test_a_row_that_no_frame_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LARGEST_FRAME_BYTES", 10_000)
    with pytest.raises(QuarterdeckError, match="one of its rows takes"):
        list(encode_rows([rows(random.Random(1).randbytes(20_000))]))


def test_buffers_are_compressed() -> None:
    (frame,) = frames_of(rows(*["the same, again and again" * 10] * 10_000))
    assert len(frame.payload) < 100_000


# What is none


def test_a_frame_that_is_too_long_is_refused_before_it_has_come() -> None:
    with pytest.raises(FrameError, match="a frame of 1,001 bytes came, and 1,000 is the most"):
        list(FrameDecoder(1000).feed(b"\xe9\x03\x00\x00\x02"))


def test_a_kind_that_nobody_knows_is_refused() -> None:
    with pytest.raises(FrameError, match="kind 9"):
        list(FrameDecoder().feed(b"\x00\x00\x00\x00\x09"))


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"scanned_bytes":"x"}', b"\xff", b"null"])
def test_documents_that_cannot_be_read_are_refused(payload: bytes) -> None:
    for decode in (decode_progress, decode_report, decode_error):
        with pytest.raises(FrameError):
            decode(payload)


@pytest.mark.parametrize("kept", [0, 1, 100, 1000])
def test_rows_that_were_cut_off_are_refused(kept: int) -> None:
    (frame,) = frames_of(rows(*range(1000)))
    with pytest.raises(FrameError, match="rows that cannot be read"):
        decode_rows(frame.payload[:kept])


def test_rows_that_were_damaged_are_refused() -> None:
    (frame,) = frames_of(rows(*range(1000)))
    with pytest.raises(FrameError, match="rows that cannot be read"):
        decode_rows(frame.payload[:40] + bytes(100) + frame.payload[140:])
