"""Frames: what is written is read, in whatever pieces it comes, and nothing else is."""

import random
import tracemalloc
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.search import row_payloads
from quarterdeck.search.frames import (
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    RowFrames,
    decode_error,
    decode_progress,
    decode_report,
    encode_error,
    encode_progress,
    encode_report,
)
from quarterdeck.search.model import ChunkReport, FileProblem, Sent
from quarterdeck.search.row_payloads import read_rows

_arrow: Any = pyarrow
REPORT = ChunkReport(
    10**12, 7, (FileProblem("/a\u00e9", "no\nsuch", 3), FileProblem("s3://b/c", "gone")), frozenset("xy"), 5
)
SENT = Sent(3, 2**40, 2**50, "0123456789abcdef" * 2)


def rows(*values: object, name: str = "v") -> Any:
    return _arrow.record_batch({name: list(values)})


def decoded(data: bytes, piece_bytes: int = 1 << 30) -> list[Frame]:
    decoder = FrameDecoder()
    return [frame for at in range(0, len(data), piece_bytes) for frame in decoder.feed(data[at : at + piece_bytes])]


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 5, 7, 64, 1 << 20])
def test_frames_come_out_as_they_went_in_whatever_the_pieces(piece_bytes: int) -> None:
    batch = rows(*range(1000))
    data = encode_progress(5) + b"".join(RowFrames().of([batch])) + encode_report(REPORT, SENT)
    progress, some_rows, report = decoded(data, piece_bytes)
    assert (progress.kind, decode_progress(progress.payload)) == (FrameKind.PROGRESS, 5)
    assert some_rows.kind is FrameKind.ROWS
    assert next(read_rows(some_rows.payload)).equals(batch)
    assert (report.kind, decode_report(report.payload)) == (FrameKind.REPORT, (REPORT, SENT))


def test_an_error_keeps_its_code_and_words() -> None:
    error = QuarterdeckError(ErrorCode.RESOURCE_EXHAUSTED, "what", "why", "next", retryable=False)
    (frame,) = decoded(encode_error(error))
    assert frame.kind is FrameKind.ERROR
    assert decode_error(frame.payload).args == error.args


def test_the_wire_is_as_it_is_written_down() -> None:
    assert encode_progress(7) == b'\x13\x00\x00\x00\x02{"scanned_bytes":7}'


# Rows


def frames_of(*batches: Any) -> list[Frame]:
    return decoded(b"".join(RowFrames().of(batches)))


def test_no_rows_are_no_frame() -> None:
    assert frames_of() == []


def test_small_batches_go_together() -> None:
    batches = [rows(number) for number in range(100)]
    (frame,) = frames_of(*batches)
    assert [batch.to_pydict() for batch in read_rows(frame.payload)] == [{"v": [number]} for number in range(100)]


def test_batches_of_different_columns_do_not() -> None:
    assert len(frames_of(rows(1), rows("a"), rows("b", name="w"))) == 3


def test_a_large_batch_goes_in_parts_and_stays_in_order() -> None:
    chance = random.Random(1)
    batch = rows(*(chance.randbytes(1000) for _ in range(20_000)))
    found = frames_of(batch)
    assert 4 <= len(found) <= 8
    assert max(len(frame.payload) for frame in found) < 5_000_000
    table = _arrow.Table.from_batches([part for frame in found for part in read_rows(frame.payload)])
    assert table.equals(_arrow.Table.from_batches([batch]))


def test_a_row_that_no_frame_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, row in (("PAYLOAD", random.Random(1).randbytes(20_000)), ("ROW", bytes(20_000))):
        with monkeypatch.context() as patched:
            patched.setattr(
                row_payloads, "LARGEST_PAYLOAD_BYTES" if limit == "PAYLOAD" else "_LARGEST_ROW_BYTES", 10_000
            )
            with pytest.raises(QuarterdeckError, match="one of its rows takes"):
                list(RowFrames().of([rows(row)]))


def test_buffers_are_compressed() -> None:
    (frame,) = frames_of(rows(*["the same, again and again" * 10] * 10_000))
    assert len(frame.payload) < 100_000


# What is none


def test_a_frame_that_is_too_long_is_refused_before_it_has_come() -> None:
    with pytest.raises(FrameError, match="a frame of 1,001 bytes came, and 1,000 is the most"):
        list(FrameDecoder(1000).feed(b"\xe9\x03\x00\x00\x02"))


def test_a_frame_that_comes_in_crumbs_takes_no_more_memory_than_one_that_comes_at_once() -> None:
    decoder = FrameDecoder()
    size_bytes = 200_000
    assert list(decoder.feed(size_bytes.to_bytes(4, "little") + bytes([FrameKind.ROWS]))) == []
    tracemalloc.start()
    try:
        for at in range(0, size_bytes - 2, 2):
            assert not list(decoder.feed(b"%02d" % (at % 100)))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2 * size_bytes
    assert [len(frame.payload) for frame in decoder.feed(b"ab")] == [size_bytes]
    assert not decoder.has_rest


def test_a_kind_that_nobody_knows_is_refused() -> None:
    with pytest.raises(FrameError, match="kind 9"):
        list(FrameDecoder().feed(b"\x00\x00\x00\x00\x09"))


@pytest.mark.parametrize(
    "number", ["-1", "1.0", "1e3", "true", "null", "NaN", "Infinity", '"7"', "9223372036854775808", "9" * 5000, "[7]"]
)
def test_a_count_is_a_whole_number_that_may_be(number: str) -> None:
    with pytest.raises(FrameError, match="progress that cannot be read"):
        decode_progress(b'{"scanned_bytes":%b}' % number.encode())


def test_words_for_people_are_cut_and_made_text() -> None:
    problem = FileProblem("/a", "\udcff" + "x" * 10_000)
    (frame,) = decoded(encode_report(ChunkReport(0, 0, (problem,)), SENT))
    (told,) = decode_report(frame.payload)[0].problems
    assert (told.why[:10], len(told.why)) == ("\\udcffxxxx", 4000)
    error = QuarterdeckError(ErrorCode.INTERNAL, "\udcff", "y" * 2_000_000, "z")
    (frame,) = decoded(encode_error(error))
    assert decode_error(frame.payload).args == (ErrorCode.INTERNAL, "\\udcff", "y" * 4000, "z", False)


def test_progress_has_no_room_for_more_than_progress() -> None:
    with pytest.raises(FrameError, match="1,024 is the most"):
        list(FrameDecoder().feed(b"\x01\x04\x00\x00\x02"))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"scanned_bytes":"x"}',
        b"\xff",
        b"null",
        b"[" * 100_000,
        b'{"error":' * 50_000,
        b'{"error":{"code":[],"what":"","why":"","next_step":"","retryable":false}}',
        b'{"error":{"code":"internal","what":"","why":"","next_step":"","retryable":1}}',
        b'{"error":{"code":"internal","what":"\\ud800","why":"","next_step":"","retryable":true}}',
    ],
)
def test_documents_that_cannot_be_read_are_refused(payload: bytes) -> None:
    for decode in (decode_progress, decode_report, decode_error):
        with pytest.raises(FrameError):
            decode(payload)
