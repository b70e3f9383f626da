"""What a writer makes of record batches: a Parquet file, and everything that is announced of it."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest
import xxhash

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.format import Stamp
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.stores.disk import DiskFullError
from tests.crew.artifacts.harness import SCHEMA, Depot, attempt_id, files_in, noise, pa, rows

pq: Any = _parquet


def _read(depot: Depot, artifact: Artifact) -> Any:
    return pq.ParquetFile(pa.BufferReader(depot.content(artifact))).read()


@pytest.fixture(params=[0, 2**20], ids=["file", "memory"])
def depot(request: pytest.FixtureRequest, tmp_path: Path) -> Depot:
    return Depot(tmp_path, memory_limit_bytes=request.param)


def test_the_announcement_is_true_of_the_bytes(depot: Depot) -> None:
    artifact = depot.make(rows(1000, 5), rows(500, 3))
    data = depot.content(artifact)
    assert artifact.size_bytes == len(data)
    assert artifact.checksum == f"xxh3_128:{xxhash.xxh3_128_hexdigest(data)}"
    assert (artifact.row_count, artifact.min_ts, artifact.max_ts) == (8, 500, 1004)
    assert artifact.parquet_schema_version == 1
    assert re.fullmatch(r"http://worker/artifacts/[0-9a-f]{32}\.parquet", artifact.url)
    table = _read(depot, artifact)
    assert table.schema.equals(SCHEMA)
    assert table.to_pydict() == {"ts": [*range(1000, 1005), 500, 501, 502], "text": ["a line"] * 8}


def test_the_footer_repeats_times_and_schema_version(depot: Depot) -> None:
    artifact = depot.make(rows(7, 2))
    footer = pq.read_metadata(pa.BufferReader(depot.content(artifact)))
    assert Stamp.decoded(footer.metadata) == Stamp(row_count=2, min_ts=7, max_ts=8, schema_version=1)
    assert footer.num_rows == 2


def test_an_artifact_without_rows_is_whole_and_has_times_0_and_0(depot: Depot) -> None:
    artifact = depot.make()
    assert (artifact.row_count, artifact.min_ts, artifact.max_ts) == (0, 0, 0)
    table = _read(depot, artifact)
    assert table.num_rows == 0
    assert table.schema.equals(SCHEMA)


def test_empty_batches_are_nothing(depot: Depot) -> None:
    artifact = depot.make(rows(0, 0), rows(9, 1), rows(0, 0))
    assert (artifact.row_count, artifact.min_ts, artifact.max_ts) == (1, 9, 9)


def test_without_a_time_column_times_are_0_and_0(depot: Depot) -> None:
    artifact = depot.make(rows(7, 2), ts_column=None)
    assert (artifact.row_count, artifact.min_ts, artifact.max_ts) == (2, 0, 0)


@pytest.mark.parametrize(
    "unit, values, expected",
    [
        ("s", [5, 3], (3000, 5000)),
        ("ms", [5, 3], (3, 5)),
        ("us", [5999, 3001], (3, 5)),
        ("ns", [5_999_999, -1], (-1, 5)),
        ("us", [None, 7000], (7, 7)),
        ("us", [None, None], (0, 0)),
    ],
)
def test_timestamps_of_every_unit_become_milliseconds(
    tmp_path: Path, unit: str, values: list[int | None], expected: tuple[int, int]
) -> None:
    depot = Depot(tmp_path)
    batch = pa.record_batch([pa.array(values, pa.timestamp(unit, "UTC"))], names=["at"])
    artifact = depot.make(batch, ts_column="at")
    assert (artifact.min_ts, artifact.max_ts) == expected
    read = _read(depot, artifact)["at"].combine_chunks()
    assert read.cast(batch["at"].type).equals(batch["at"])  # Parquet has no seconds


def test_times_that_are_missing_do_not_count_and_none_loses_precision(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    times = [2**62 + 1, None, -(2**62) - 1]
    artifact = depot.make(pa.record_batch([pa.array(times, pa.int64())], names=["ts"]))
    assert (artifact.min_ts, artifact.max_ts) == (-(2**62) - 1, 2**62 + 1)


def test_types_that_parquet_does_not_know_come_back_as_they_were(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("ns", "Europe/Oslo")),
            pa.field("label", pa.dictionary(pa.int32(), pa.string())),
            pa.field("big", pa.large_string()),
            pa.field("small", pa.int16()),
            pa.field("nested", pa.list_(pa.struct([("x", pa.float32())]))),
        ],
        metadata={"made": "here"},
    )
    values = {
        "ts": [1, 2],
        "label": ["a", "b"],
        "big": ["x", None],
        "small": [1, -1],
        "nested": [[{"x": 1.5}], []],
    }
    columns = [pa.array(values[field.name], field.type) for field in schema]
    batch = pa.record_batch(columns, schema=schema)
    depot = Depot(tmp_path)
    for artifact in (
        depot.make(batch),
        depot.make(*[batch] * 500, attempt=attempt_id(2)),  # no longer tiny: other encodings
    ):
        table = _read(depot, artifact)
        assert table.schema.equals(schema)
        assert table.slice(0, 2).combine_chunks().equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize("count", [1, 3000], ids=["tiny", "not tiny"])
def test_every_type_of_column_comes_back(tmp_path: Path, count: int) -> None:
    columns = {
        "bool": pa.array([True, None] * count),
        "null": pa.nulls(2 * count),
        "int8": pa.array([-1, None] * count, pa.int8()),
        "uint32": pa.array([2**32 - 1, 0] * count, pa.uint32()),
        "uint64": pa.array([2**64 - 1, None] * count, pa.uint64()),
        "float16": pa.array([1.5, -2.0] * count, pa.float16()),
        "float32": pa.array([1.5, None] * count, pa.float32()),
        "float64": pa.array([float("inf"), -0.0] * count),
        "decimal": pa.array([Decimal("12.34"), None] * count, pa.decimal128(20, 2)),
        "date": pa.array([1, None] * count, pa.date32()),
        "time": pa.array([1, 2] * count, pa.time64("us")),
        "duration": pa.array([1, 2] * count, pa.duration("ms")),
        "naive": pa.array([1, None] * count, pa.timestamp("us")),
        "binary": pa.array([b"\0\xff", None] * count, pa.binary()),
        "fixed": pa.array([b"1234", None] * count, pa.binary(4)),
        "large": pa.array([b"x", b""] * count, pa.large_binary()),
        "list": pa.array([[1, None], None] * count, pa.list_(pa.int64())),
        "struct": pa.array([{"a": 1, "b.c": "x"}, None] * count),
        "map": pa.array([[("k", 1)], []] * count, pa.map_(pa.string(), pa.int64())),
        "enum": pa.array(["a", "b"] * count, pa.dictionary(pa.int8(), pa.string())),
        "with.dots": pa.array([1, 2] * count),
    }
    depot = Depot(tmp_path)
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    table = _read(depot, depot.make(batch, ts_column=None))
    for name, column in columns.items():
        assert table.column(name).combine_chunks().equals(column), name


def test_columns_of_one_name_are_written_too(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    batch = pa.record_batch([list(range(2000)), ["text"] * 2000], names=["x", "x"])
    artifact = depot.make(batch, ts_column=None)
    assert _read(depot, artifact).column(0).to_pylist() == list(range(2000))


def test_a_column_named_like_a_part_of_another_is_written_too(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    inner = pa.array([[float(number)] for number in range(2000)])
    batch = pa.record_batch([inner, ["text"] * 2000], names=["x", "x.list.element"])
    artifact = depot.make(batch, ts_column=None)
    assert _read(depot, artifact).column(0).combine_chunks().equals(inner)


def _columns(depot: Depot, artifact: Artifact) -> dict[str, Any]:
    """What the footer says of each column, by its path."""
    group = pq.read_metadata(pa.BufferReader(depot.content(artifact))).row_group(0)
    return {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}


def _of_lists(count: int) -> Any:
    floats = pa.list_(pa.field("element", pa.float64()))
    pairs = pa.list_(pa.field("element", pa.struct([("index", pa.int32()), ("count", pa.float64())])))
    values = [[float(number), None] for number in range(count)]
    buckets = [[{"index": number, "count": 0.5}] for number in range(count)]
    return pa.record_batch([pa.array(values, floats), pa.array(buckets, pairs)], names=["values", "buckets"])


def test_numbers_in_lists_are_laid_out_like_others(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    columns = _columns(depot, depot.make(_of_lists(2000), ts_column=None))
    assert "BYTE_STREAM_SPLIT" in columns["values.list.element"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["buckets.list.element.count"].encodings
    assert "DELTA_BINARY_PACKED" in columns["buckets.list.element.index"].encodings


@pytest.mark.parametrize("count", [1, 2000], ids=["tiny", "not tiny"])
def test_lists_as_parquet_names_them_need_no_schema_beside_them(tmp_path: Path, count: int) -> None:
    depot = Depot(tmp_path)
    artifact = depot.make(batch := _of_lists(count), ts_column=None)
    assert b"ARROW:schema" not in pq.read_metadata(pa.BufferReader(depot.content(artifact))).metadata
    assert _read(depot, artifact).equals(pa.Table.from_batches([batch]))


def test_only_texts_that_repeat_have_a_dictionary(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    columns = {
        "level": ["info", "error"] * 1000,
        "line": [f"line {number}" for number in range(2000)],
        "rare": ["a"] + [None] * 1999,
        "never": pa.nulls(2000, pa.string()),
    }
    found = _columns(depot, depot.make(pa.record_batch(columns), ts_column=None))
    assert [name for name, column in found.items() if column.has_dictionary_page] == ["level"]


@pytest.mark.parametrize("column", ["when", "text", "twice"])
def test_a_time_column_that_is_none_is_refused_by_name_and_leaves_nothing(tmp_path: Path, column: str) -> None:
    depot = Depot(tmp_path)
    schema = pa.schema([("ts", pa.int64()), ("text", pa.string()), ("twice", pa.int64()), ("twice", pa.int64())])
    writer = depot.spool.create(attempt_id())
    with pytest.raises(QuarterdeckError, match=f"'{column}'") as caught:
        writer.open(schema, column)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert files_in(depot.folder) == []


def test_small_batches_are_put_together_and_large_ones_are_cut_to_row_groups_of_about_128k_rows(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    small = [rows(at, 1000) for at in range(0, 150_000, 1000)]
    for batches, expected in ((small, [132_000, 18_000]), ([rows(0, 300_000)], [150_000, 150_000])):
        artifact = depot.make(*batches, attempt=attempt_id(len(batches)))
        assert _groups(depot, artifact) == expected
        assert artifact.row_count == sum(batch.num_rows for batch in batches)


def _groups(depot: Depot, artifact: Artifact) -> list[int]:
    footer = pq.read_metadata(pa.BufferReader(depot.content(artifact)))
    return [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]


def test_rows_that_are_wide_make_smaller_row_groups(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    groups = _groups(depot, depot.make(noise(megabytes=50)))
    assert sum(groups) == 50 * 1024
    assert max(groups) <= 32 * 1024


def test_a_batch_of_another_schema_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    writer = depot.spool.create(attempt_id())
    writer.open(SCHEMA, "ts")
    writer.write(rows(0, 200_000))
    with pytest.raises(QuarterdeckError, match="it was opened for") as caught:
        writer.write(pa.record_batch([[1]], names=["ts"]))
    assert caught.value.code is ErrorCode.INTERNAL
    assert files_in(depot.folder) == []
    assert depot.used_bytes() == 0


@pytest.mark.parametrize("limit_bytes", [100, 300_000])
def test_a_full_disk_raises_as_such_and_leaves_nothing(tmp_path: Path, limit_bytes: int) -> None:
    depot = Depot(tmp_path, limit_bytes=limit_bytes)
    with pytest.raises(DiskFullError):
        depot.make(noise(megabytes=1))
    assert files_in(depot.folder) == []
    assert depot.used_bytes() == 0
    assert len(depot.spool) == 0


def test_a_full_disk_in_the_middle_ends_the_writer(tmp_path: Path) -> None:
    depot = Depot(tmp_path, limit_bytes=10 * 2**20)
    batch = noise(megabytes=33)
    writer = depot.spool.create(attempt_id())
    writer.open(batch.schema, "ts")
    with pytest.raises(DiskFullError):
        writer.write(batch)
    assert files_in(depot.folder) == []
    with pytest.raises(RuntimeError):
        writer.write(batch)
    with pytest.raises(RuntimeError):
        writer.finish()
    writer.abandon()


def test_an_artifact_that_cannot_be_announced_leaves_nothing(depot: Depot) -> None:
    def no_url() -> str:
        raise OSError("the server is not up")

    spool = ArtifactSpool(depot.folder, depot.budget, no_url, depot.lost.append, memory_limit_bytes=0)
    batch = noise(megabytes=1)
    writer = spool.create(attempt_id())
    writer.open(batch.schema, "ts")
    writer.write(batch)
    with pytest.raises(OSError, match="not up"):
        writer.finish()
    assert files_in(depot.folder) == []
    assert depot.used_bytes() == 0
    assert len(spool) == 0


def test_what_is_abandoned_leaves_nothing_at_whatever_moment(tmp_path: Path) -> None:
    depot = Depot(tmp_path)
    for moment in range(4):
        writer = depot.spool.create(attempt_id(moment))
        if moment > 0:
            writer.open(SCHEMA, "ts")
        if moment > 1:
            writer.write(rows(0, 10))
        if moment > 2:
            writer.write(rows(0, 500_000, text="x" * 50))
        writer.abandon()
        writer.abandon()
        del writer
        assert files_in(depot.folder) == []
        assert depot.used_bytes() == 0
    assert len(depot.spool) == 0


def test_abandoning_what_is_finished_does_nothing(depot: Depot) -> None:
    writer = depot.spool.create(attempt_id())
    writer.open(SCHEMA, "ts")
    artifact = writer.finish()
    writer.abandon()
    assert _read(depot, artifact).num_rows == 0


def test_a_writer_is_opened_and_finished_once(depot: Depot) -> None:
    writer = depot.spool.create(attempt_id())
    with pytest.raises(RuntimeError):
        writer.write(rows(0, 1))
    with pytest.raises(RuntimeError):
        writer.finish()
    writer.open(SCHEMA, "ts")
    with pytest.raises(RuntimeError):
        writer.open(SCHEMA, "ts")
    writer.finish()
    with pytest.raises(RuntimeError):
        writer.finish()
