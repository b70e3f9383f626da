"""Aggregation over series, for each step: the front of the `groups_` modules, which have one kind of it each.

`values` and `present` are [series, steps], contiguous; `groups` has for each row its group, 0 to `n_groups` - 1. What
decomposes is made in three steps: `x_groups` makes a partial of some series, `combine_x` one partial of those of
several shards, and `finish` says the values and where there are any.
"""

import numpy as np

from quarterdeck.metrics.promql.kernels.compile import warms
from quarterdeck.metrics.promql.kernels.groups_extremes import (
    CountPartial,
    GroupPartial,
    MaxPartial,
    MinPartial,
    combine_count,
    combine_group,
    combine_max,
    combine_min,
    count_groups,
    group_groups,
    max_groups,
    min_groups,
)
from quarterdeck.metrics.promql.kernels.groups_moments import MomentsPartial, combine_moments, moments_groups
from quarterdeck.metrics.promql.kernels.groups_quantile import quantile_groups
from quarterdeck.metrics.promql.kernels.groups_topk import topk_groups, topk_order
from quarterdeck.metrics.promql.kernels.groups_totals import (
    AvgPartial,
    SumPartial,
    avg_groups,
    combine_avg,
    combine_sum,
    sum_groups,
)
from quarterdeck.metrics.promql.kernels.groups_values import ValueCounts, count_values

__all__ = [
    "AvgPartial",
    "CountPartial",
    "GroupPartial",
    "MaxPartial",
    "MinPartial",
    "MomentsPartial",
    "SumPartial",
    "ValueCounts",
    "avg_groups",
    "combine_avg",
    "combine_count",
    "combine_group",
    "combine_max",
    "combine_min",
    "combine_moments",
    "combine_sum",
    "count_groups",
    "count_values",
    "group_groups",
    "max_groups",
    "min_groups",
    "moments_groups",
    "quantile_groups",
    "sum_groups",
    "topk_groups",
    "topk_order",
    "warm",
]


@warms
def warm() -> None:
    """Call each kernel of the `groups_` modules."""
    values, present, groups = np.ones((1, 1)), np.ones((1, 1), np.bool_), np.zeros(1, np.int64)
    combine_sum([sum_groups(values, present, groups, 1)], [groups], 1)
    combine_avg([avg_groups(values, present, groups, 1)], [groups], 1)
    combine_moments([moments_groups(values, present, groups, 1)], [groups], 1)
    count_groups(values, present, groups, 1)
    min_groups(values, present, groups, 1)
    quantile_groups(values, present, groups, 1, np.full(1, 0.5))
    topk_groups(values, present, groups, 1, np.ones(1, np.int64), False)
    topk_order(values[:, 0], present[:, 0], groups, 1, 1, False)
