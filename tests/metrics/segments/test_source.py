"""What is selected from segments is what is selected from the same samples in memory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.metrics.planning import Selection, divide
from quarterdeck.metrics.promql.errors import LimitExceeded
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments import layout
from quarterdeck.metrics.segments.shelf import Shelf
from quarterdeck.metrics.segments.source import SegmentSource
from tests.metrics.segments.stored import Chance, Lake, Samples, in_memory, told
from tests.metrics.transfer.blocks import Blocks

UP: Labels = ((METRIC_NAME, "up"), ("job", "a"))
EVERYTHING = (-(2**40), 2**40)


def shelf() -> Shelf:
    return Shelf(1 << 30)


@pytest.mark.parametrize("seed", range(25))
def test_any_division_into_segments_and_works_selects_what_memory_selects(seed: int, tmp_path: Path) -> None:
    chance = Chance(seed)
    lake = chance.lake(tmp_path)
    truth = in_memory(lake.samples)
    kept = Shelf(chance.one((0, 5_000, 1 << 30)))
    for _ in range(6):
        matchers, (start, end) = chance.matchers(), chance.times()
        division = divide(lake.universe(), [Selection(matchers, start, end)], chance.one((1, 10, 100, 10_000)))
        found: dict[Labels, object] = {}
        for work in division.works:
            segments = lake.opened(ref.segment_id for ref in work.segments)
            block = SegmentSource(segments, kept, work.part).select(matchers, start, end)
            assert list(block.axis.labels) == sorted(block.axis.labels)
            part = told(block)
            assert not found.keys() & part.keys(), "a series is in two works"
            found |= part
        assert found == told(truth.select(matchers, start, end))


@pytest.mark.parametrize("seed", range(12))
def test_series_are_all_that_have_samples_then_and_only_such_as_match(seed: int, tmp_path: Path) -> None:
    chance = Chance(1_000 + seed)
    lake = chance.lake(tmp_path)
    truth = in_memory(lake.samples)
    for _ in range(6):
        matchers, (start, end) = chance.matchers(), chance.times()
        division = divide(lake.universe(), [Selection(matchers, start, end)], chance.one((1, 100)))
        found: list[Labels] = []
        for work in division.works:
            segments = lake.opened(ref.segment_id for ref in work.segments)
            found += SegmentSource(segments, shelf(), work.part).series(matchers, start, end, lambda _: None)
        assert len(found) == len(set(found)), "a series is in two works"
        assert set(truth.select(matchers, start, end).axis.labels) <= set(found)
        assert set(found) <= set(truth.select(matchers, *EVERYTHING).axis.labels)


def test_of_two_samples_of_one_time_the_one_of_the_later_segment_counts(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.store({UP: {5: (1.0, None), 6: (1.0, None)}})
    lake.store({UP: {0: (2.0, None), 6: (2.0, None)}})
    lake.store({UP: {6: (3.0, None), 7: (3.0, None)}})
    block = SegmentSource(list(reversed(lake.opened())), shelf()).select((), 0, 10)
    assert block.timestamps.tolist() == [0, 5, 6, 7]
    assert block.values.tolist() == [2.0, 1.0, 3.0, 3.0]


def test_a_histogram_and_a_float_of_one_time_replace_each_other(tmp_path: Path) -> None:
    histogram = Blocks(1).histogram()
    lake = Lake(tmp_path)
    lake.store({UP: {0: (1.0, None), 1: (0.0, histogram)}})
    lake.store({UP: {0: (0.0, histogram), 1: (2.0, None)}})
    block = SegmentSource(lake.opened(), shelf()).select((), 0, 10)
    assert told(block) == told(in_memory(lake.samples).select((), 0, 10))
    assert block.histograms is not None
    assert [one is None for one in block.histograms] == [False, True]


def many(count: int, steps: int) -> Samples:
    """Series of two metrics."""
    return {
        ((METRIC_NAME, f"m{i % 2}"), ("i", str(i))): {time: (float(i), None) for time in range(steps)}
        for i in range(count)
    }


def of_metric(name: str) -> tuple[Matcher, ...]:
    return (Matcher(METRIC_NAME, MatchOp.EQUAL, name),)


def test_row_groups_of_other_metrics_and_times_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 10)
    lake = Lake(tmp_path)
    lake.store(many(4, 10))
    source = SegmentSource(lake.opened(), shelf())
    assert len(source.select(of_metric("m1"), 0, 100).axis) == 2
    assert (source.reading.groups_read, source.reading.groups_pruned) == (2, 2)
    source = SegmentSource(lake.opened(), shelf())
    assert len(source.select((), 10, 100).axis) == 0
    assert (source.reading.groups_read, source.reading.groups_pruned) == (0, 4)


def test_samples_are_read_only_where_a_series_matches_and_what_was_read_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 10)
    lake = Lake(tmp_path)
    lake.store(many(4, 10))
    kept = shelf()
    first = SegmentSource(lake.opened(), kept)
    one = (Matcher("i", MatchOp.EQUAL, "3"),)
    block = first.select(one, 0, 100)
    reading = first.reading
    assert (reading.groups_read, reading.hits, reading.misses) == (1, 0, 5)
    assert 0 < reading.bytes_read < lake.segments[0].object.size_bytes
    again = SegmentSource(lake.opened(), kept)
    assert told(again.select(one, 0, 100)) == told(block)
    assert (again.reading.groups_read, again.reading.hits, again.reading.misses) == (0, 5, 0)
    assert again.reading.bytes_read == 0


def test_another_file_under_a_known_name_is_not_taken_for_the_one_in_memory(tmp_path: Path) -> None:
    kept = shelf()
    for value in (1.0, 2.0):
        lake = Lake(tmp_path)
        lake.store({UP: {0: (value, None)}})
        assert SegmentSource(lake.opened(), kept).select((), 0, 10).values.tolist() == [value]


class Asked:
    """What a source says it needs."""

    def __init__(self, limit_bytes: int = 1 << 40) -> None:
        self.limit_bytes = limit_bytes
        self.most_bytes = 0

    def need(self, size_bytes: int) -> None:
        self.most_bytes = max(self.most_bytes, size_bytes)
        if size_bytes > self.limit_bytes:
            raise MemoryError


@pytest.mark.parametrize("histogram", [None, Blocks(3).histogram()])
def test_what_is_selected_is_asked_for_before_it_is_put_together(tmp_path: Path, histogram: object) -> None:
    lake = Lake(tmp_path)
    lake.store({labels: {0: (1.0, histogram), 1: (1.0, None)} for labels in many(50, 1)})
    asked = Asked()
    block = SegmentSource(lake.opened(), shelf()).select((), 0, 10, asked.need)
    assert asked.most_bytes > block.size_bytes - block.offsets.nbytes


def test_what_would_be_too_much_is_not_read_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 100)
    lake = Lake(tmp_path)
    lake.store(many(100, 100))
    source = SegmentSource(lake.opened(), shelf())
    with pytest.raises(MemoryError):
        source.select((), 0, 1_000, Asked(20 * 100 * 16).need)
    assert source.reading.groups_read < 25
    memory = Memory(100 * 100 * 16)
    with pytest.raises(LimitExceeded):
        SegmentSource(lake.opened(), shelf()).select((), 0, 1_000, memory.need)


@pytest.mark.parametrize("ask", ["select", "series"])
def test_who_no_longer_waits_stops_it_before_every_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 10)
    lake = Lake(tmp_path)
    lake.store(many(10, 10))
    source = SegmentSource(lake.opened(), shelf())
    calls: list[int] = []

    def need(_: int) -> None:
        calls.append(source.reading.misses)
        if source.reading.misses >= 4:
            raise TimeoutError

    asked: Callable[..., object] = getattr(source, ask)
    with pytest.raises(TimeoutError):
        asked((), 0, 100, need)
    assert max(calls) <= 6
