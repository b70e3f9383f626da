"""The catalog's knowledge of labels: a segment that has what is asked for is never passed over."""

import json
import zlib

import pytest

from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.series_index import SeriesIndex
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.segments import label_index
from quarterdeck.metrics.segments.label_index import LabelIndex, MetricSpan
from tests.metrics.segments.stored import Chance


@pytest.mark.parametrize("most", [2, 5_000])
@pytest.mark.parametrize("seed", range(15))
def test_a_segment_with_a_series_that_matches_is_never_passed_over(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_index, "MOST_VALUES", most)
    chance = Chance(seed)
    passed_over = 0
    for _ in range(30):
        series = sorted({chance.labels() for _ in range(chance.number(1, 12))})
        rows = [chance.number(1, 100) for _ in series]
        index = LabelIndex.decoded(LabelIndex.of(series, rows).encoded())
        matchers = chance.matchers()
        matching = SeriesIndex(series).matching(matchers, lambda _: None)
        estimate = index.estimate(matchers)
        if estimate is None:
            passed_over += 1
            assert not matching.any()
        else:
            assert 1 <= estimate.rows <= estimate.metric_rows <= sum(rows)
    assert passed_over


def series(count: int) -> list[Labels]:
    return [((METRIC_NAME, f"m{i % 2}"), ("i", str(i)), ("job", "x")) for i in range(count)]


def matcher(name: str, value: str, op: MatchOp = MatchOp.EQUAL) -> Matcher:
    return Matcher(name, op, value)


def test_estimates_are_as_large_as_what_the_labels_say() -> None:
    index = LabelIndex.of(series(10), [100] * 10)

    def rows(*matchers: Matcher) -> tuple[int, int] | None:
        found = index.estimate(matchers)
        return None if found is None else (found.metric_rows, found.rows)

    of_m0 = matcher(METRIC_NAME, "m0")
    assert rows() == (1_000, 1_000)
    assert rows(of_m0) == (500, 500)
    assert rows(of_m0, matcher("i", "4")) == (500, 50)
    assert rows(of_m0, matcher("i", "[0-4]", MatchOp.REGEX)) == (500, 250)
    assert rows(of_m0, matcher("job", "x")) == (500, 500)
    assert rows(of_m0, matcher("job", "")) == (500, 500)
    assert rows(of_m0, matcher("nowhere", "")) == (500, 500)
    assert rows(of_m0, matcher("nowhere", "x")) is None
    assert rows(of_m0, matcher("i", "10")) is None
    assert rows(of_m0, matcher(METRIC_NAME, "m1")) is None
    assert rows(of_m0, matcher(METRIC_NAME, "m[0-9]", MatchOp.REGEX)) == (500, 500)
    assert rows(matcher(METRIC_NAME, "m[0-9]", MatchOp.REGEX)) == (1_000, 1_000)
    assert rows(matcher(METRIC_NAME, "m0", MatchOp.NOT_EQUAL)) == (500, 500)
    assert rows(matcher(METRIC_NAME, "")) is None


def test_many_conditions_make_the_estimate_small_and_never_nothing() -> None:
    index = LabelIndex.of(series(10), [100] * 10)
    estimate = index.estimate([matcher("i", "4")] * 2_000)
    assert estimate is not None
    assert estimate.rows == 1


def test_of_a_label_with_too_many_values_nothing_is_concluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_index, "MOST_VALUES", 9)
    index = LabelIndex.decoded(LabelIndex.of(series(10), [1] * 10).encoded())
    assert index.values == {"i": None, "job": frozenset({"x"})}
    assert index.estimate([matcher("i", "nowhere")]) is not None
    assert index.estimate([matcher("i", "nowhere", MatchOp.REGEX)]) is not None
    assert index.estimate([matcher("job", "nowhere")]) is None


def test_it_is_encoded_the_same_whatever_the_order_of_its_sets() -> None:
    one, other = series(50), list(reversed(series(50)))
    decoded = [LabelIndex.decoded(LabelIndex.of(some, [1] * 50).encoded()) for some in (one, other)]
    assert decoded[0].values == decoded[1].values
    assert decoded[0].metrics == decoded[1].metrics


def test_an_index_of_another_version_is_refused_and_not_guessed_at() -> None:
    data = zlib.compress(json.dumps([3, {}, {}]).encode())
    with pytest.raises(ValueError, match="version 3"):
        LabelIndex.decoded(data)


def test_it_knows_of_each_metric_how_many_series_it_has_and_when_its_samples_begin_and_end() -> None:
    times = [(10 * number, 100 - number) for number in range(5)]
    index = LabelIndex.decoded(LabelIndex.of(series(5), [1] * 5, times).encoded())
    assert index.spans == {"m0": MetricSpan(3, 0, 100), "m1": MetricSpan(2, 10, 99)}


def test_an_index_of_an_earlier_release_is_read_and_knows_no_spans() -> None:
    index = LabelIndex.decoded(zlib.compress(json.dumps([1, {"m": 3}, {"job": ["a"]}]).encode()))
    assert (index.metrics, index.values, index.spans) == ({"m": 3}, {"job": frozenset({"a"})}, {})
