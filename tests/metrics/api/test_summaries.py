"""One frame a series instead of its samples."""

import json
import math
from typing import Any

import numpy as np

from quarterdeck.metrics.api.summaries import Summaries
from quarterdeck.metrics.promql.blocks import Axis, Bool, ScalarBlock, VectorBlock
from quarterdeck.metrics.promql.histograms.native import NativeHistogram
from quarterdeck.metrics.promql.labels import Labels

A: Labels = (("__name__", "m"), ("job", "a"))
B: Labels = (("job", "b"),)


def data(summaries: Summaries) -> list[Any]:
    found = [json.loads(frame.removeprefix(b"data: ")) for frame in summaries.frames()]
    assert all(one["type"] == "summary" for one in found)
    return [one["data"] for one in found]


def all_of(rows: int, steps: int) -> Bool:
    return np.ones((rows, steps), np.bool_)


def test_a_series_over_several_blocks_is_one_summary() -> None:
    summaries = Summaries()
    axis = Axis.of([A, B])
    summaries.add(VectorBlock(axis, np.array([[1.0, 5.0], [9.0, 9.0]]), np.array([[True, True], [False, False]])))
    summaries.add(VectorBlock(axis, np.array([[-2.0, 8.0], [3.0, 4.0]]), np.array([[True, False], [False, True]])))
    assert data(summaries) == [
        {
            "tags": {"__name__": "m", "job": "a"},
            "label": 'm{job="a"}',
            "count": 3,
            "min": -2.0,
            "max": 5.0,
            "avg": 4.0 / 3,
            "first": 1.0,
            "last": -2.0,
        },
        {"tags": {"job": "b"}, "label": '{job="b"}', "count": 1, "min": 4, "max": 4, "avg": 4, "first": 4, "last": 4},
    ]


def test_a_series_that_comes_and_goes_keeps_its_place() -> None:
    summaries = Summaries()
    for labels, value in ((A, 1.0), (B, 2.0), (A, 3.0)):
        summaries.add(VectorBlock(Axis.of([labels]), np.array([[value]]), all_of(1, 1)))
    assert [(one["label"], one["count"], one["first"], one["last"]) for one in data(summaries)] == [
        ('m{job="a"}', 2, 1.0, 3.0),
        ('{job="b"}', 1, 2.0, 2.0),
    ]


def test_rows_that_are_shown_alike_are_one_series() -> None:
    axis = Axis.of([(("__name__", "x"), ("job", "b")), (("__name__", "y"), ("job", "b"))], nameless=True)
    present = np.array([[False, True, False, True], [True, False, True, False]])
    summaries = Summaries()
    summaries.add(VectorBlock(axis, np.array([[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 4.0, 0.0]]), present))
    (one,) = data(summaries)
    assert (one["count"], one["min"], one["max"], one["first"], one["last"]) == (4, 1, 4, 3, 2)
    assert one["avg"] == 2.5


def test_not_a_number_is_a_minimum_only_if_there_is_nothing_else() -> None:
    summaries = Summaries()
    values = np.array([[math.nan, 1.0, math.inf], [math.nan, math.nan, math.nan]])
    summaries.add(VectorBlock(Axis.of([A, B]), values, all_of(2, 3)))
    first, second = data(summaries)
    assert [first[name] for name in ("min", "max", "avg", "first", "last")] == [1.0, "+Inf", "NaN", "NaN", "+Inf"]
    assert [second[name] for name in ("min", "max", "avg", "first", "last")] == ["NaN"] * 5


def test_histograms_are_counted() -> None:
    histograms = np.full((2, 2), None, object)
    histograms[0, :] = NativeHistogram(), NativeHistogram()
    histograms[1, 0] = NativeHistogram()
    summaries = Summaries()
    summaries.add(VectorBlock(Axis.of([A, B]), np.full((2, 2), 7.0), all_of(2, 2), histograms))
    only, mixed = data(summaries)
    assert only == {"tags": dict(A), "label": 'm{job="a"}', "count": 0, "histograms": 2}
    assert (mixed["count"], mixed["histograms"], mixed["avg"]) == (1, 1, 7)


def test_a_scalar_and_nothing_at_all() -> None:
    assert data(Summaries()) == []
    summaries = Summaries()
    summaries.add(ScalarBlock(np.array([1.0, 2.0])))
    summaries.add(VectorBlock.empty(2))
    assert [(one["tags"], one["count"], one["avg"]) for one in data(summaries)] == [({}, 2, 1.5)]
