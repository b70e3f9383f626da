"""`_created` lines as start timestamps, where somebody asks for it; and as metrics of their own where nobody does."""

from pathlib import Path

import numpy as np
import pytest

from quarterdeck.metrics.importing import created as module
from quarterdeck.metrics.importing import text_reader
from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.created import CreatedReader
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.promql.labels import METRIC_NAME, drop_name, get
from tests.metrics.importing.files import refusal, write

Told = list[tuple[str, int, float, int]]

COUNTER = """# TYPE pumped counter
pumped_total{pump="a"} 5 100
pumped_created{pump="a"} 40.5 100
pumped_total{pump="b"} 6 100
"""


def told(reader: SampleReader) -> Told:
    """Of each sample its metric with its other labels' values, time, value and start."""
    found: Told = []
    for batch in reader.batches():
        assert len(set(batch.labels)) == len(batch.labels) == len(np.unique(batch.series))
        starts = np.zeros(len(batch.timestamps), np.int64) if batch.starts is None else batch.starts
        names = [
            " ".join([get(labels, METRIC_NAME), *(text for _, text in drop_name(labels))]) for labels in batch.labels
        ]
        places: list[int] = batch.series.tolist()
        shown = [names[place] for place in places]
        found += zip(shown, batch.timestamps.tolist(), batch.values.tolist(), starts.tolist(), strict=True)
    return found


def created(folder: Path, lines: str) -> Told:
    return told(CreatedReader(write(folder, f"{lines}# EOF\n")))


def test_a_counter_gets_the_time_of_its_created_line_which_is_no_metric_then(tmp_path: Path) -> None:
    assert created(tmp_path, COUNTER) == [("pumped_total a", 100_000, 5, 40_500), ("pumped_total b", 100_000, 6, 0)]


def test_without_being_asked_created_lines_are_metrics_like_any_other(tmp_path: Path) -> None:
    assert told(OpenMetricsReader(write(tmp_path, f"{COUNTER}# EOF\n"))) == [
        ("pumped_total a", 100_000, 5, 0),
        ("pumped_created a", 100_000, 40.5, 0),
        ("pumped_total b", 100_000, 6, 0),
    ]


def test_all_series_of_a_histogram_and_a_summary_get_it(tmp_path: Path) -> None:
    lines = """# TYPE lift histogram
lift_bucket{crane="a",le="1"} 1 100
lift_bucket{crane="a",le="+Inf"} 2 100
lift_count{crane="a"} 2 100
lift_sum{crane="a"} 3 100
lift_created{crane="a"} 7 100
# TYPE haul summary
haul{quantile="0.5"} 1 100
haul_count 2 100
haul_sum 3 100
haul_created 8 100
"""
    found = created(tmp_path, lines)
    assert {start for name, _, _, start in found if name.startswith("lift")} == {7000}
    assert {start for name, _, _, start in found if name.startswith("haul")} == {8000}
    assert len(found) == 7


def test_other_types_and_untyped_metrics_keep_their_created_lines(tmp_path: Path) -> None:
    lines = """# TYPE tide gauge
tide 1 100
tide_created 5 100
boats_total 3 100
boats_created 6 100
# TYPE ropes counter
ropes_total 3 100
# TYPE ropes_created gauge
ropes_created 9 100
"""
    found = created(tmp_path, lines)
    assert [name for name, *_ in found] == [
        *("tide", "tide_created", "boats_total", "boats_created", "ropes_total", "ropes_created"),
    ]
    assert [start for *_, start in found] == [0] * 6


@pytest.mark.parametrize("batch_lines", [1, 2, 500_000])
def test_lines_may_stand_anywhere_and_each_sample_gets_the_start_that_was_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_lines: int
) -> None:
    """As in a dump, where series come one after the other, and the types last."""
    monkeypatch.setattr(text_reader, "BATCH_SAMPLES", batch_lines)
    monkeypatch.setattr(module, "_COMPACT_AT", 1)
    lines = """hits_created{i="b"} 10 100
hits_created{i="b"} 10 110
hits_created{i="b"} 115 120
hits_total{i="b"} 1 5
hits_total{i="b"} 2 110
hits_total{i="b"} 1 115
hits_total{i="b"} 1 120
hits_total{i="c"} 9 120
# TYPE hits counter
"""
    assert created(tmp_path, lines) == [
        ("hits_total b", 5_000, 1, 0),
        ("hits_total b", 110_000, 2, 10_000),
        ("hits_total b", 115_000, 1, 10_000),
        ("hits_total b", 120_000, 1, 115_000),
        ("hits_total c", 120_000, 9, 0),
    ]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e300", "-9300000000000"])
def test_a_created_line_that_names_no_time_is_refused(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, f'# TYPE a counter\na_total{{i="x"}} 1 100\na_created{{i="x"}} {value} 100\n# EOF\n')
    error = refusal(CreatedReader(path))
    assert error.what == f"{path} cannot be imported"
    assert error.why.startswith('{__name__="a_created", i="x"} is ')
    assert "without --created-timestamps" in error.next_step


def test_more_different_starts_than_there_is_room_for_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_STARTS", 2)
    lines = "".join(f"a_created {at} 100\n" for at in range(3))
    error = refusal(CreatedReader(write(tmp_path, f"# TYPE a counter\n{lines}# EOF\n")))
    assert "more than 2 different times" in error.why


def test_reading_has_come_all_the_way_when_the_file_was_read_twice(tmp_path: Path) -> None:
    reader = CreatedReader(write(tmp_path, f"{COUNTER}# EOF\n"))
    told(reader)
    assert reader.read_bytes == reader.size_bytes > 0
    assert reader.metadata["pumped"].type == "counter"
