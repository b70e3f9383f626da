"""Rows from somebody else: what is not as it should be is an error, and never a crash."""

import struct
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.crew.artifacts.format import Hasher
from quarterdeck.search import row_payloads
from quarterdeck.search.row_payloads import RowPayloads, RowsError, checked_rows, is_whole, read_rows
from tests.search.played_search import SCHEMA

_arrow: Any = pyarrow


def records(count: int = 3, text: str = "a line") -> Any:
    return _arrow.record_batch([[None] * count, list(range(count)), [text] * count], SCHEMA)


def payload_of(*batches: Any) -> bytes:
    (made,) = RowPayloads().of(batches)
    return made


def sealed(stream: bytes) -> bytes:
    """As somebody would send it who has our code."""
    return Hasher(stream).digest() + stream


def stream_of(*batches: Any, compression: str | None = None, schema: Any = None) -> bytes:
    sink = _arrow.BufferOutputStream()
    options = _arrow.ipc.IpcWriteOptions(compression=compression)
    with _arrow.ipc.new_stream(sink, schema or batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def offsets_of(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


@pytest.mark.parametrize("count", [1, 3, 1000, 100_000])
def test_what_was_sent_is_read(count: int) -> None:
    payload = payload_of(records(count))
    assert [batch.to_pydict() for batch in checked_rows(payload, SCHEMA)] == [records(count).to_pydict()]
    assert [batch.to_pydict() for batch in read_rows(payload)] == [records(count).to_pydict()]


def test_buffers_that_are_not_compressed_are_read_too() -> None:
    assert checked_rows(sealed(stream_of(records())), SCHEMA)[0].equals(records())


@pytest.mark.parametrize("at", [0, 7, 15, 16, 100, -1])
def test_a_byte_that_has_changed_is_noticed(at: int) -> None:
    payload = bytearray(payload_of(records()))
    payload[at] ^= 1
    assert not is_whole(bytes(payload))
    with pytest.raises(RowsError, match="not those that were hashed"):
        checked_rows(bytes(payload), SCHEMA)


@pytest.mark.parametrize("kept", [0, 1, 15, 16, 17, 300])
def test_rows_that_were_cut_off_are_refused(kept: int) -> None:
    with pytest.raises(RowsError):
        checked_rows(payload_of(records())[:kept], SCHEMA)
    with pytest.raises(RowsError):
        checked_rows(sealed(stream_of(records())[:kept]), SCHEMA)


@pytest.mark.parametrize(
    "offsets",
    [(0, 6, 12, 1 << 30), (0, 1 << 30, 12, 18), (0, -(1 << 30), 12, 18), (6, 0, 12, 18), (0, 6, 12, 19)],
)
def test_offsets_that_lead_elsewhere_are_refused_before_anybody_follows_them(offsets: tuple[int, ...]) -> None:
    honest = stream_of(records())
    assert honest.count(offsets_of(0, 6, 12, 18)) == 1
    hostile = honest.replace(offsets_of(0, 6, 12, 18), offsets_of(*offsets))
    with pytest.raises(RowsError):
        checked_rows(sealed(hostile), SCHEMA)


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(RowsError, match="UTF8"):
        checked_rows(sealed(stream_of(records()).replace(b"a line", b"a \xff\xfene", 1)), SCHEMA)


def test_columns_that_the_search_does_not_have_are_refused() -> None:
    texts = _arrow.array(["a", "b"]).dictionary_encode()
    for columns in ({"v": [1]}, {"line": texts}, {"time_us": [1], "pos": [1], "line": [b"x"]}):
        with pytest.raises(RowsError, match="not those of this search"):
            checked_rows(sealed(stream_of(_arrow.record_batch(columns))), SCHEMA)


def test_columns_with_words_of_their_own_are_refused() -> None:
    """An extension type, for one, is such a word."""
    with pytest.raises(RowsError, match="not those of this search"):
        checked_rows(sealed(stream_of(records().replace_schema_metadata({"a": "b"}))), SCHEMA)


def test_a_dictionary_is_refused_although_the_columns_are_those_of_the_search() -> None:
    packed = _arrow.schema({"line": _arrow.dictionary(_arrow.int32(), _arrow.string())})
    columns = [_arrow.array(["a", "b"]).dictionary_encode()]
    stream = stream_of(_arrow.record_batch(columns, packed))
    with pytest.raises(RowsError, match="a message of the kind 'dictionary'"):
        checked_rows(sealed(stream), packed)


def test_no_rows_are_refused() -> None:
    with pytest.raises(RowsError, match="there are none"):
        checked_rows(sealed(stream_of(schema=SCHEMA)), SCHEMA)
    with pytest.raises(RowsError, match="a batch without rows"):
        checked_rows(sealed(stream_of(records(0))), SCHEMA)


def test_what_would_unpack_to_more_than_may_be_is_refused_before_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = payload_of(records(4, "x" * 200_000))
    assert len(payload) < 10_000
    before = _arrow.total_allocated_bytes()
    monkeypatch.setattr(row_payloads, "LARGEST_UNPACKED_BYTES", 700_000)
    with pytest.raises(RowsError, match="take more than 700,000 bytes"):
        checked_rows(payload, SCHEMA)
    assert _arrow.total_allocated_bytes() == before


@pytest.mark.parametrize("told", [1 << 40, (1 << 63) - 1, -2, -(1 << 63)])
def test_a_buffer_that_lies_about_its_length_is_refused(told: int) -> None:
    stream = stream_of(records(1000, "x" * 100), compression="lz4")
    honest = struct.pack("<q", 100_000)
    assert honest in stream
    with pytest.raises(RowsError):
        checked_rows(sealed(stream.replace(honest, struct.pack("<q", told), 1)), SCHEMA)
