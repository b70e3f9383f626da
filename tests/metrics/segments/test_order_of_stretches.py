"""A series whose parts lie in several segments comes out in the order of time, whichever segment begins first."""

from pathlib import Path

import numpy as np
import pytest

from quarterdeck.metrics.promql.blocks import Axis, SeriesBlock, totals_before
from quarterdeck.metrics.promql.labels import from_mapping
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments import source as source_module
from quarterdeck.metrics.segments.file import SegmentFile, checksum_of
from quarterdeck.metrics.segments.layout import segment_bytes
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.metrics.segments.source import OpenSegment, SegmentSource

_ALL = (Matcher("__name__", MatchOp.EQUAL, "m"),)


def _segment(folder: Path, number: int, samples: dict[str, list[tuple[int, float]]]) -> OpenSegment:
    labels = [from_mapping({"__name__": "m", "host": host}) for host in samples]
    pairs = [pair for some in samples.values() for pair in some]
    times = np.array([time for time, _ in pairs], np.int64)
    offsets = totals_before(np.array([len(some) for some in samples.values()], np.int64))
    data = segment_bytes(SeriesBlock(Axis.of(labels), offsets, times, np.array([value for _, value in pairs])))
    path = folder / f"{number}.parquet"
    path.write_bytes(data)
    return OpenSegment(number, int(times.min()), SegmentFile(path, f"file:///{number}", checksum_of(data)), 1)


def _selected(*segments: OpenSegment) -> dict[str, list[tuple[int, float]]]:
    block = SegmentSource(segments, Shelf(1 << 20)).select(_ALL, 0, 1000)
    rows = zip(block.timestamps.tolist(), block.values.tolist(), strict=True)
    pairs = list(rows)
    bounds: list[int] = block.offsets.tolist()
    return {
        dict(labels)["host"]: pairs[low:high]
        for labels, low, high in zip(block.axis.labels, bounds, bounds[1:], strict=False)
    }


def test_parts_that_do_not_overlap_are_put_in_order_without_sorting_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> SeriesBlock:
        raise AssertionError("all samples were sorted")

    monkeypatch.setattr(source_module, "_in_order", never)
    # The first segment begins earlier, and has the later part of `a`.
    first = _segment(tmp_path, 1, {"a": [(30, 3.0), (40, 4.0)], "b": [(5, 0.5)]})
    second = _segment(tmp_path, 2, {"a": [(10, 1.0), (20, 2.0)], "b": [(15, 1.5)]})
    assert _selected(first, second) == {
        "a": [(10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)],
        "b": [(5, 0.5), (15, 1.5)],
    }


def test_where_parts_overlap_the_later_segment_counts(tmp_path: Path) -> None:
    first = _segment(tmp_path, 1, {"a": [(10, 1.0), (20, 2.0), (30, 3.0)]})
    second = _segment(tmp_path, 2, {"a": [(10, 10.0), (15, 15.0), (30, 30.0)]})
    wanted = {"a": [(10, 10.0), (15, 15.0), (20, 2.0), (30, 30.0)]}
    assert _selected(first, second) == wanted
    assert _selected(second, first) == wanted
