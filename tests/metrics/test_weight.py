"""What counts as light: little to read, and little to compute."""

import pytest

from quarterdeck.metrics.model import Segment
from quarterdeck.metrics.planning import divide, selections_of
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.segments.label_index import LabelIndex
from quarterdeck.metrics.universe import Universe
from quarterdeck.metrics.weight import is_light
from quarterdeck.stores.objects import ObjectRef

HOUR_MS = 3_600_000


def universe(series: int, rows_each: int) -> Universe:
    labels = [((METRIC_NAME, "up"), ("n", str(number))) for number in range(series)]
    index = LabelIndex.of(labels, [rows_each] * series).encoded()
    whole = Segment(0, 0, 1, ObjectRef("/x", 1, ""), "", 0, HOUR_MS, series * rows_each, series, index)
    return Universe(1, (whole,))


def light(text: str, step_ms: int, series: int = 10, rows_each: int = 240) -> bool:
    plan = plan_query(text, 0, HOUR_MS, step_ms, 60_000)
    selections = (selections_of(leaf, 300_000, plan.instant) for leaf in plan.leaves)
    there = universe(series, rows_each)
    return is_light(plan, [divide(there, some) for some in selections], HOUR_MS // step_ms + 1)


def test_what_reads_and_computes_little_is_light() -> None:
    assert light("sum(rate(up[5m]))", 15_000)
    assert light("1 + 1", 15_000)
    assert light("up", 60_000, series=1000, rows_each=60)


@pytest.mark.parametrize(
    ("text", "step_ms", "series", "rows_each"),
    [
        ("sum(up)", 60_000, 100, 100_000),  # reads much
        ("up", 1_000, 1000, 60),  # computes much
        ("up + rate(up[5m]) + avg_over_time(up[5m])", 15_000, 1000, 240),  # each of its leaves is light
        ("max_over_time(up[10m:1s])", 60_000, 10, 240),
        ("max_over_time(sum(up)[10m:1s])", 60_000, 10, 240),
    ],
)
def test_what_reads_or_computes_much_is_not(text: str, step_ms: int, series: int, rows_each: int) -> None:
    assert not light(text, step_ms, series, rows_each)
