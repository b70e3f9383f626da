"""What `explain` shows of a plan."""

import pytest

from quarterdeck.metrics.promql.plan.explain import explain
from quarterdeck.metrics.promql.plan.pipeline import plan_query


def shown(text: str) -> str:
    return explain(plan_query(text, 0, 3_600_000, 60_000, 60_000))


def test_a_person_sees_what_is_pushed_down_and_what_is_left() -> None:
    query = 'sum by (job) (rate(m{a=~"b"}[5m] offset 1m)) / on(job) group_left(x) n @ 60 > bool 2'
    assert (
        shown(query)
        == """61 steps of 1m
> bool number on the right
├── / on (job) group_left (x)
│   ├── leaf 0
│   └── once for all steps
│       └── leaf 1
└── 2
leaf 0: partial aggregates of all shards, combined; 61 steps of 1m
└── sum by (job)
    └── rate
        └── m{a=~"b"}[5m] offset 1m
leaf 1: series of all shards, sorted by labels; 1 step
└── n @ 60"""
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("-m", "└── negative"),
        ("timestamp(m offset -5m)", "└── timestamp of m offset -5m"),
        ("vector(time())", "└── time of the step"),
        ("m * scalar(n)", "└── scalar"),
        ("vector(time() + 1)", "└── + of numbers"),
        ("vector(max_of(time(), 1))", "└── larger of numbers"),
        ("vector(min_of(time(), 1))", "└── smaller of numbers"),
        ('label_join(m, "a", "-", "b")', '└── label_join "a", "-", "b"'),
        ("sum_over_time(sum(m)[5m:] offset 1m)", "subquery [5m:1m] offset 1m"),
        ("quantile_over_time(scalar(n), m[5m])", "windows of 5m"),
        ("sum without () (m)", "└── sum without ()"),
        ("sort(m)", "sort"),
        ("absent(m)", "absent"),
        ("histogram_quantile(0.5, m)", "histogram_quantile"),
        ("m / ignoring(a) group_right n", "/ ignoring (a) group_right ()"),
        ('count_values("v", m)', '    └── "v"'),
        ('{a="b"}', '└── {a="b"}'),
        ("m and n", "and"),
        ("info(m)", "info\n├── leaf 0\n└── leaf 1\n"),
        ('info(m, {b="1", a="2"})', "info a, b\n"),
        ("info(m offset 1m)", "└── timestamp of target_info offset 1m"),
    ],
)
def test_each_operation_has_its_words(text: str, line: str) -> None:
    assert line in shown(text)
