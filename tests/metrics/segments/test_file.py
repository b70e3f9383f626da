"""A segment's file: every bit comes back, any tool can read it, and one that is broken is never taken for sound."""

import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as _pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet as _parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.segments import layout
from quarterdeck.metrics.segments.file import SegmentFile, UnreadableSegmentError, checksum_of
from quarterdeck.metrics.segments.label_text import label_text, labels_of
from quarterdeck.metrics.segments.layout import segment_bytes
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.metrics.segments.source import OpenSegment, SegmentSource
from tests.metrics.segments.stored import Chance, Samples, as_stored, told
from tests.metrics.transfer.blocks import Blocks

pa: Any = _pyarrow
pq: Any = _parquet

UP: Labels = ((METRIC_NAME, "up"), ("job", "a"))
STALE = float(np.array([0x7FF0000000000002], np.uint64).view(np.float64)[0])


def opened(data: bytes, folder: Path) -> SegmentFile:
    path = folder / "s.parquet"
    path.write_bytes(data)
    return SegmentFile(path, "lake/s.parquet", checksum_of(data))


def all_of(file: SegmentFile) -> dict[Labels, list[tuple[int, object]]]:
    return told(SegmentSource([OpenSegment(1, 0, file, 1)], Shelf(0)).select((), -(2**60), 2**60))


@pytest.mark.parametrize("seed", range(15))
def test_every_bit_comes_back(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Chance(seed)
    monkeypatch.setattr(layout, "GROUP_ROWS", chance.one((1, 4, 1_000)))
    series = sorted({chance.labels() for _ in range(20)})
    block = as_stored(chance.samples(series, range(0, 20, 2)))
    file = opened(segment_bytes(block), tmp_path)
    assert all_of(file) == told(block)
    assert sum(group.row_count for group in file.groups) == len(block.timestamps)


def test_labels_sorted_before_the_name_no_labels_and_no_name_come_back(tmp_path: Path) -> None:
    odd: Samples = {
        (("Zone", "b"), (METRIC_NAME, "up"), ("job", "a")): {1: (STALE, None)},
        (("Zone", "b"), ("job", "a")): {1: (2.0, None)},
        ((METRIC_NAME, "up"),): {1: (3.0, None)},
        (): {1: (4.0, None)},
    }
    assert all_of(opened(segment_bytes(as_stored(odd)), tmp_path)) == told(as_stored(odd))


def test_times_far_from_1970_come_back(tmp_path: Path) -> None:
    far: Samples = {UP: {-9_200_000_000_000_000: (1.0, None), 9_200_000_000_000_000: (2.0, None)}}
    file = opened(segment_bytes(as_stored(far)), tmp_path)
    assert (file.groups[0].min_ts_ms, file.groups[0].max_ts_ms) == tuple(far[UP])
    assert all_of(file) == told(as_stored(far))


@pytest.mark.parametrize("pairs", [(), (("a", "\udcff"),), (("a", "é\n\x00"), ("\udc80\U0001f600", "x"))])
def test_any_labels_are_a_text_that_can_be_stored(pairs: Labels) -> None:
    text = label_text((*pairs, (METRIC_NAME, "up")))
    assert text.encode()
    assert labels_of("up", text) == tuple(sorted((*pairs, (METRIC_NAME, "up"))))
    assert labels_of("", text) == tuple(sorted(pairs))


@pytest.mark.parametrize("text", ["", "[]", "null", '{"a":1}', '{"a":null}', "{"])
def test_a_text_that_is_no_labels_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        labels_of("up", text)


def test_duckdb_shows_metric_labels_time_and_value(tmp_path: Path) -> None:
    samples: Samples = {UP: {0: (1.5, None), 60_000: (2.5, Blocks(1).histogram())}}
    file = opened(segment_bytes(as_stored(samples)), tmp_path)
    with duckdb.connect() as database:
        rows = database.execute(
            "select metric, labels->>'job', epoch_ms(timestamp), value, histogram is null "
            f"from read_parquet('{file.path}') order by timestamp"
        ).fetchall()
    assert rows == [("up", "a", 0, 1.5, True), ("up", "a", 60_000, None, False)]


# What is broken


def broken_samples() -> Samples:
    histogram = Blocks(7).histogram()
    return {
        ((METRIC_NAME, f"m{i}"), ("i", str(i))): {
            time: (float(i + time), histogram if i == 2 else None) for time in range(4)
        }
        for i in range(5)
    }


def test_one_changed_byte_anywhere_is_found_when_it_is_opened(tmp_path: Path) -> None:
    data = segment_bytes(as_stored(broken_samples()))
    path = tmp_path / "s.parquet"
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        with pytest.raises(UnreadableSegmentError, match=r"lake/s.parquet.*checksum"):
            SegmentFile(path, "lake/s.parquet", checksum_of(data))


def test_a_byte_that_changes_after_that_is_an_error_or_the_right_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 6)
    data = segment_bytes(as_stored(broken_samples()))
    file = opened(data, tmp_path)
    right = all_of(file)
    errors: list[str] = []
    with file.path.open("r+b", buffering=0) as raw:
        for place in range(0, len(data), 53):
            os.pwrite(raw.fileno(), bytes([data[place] ^ (1 << place % 8)]), place)
            try:
                assert all_of(file) == right, place
            except UnreadableSegmentError as error:
                errors.append(error.url)
            os.pwrite(raw.fileno(), data[place : place + 1], place)
    assert len(errors) > 15
    assert set(errors) == {"lake/s.parquet"}
    assert all_of(file) == right


def test_a_file_that_is_cut_off_or_gone_is_unreadable(tmp_path: Path) -> None:
    data = segment_bytes(as_stored(broken_samples()))
    file = opened(data, tmp_path)
    os.truncate(file.path, 50)
    with pytest.raises(UnreadableSegmentError):
        all_of(file)
    with pytest.raises(UnreadableSegmentError, match="checksum"):
        SegmentFile(file.path, file.url, checksum_of(data))
    file.path.unlink()
    with pytest.raises(UnreadableSegmentError):
        all_of(file)
    with pytest.raises(UnreadableSegmentError, match="No such file"):
        SegmentFile(file.path, file.url, checksum_of(data))


def written(table: dict[str, Any], folder: Path) -> bytes:
    pq.write_table(pa.table(table), folder / "other.parquet")
    return (folder / "other.parquet").read_bytes()


def test_parquet_that_is_no_segment_is_told_what_it_lacks(tmp_path: Path) -> None:
    times = pa.array([0], pa.timestamp("ms", "UTC"))
    good = {"metric": ["up"], "labels": ["{}"], "timestamp": times, "value": [1.0]}
    assert len(all_of(opened(written(good, tmp_path), tmp_path))) == 1
    for lost in good:
        with pytest.raises(UnreadableSegmentError, match=f"no column {lost}"):
            opened(written({name: one for name, one in good.items() if name != lost}, tmp_path), tmp_path)
    with pytest.raises(UnreadableSegmentError, match="another form"):
        opened(written({**good, "histogram": [1]}, tmp_path), tmp_path)
    for name, wrong in (("labels", "[1]"), ("labels", "{"), ("labels", None), ("metric", None)):
        with pytest.raises(UnreadableSegmentError):
            all_of(opened(written({**good, name: pa.array([wrong], pa.string())}, tmp_path), tmp_path))
    with pytest.raises(UnreadableSegmentError):
        opened(written({**good, "metric": [["up"]]}, tmp_path), tmp_path)
    with pytest.raises(UnreadableSegmentError):
        opened(b"no parquet at all", tmp_path)


def test_an_unreadable_segment_is_an_error_that_retrying_does_not_cure() -> None:
    error = UnreadableSegmentError("s3://lake/a", "it is torn")
    assert (error.code, error.retryable) == (ErrorCode.WORK_FAILED, False)
    assert "s3://lake/a" in error.message
    assert "it is torn" in error.message
