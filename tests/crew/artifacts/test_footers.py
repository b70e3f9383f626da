"""What footers say of texts: the same as pyarrow reads, and an error for what is none."""

import io
from typing import Any

import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.crew.artifacts.footers import ColumnChunk, column_chunks, insist_pages

pa: Any = _pyarrow
pq: Any = _parquet
TABLE = pa.table(
    {
        "ts": list(range(1000)),
        "kind": ["a", "b"] * 500,
        "plain": [f"text {number}" for number in range(1000)],
        "names": [["x", "y"]] * 1000,
        "inner": [{"text": "deep", "flag": True}] * 1000,
        "rate": [0.5, None] * 500,
    }
)
LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {"use_dictionary": ["kind", "names.list.element"], "compression": "lz4"},
    {"use_dictionary": False, "write_statistics": False, "compression": "none"},
    {"write_page_index": True, "store_schema": False, "version": "1.0"},
    {"write_page_checksum": True, "sorting_columns": [pq.SortingColumn(0)]},
)


def file_of(layout: dict[str, Any], rows_per_group: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=rows_per_group, **layout)
    return sink.getvalue()


def footer_of(layout: dict[str, Any], rows_per_group: int) -> tuple[bytes, Any]:
    data = file_of(layout, rows_per_group)
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8], pq.ParquetFile(io.BytesIO(data)).metadata


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows_per_group", [1000, 300, 10])
def test_columns_are_told_as_pyarrow_tells_them(layout: dict[str, Any], rows_per_group: int) -> None:
    footer, metadata = footer_of(layout, rows_per_group)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [(group, group.column(at)) for group in groups for at in range(group.num_columns)]
    assert column_chunks(footer) == [
        ColumnChunk(
            column.physical_type == "BYTE_ARRAY",
            column.num_values,
            group.num_rows,
            column.total_uncompressed_size,
            column.total_compressed_size,
            column.data_page_offset,
            column.dictionary_page_offset,
        )
        for group, column in columns
    ]


def look(data: bytes, largest_bytes: int = 2**20) -> None:
    length = int.from_bytes(data[-8:-4], "little")
    chunks = column_chunks(data[-8 - length : -8])
    insist_pages(chunks, lambda at, some: data[at : at + some], len(data) - 8 - length, largest_bytes)


@pytest.mark.parametrize("layout", [*LAYOUTS, {"data_page_size": 100, "write_statistics": True}])
@pytest.mark.parametrize("rows_per_group", [1000, 300, 10])
def test_the_pages_of_a_file_that_is_well_made_are_where_they_should_be(
    layout: dict[str, Any], rows_per_group: int
) -> None:
    look(file_of(layout, rows_per_group))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_without_rows_is_well_made(layout: dict[str, Any]) -> None:
    sink = io.BytesIO()
    pq.write_table(TABLE.slice(0, 0), sink, **layout)
    look(sink.getvalue())


def test_a_page_that_would_take_too_much_memory_is_refused() -> None:
    data = file_of({}, 1000)
    with pytest.raises(ValueError, match="a page that takes"):
        look(data, 100)


def test_a_page_that_is_longer_than_its_column_is_refused() -> None:
    data = file_of({"use_dictionary": False, "compression": "none"}, 1000)
    header = data[4:].index(b"\x15") + 4  # its type, and then its sizes, in the usual order
    assert data[header : header + 3] == b"\x15\x00\x15"
    huge = b"\x15\x00\x15\xfe\xff\xff\xff\x0f\x15\xfe\xff\xff\xff\x0f"
    with pytest.raises(ValueError, match=r"a page of 2,147,483,647 bytes, and its column is shorter"):
        look(data[:header] + huge + data[header + len(huge) :])


def test_a_footer_that_is_cut_off_is_refused_wherever_that_is() -> None:
    footer, _ = footer_of({}, 500)
    for kept in range(len(footer)):
        with pytest.raises(ValueError, match="its footer"):
            column_chunks(footer[:kept])


@pytest.mark.parametrize(
    "footer, why",
    [
        (b"\x1d\x00", "of type 13"),
        (b"\x10\x00", "without a type"),
        (b"\x15" + b"\xff" * 11, "too long"),
        (b"\x1c" * 100, "too deep"),
        (b"\x49\x15\x00", "a list of something else"),
        (b"\x19\xf5" + b"\xff" * 9 + b"\x01", "ends in the middle"),
        (b"\x19\xf1" + b"\xff" * 9 + b"\x01", "ends in the middle"),
        (b"\x1b\xff\xff\xff\xff\x0f\x11", "ends in the middle"),
    ],
)
def test_what_is_no_footer_is_refused(footer: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        column_chunks(footer)
