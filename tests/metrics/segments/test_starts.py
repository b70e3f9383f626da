"""Start timestamps in segments: they come back, they go with their sample, and a segment without them is as before."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.metrics.promql.blocks import I64, Axis, SeriesBlock
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.segments import layout
from quarterdeck.metrics.segments.file import SegmentFile, UnreadableSegmentError, checksum_of
from quarterdeck.metrics.segments.layout import segment_bytes
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.metrics.segments.source import OpenSegment, SegmentSource

pa: Any = _pyarrow
pq: Any = _parquet

A: Labels = ((METRIC_NAME, "pumped_total"), ("pump", "a"))
B: Labels = ((METRIC_NAME, "pumped_total"), ("pump", "b"))


def block(rows: dict[Labels, list[tuple[int, float, int]]], *, without: bool = False) -> SeriesBlock:
    """Times, values and starts of some series."""
    flat = [row for some in rows.values() for row in some]
    times, values, starts = (np.array(column) for column in zip(*flat, strict=True))
    return SeriesBlock(
        Axis.of(list(rows)),
        np.cumsum([0, *map(len, rows.values())]).astype(np.int64),
        times.astype(np.int64),
        values.astype(np.float64),
        None,
        None if without else starts.astype(np.int64),
    )


def opened(data: bytes, folder: Path, number: int = 1, min_ts_ms: int = 0) -> OpenSegment:
    path = folder / f"{number}.parquet"
    path.write_bytes(data)
    return OpenSegment(number, min_ts_ms, SegmentFile(path, path.name, checksum_of(data)), 1)


def read(*segments: OpenSegment, start_ms: int = -(2**60), end_ms: int = 2**60) -> SeriesBlock:
    return SegmentSource(segments, Shelf(1 << 20)).select((), start_ms, end_ms)


def starts_of(found: SeriesBlock) -> list[int]:
    assert found.starts is not None
    return found.starts.tolist()


@pytest.mark.parametrize("group_rows", [1, 2, 1000])
def test_starts_come_back_whatever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", group_rows)
    far = 9_200_000_000_000_000
    stored = block({A: [(1, 1.0, 0), (2, 2.0, -5), (3, 3.0, far)], B: [(1, 4.0, -far), (2, 5.0, 2), (3, 6.0, 0)]})
    found = read(opened(segment_bytes(stored), tmp_path))
    assert starts_of(found) == [0, -5, far, -far, 2, 0]
    assert found.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_segment_without_starts_has_no_column_for_them_and_reads_fine(tmp_path: Path) -> None:
    data = segment_bytes(block({A: [(1, 1.0, 0)]}, without=True))
    names = pq.read_schema(pa.BufferReader(data)).names
    assert names == ["metric", "labels", "timestamp", "value"]
    assert read(opened(data, tmp_path)).starts is None


def test_a_column_of_nothing_costs_no_memory(tmp_path: Path) -> None:
    segment = opened(segment_bytes(block({A: [(1, 1.0, 0)]})), tmp_path)
    assert "start_timestamp" in pq.read_schema(segment.file.path).names
    assert segment.file.read_samples(0).starts is None
    assert read(segment).starts is None


def test_the_time_that_is_asked_for_cuts_starts_too(tmp_path: Path) -> None:
    rows = [(time, float(time), time - 3) for time in range(10, 30)]
    segment = opened(segment_bytes(block({A: rows, B: rows})), tmp_path)
    assert starts_of(read(segment, start_ms=12, end_ms=14)) == [9, 10, 11] * 2
    assert read(opened(segment_bytes(block({A: [(1, 1.0, 7), (2, 2.0, 0)]})), tmp_path, 2), start_ms=2).starts is None


def test_segments_with_and_without_starts_are_put_together(tmp_path: Path) -> None:
    """Of samples of one time the later segment's counts, with its start or with none."""
    first = opened(
        segment_bytes(block({A: [(1, 1.0, -1), (2, 2.0, -1), (3, 3.0, -1)], B: [(1, 1.0, -9)]})), tmp_path, 1
    )
    second = opened(segment_bytes(block({A: [(2, 9.0, 0), (4, 4.0, 0)]}, without=True)), tmp_path, 2)
    third = opened(segment_bytes(block({A: [(3, 8.0, 2)]})), tmp_path, 3)
    found = read(first, second, third)
    assert found.timestamps.tolist() == [1, 2, 3, 4, 1]
    assert found.values.tolist() == [1.0, 9.0, 8.0, 4.0, 1.0]
    assert starts_of(found) == [-1, 0, 2, 0, -9]


def test_room_is_asked_for_starts_before_they_are_put_together(tmp_path: Path) -> None:
    asked: dict[bool, int] = {}
    for without in (False, True):
        rows: list[tuple[int, float, int]] = [(time, 1.0, 5) for time in range(1000)]
        sizes: list[int] = []
        segment = opened(segment_bytes(block({A: rows}, without=without)), tmp_path, 1 + without)
        SegmentSource([segment], Shelf(0)).select((), 0, 2000, sizes.append)
        asked[without] = max(sizes)
    assert asked[False] - asked[True] == 1000 * 8 * 2


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    columns = pq.read_table(pa.BufferReader(segment_bytes(block({A: [(1, 1.0, 1)]}))))
    wrong: I64 = np.array([1], np.int64)
    at = columns.schema.get_field_index("start_timestamp")
    path = tmp_path / "wrong.parquet"
    pq.write_table(columns.set_column(at, "start_timestamp", pa.array(wrong)), path, store_schema=False)
    with pytest.raises(UnreadableSegmentError, match="column start_timestamp is of another form: int64"):
        SegmentFile(path, "wrong.parquet", checksum_of(path.read_bytes()))
