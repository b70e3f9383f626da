"""Samples in memory: what is selected, in which order, and how series are shared out."""

import numpy as np
import pytest

from quarterdeck.metrics.promql.blocks import Axis, SeriesBlock
from quarterdeck.metrics.promql.labels import Labels, from_mapping
from quarterdeck.metrics.promql.memory import MemorySource, Series
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp


def series(labels: dict[str, str], *samples: tuple[int, float]) -> Series:
    return Series(
        from_mapping(labels),
        np.array([time for time, _ in samples], dtype=np.int64),
        np.array([value for _, value in samples], dtype=np.float64),
    )


SHOP = MemorySource.of(
    [
        series({"__name__": "up", "job": "web"}, (0, 1.0), (10, 2.0), (20, 3.0)),
        series({"__name__": "up", "job": "api"}, (5, 4.0), (15, 5.0)),
        series({"__name__": "up"}, (0, 6.0)),
        series({"__name__": "down", "job": "api"}, (10, 7.0)),
    ]
)

CROWD = MemorySource.of(
    [series({"i": str(i)}, *((time, float(i)) for time in range(i % 5, 22 - i % 7, 1 + i % 4))) for i in range(200)]
)


def rows(block: SeriesBlock) -> dict[Labels, list[tuple[int, float]]]:
    samples = list(zip(block.timestamps.tolist(), block.values.tolist(), strict=True))
    ends = block.offsets.tolist()
    return {labels: samples[ends[row] : ends[row + 1]] for row, labels in enumerate(block.axis.labels)}


def jobs(block: SeriesBlock) -> list[str]:
    return [dict(labels).get("job", "") for labels in block.axis.labels]


def up(op: MatchOp, value: str) -> list[Matcher]:
    return [Matcher("job", op, value), Matcher("__name__", MatchOp.EQUAL, "up")]


def test_series_come_sorted_by_labels_with_all_their_samples() -> None:
    block = SHOP.select([], 0, 20)
    assert list(rows(block).items()) == [
        ((("__name__", "down"), ("job", "api")), [(10, 7.0)]),
        ((("__name__", "up"),), [(0, 6.0)]),
        ((("__name__", "up"), ("job", "api")), [(5, 4.0), (15, 5.0)]),
        ((("__name__", "up"), ("job", "web")), [(0, 1.0), (10, 2.0), (20, 3.0)]),
    ]


def test_both_ends_of_the_time_are_included() -> None:
    block = SHOP.select(up(MatchOp.EQUAL, "web"), 10, 20)
    assert list(rows(block).values()) == [[(10, 2.0), (20, 3.0)]]


def test_a_series_without_samples_in_the_time_is_left_out() -> None:
    assert jobs(SHOP.select([], 11, 15)) == ["api"]
    assert len(SHOP.select([], 30, 40).axis) == 0
    assert len(SHOP.select([], -40, -30).axis) == 0
    assert len(SHOP.select([], 20, 10).axis) == 0


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (MatchOp.EQUAL, "api", ["api"]),
        (MatchOp.EQUAL, "", [""]),
        (MatchOp.EQUAL, "other", []),
        (MatchOp.NOT_EQUAL, "api", ["", "web"]),
        (MatchOp.NOT_EQUAL, "", ["api", "web"]),
        (MatchOp.NOT_EQUAL, "other", ["", "api", "web"]),
        (MatchOp.REGEX, "a.*|", ["", "api"]),
        (MatchOp.REGEX, "ap", []),
        (MatchOp.REGEX, "api|web", ["api", "web"]),
        (MatchOp.NOT_REGEX, "w.+", ["", "api"]),
        (MatchOp.NOT_REGEX, ".*", []),
    ],
)
def test_a_missing_label_is_the_empty_value_in_every_matcher(op: MatchOp, value: str, expected: list[str]) -> None:
    assert jobs(SHOP.select(up(op, value), 0, 20)) == expected


@pytest.mark.parametrize(
    ("op", "value", "count"),
    [
        (MatchOp.EQUAL, "", 4),
        (MatchOp.EQUAL, "x", 0),
        (MatchOp.NOT_EQUAL, "", 0),
        (MatchOp.NOT_EQUAL, "x", 4),
        (MatchOp.REGEX, "x?", 4),
        (MatchOp.REGEX, "x", 0),
        (MatchOp.NOT_REGEX, "x?", 0),
        (MatchOp.NOT_REGEX, "x", 4),
    ],
)
def test_a_label_that_no_series_has_is_empty_everywhere(op: MatchOp, value: str, count: int) -> None:
    assert len(SHOP.select([Matcher("nobody", op, value)], 0, 20).axis) == count


@pytest.mark.parametrize("source", [SHOP, CROWD], ids=["few", "many"])
@pytest.mark.parametrize("start_ms", range(-2, 25, 3))
@pytest.mark.parametrize("end_ms", range(-2, 25, 3))
def test_a_cut_has_the_samples_that_a_plain_filter_has(source: MemorySource, start_ms: int, end_ms: int) -> None:
    everything = rows(source.select([], -100, 100))
    filtered = {
        labels: [sample for sample in samples if start_ms <= sample[0] <= end_ms]
        for labels, samples in everything.items()
    }
    assert rows(source.select([], start_ms, end_ms)) == {
        labels: samples for labels, samples in filtered.items() if samples
    }


def test_an_empty_source_selects_nothing() -> None:
    assert len(MemorySource.of([]).select([Matcher("job", MatchOp.EQUAL, "")], 0, 20).axis) == 0


def test_a_series_that_never_had_a_sample_is_not_selected() -> None:
    source = MemorySource.of([series({"a": "1"}), series({"a": "2"}, (0, 1.0)), series({"a": "3"})])
    assert rows(source.select([], -100, 100)) == {(("a", "2"),): [(0, 1.0)]}


def test_samples_are_not_copied_when_everything_is_selected() -> None:
    block = SHOP.select([], 0, 20)
    assert np.shares_memory(block.values, SHOP.select([], 0, 20).values)
    assert block.axis is SHOP.select([], -5, 100).axis


def test_histograms_come_along_and_are_none_when_no_selected_sample_is_one() -> None:
    histogram = object()
    mixed = Series(
        from_mapping({"a": "1"}), np.array([0, 10]), np.zeros(2), np.array([histogram, None], dtype=np.object_)
    )
    source = MemorySource.of([mixed, series({"a": "2"}, (0, 1.0), (10, 2.0))])
    block = source.select([], 0, 0)
    assert block.histograms is not None
    assert list(block.histograms) == [histogram, None]
    assert source.select([], 10, 10).histograms is None
    assert source.select([Matcher("a", MatchOp.EQUAL, "2")], 0, 10).histograms is None


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_series_is_whole_in_exactly_one_shard(count: int) -> None:
    source = MemorySource.of([series({"i": str(i)}, (0, float(i)), (1, 0.0)) for i in range(100)])
    shards = source.shards(count)
    found: dict[Labels, list[tuple[int, float]]] = {}
    for shard in shards:
        mine = rows(shard.select([], 0, 1))
        assert not found.keys() & mine.keys()
        found |= mine
    assert found == rows(source.select([], 0, 1))
    assert all(len(shard) for shard in shards)


def test_the_shard_of_a_series_does_not_depend_on_the_others() -> None:
    few = MemorySource.of([series({"i": "5"}, (0, 1.0))])
    many = MemorySource.of([series({"i": str(i)}, (0, 1.0)) for i in range(100)])
    (place,) = [index for index in range(7) if len(few.shard(index, 7))]
    assert len(many.shard(place, 7).select([Matcher("i", MatchOp.EQUAL, "5")], 0, 0).axis) == 1


def test_a_shard_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no shard 2 of 2"):
        SHOP.shard(2, 2)


def test_two_series_with_the_same_labels_are_refused() -> None:
    with pytest.raises(ValueError, match=r'\{a="1"\} is there twice'):
        MemorySource.of([series({"a": "1"}, (0, 1.0)), series({"a": "1"}, (1, 1.0))])


def test_a_block_that_is_not_sorted_is_refused() -> None:
    axis = Axis.of([(("a", "2"),), (("a", "1"),)])
    with pytest.raises(ValueError, match=r'\{a="1"\} comes after \{a="2"\}'):
        MemorySource(SeriesBlock(axis, np.zeros(3, np.int64), np.zeros(0, np.int64), np.zeros(0)))


def test_samples_whose_times_do_not_rise_are_refused_by_the_name_of_their_series() -> None:
    with pytest.raises(ValueError, match=r'\{a="2"\} has samples whose times do not rise'):
        MemorySource.of(
            [series({"a": "1"}, (5, 1.0), (6, 1.0)), series({"a": "2"}, (1, 1.0), (1, 2.0)), series({"a": "3"})]
        )
