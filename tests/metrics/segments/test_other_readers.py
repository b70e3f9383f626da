"""A segment is plain Parquet: whoever reads that can read one."""

from pathlib import Path

import duckdb
import numpy as np

from quarterdeck.metrics.promql.blocks import Axis, SeriesBlock
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.segments.layout import segment_bytes

SERIES = (
    from_mapping({"__name__": "bilge", "job": "pump", "where": 'aft "é"'}),
    from_mapping({"__name__": "bilge", "where": "fore"}),
)


def segment(folder: Path, histogram: NativeHistogram | None = None) -> Path:
    """Two samples of one series, one of another."""
    path = folder / "segment.parquet"
    histograms = None if histogram is None else np.array([None, None, histogram], dtype=object)
    offsets, times, values = np.array([0, 2, 3]), np.array([0, 1500, 60_000]), np.array([1.0, np.nan, -0.5])
    path.write_bytes(segment_bytes(SeriesBlock(Axis.of(SERIES), offsets, times, values, histograms)))
    return path


def test_duckdb_reads_a_segment(tmp_path: Path) -> None:
    with duckdb.connect(":memory:") as database:
        rows = database.sql(
            f"SELECT metric, labels->>'job', labels->>'where', epoch_ms(timestamp), value "
            f"FROM '{segment(tmp_path)}' ORDER BY ALL"
        ).fetchall()
    assert repr(rows) == repr(
        [
            ("bilge", "pump", 'aft "é"', 0, 1.0),
            ("bilge", "pump", 'aft "é"', 1500, np.nan),
            ("bilge", None, "fore", 60_000, -0.5),
        ]
    )


def test_duckdb_reads_native_histograms(tmp_path: Path) -> None:
    path = segment(tmp_path, NativeHistogram(1, count=3, total=4, positive=((0, 1.0), (2, 2.0))))
    with duckdb.connect(":memory:") as database:
        [row] = database.sql(
            f"SELECT histogram.count, histogram.sum, histogram.schema, list_sum([b.count FOR b IN histogram.positive]) "
            f"FROM '{path}' WHERE histogram IS NOT NULL AND value IS NULL"
        ).fetchall()
    assert row == (3.0, 4.0, 1, 3.0)
