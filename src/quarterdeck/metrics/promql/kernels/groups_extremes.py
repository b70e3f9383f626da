"""`CountPartial`, `GroupPartial`, `MinPartial` and `MaxPartial`: how many rows of a group there are, and their ends.

A minimum or maximum is not a number only if all samples are not numbers. Of equal ones (-0 and 0) the first stays.
Partials combine with the kernels that made them: a partial is again rows of samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel
from quarterdeck.metrics.promql.kernels.groups_totals import sum_groups


@dataclass(frozen=True, eq=False)
class CountPartial:
    """Numbers of samples [groups, steps]."""

    count: F64

    def finish(self) -> tuple[F64, Bool]:
        """The counts, and where there are any."""
        return self.count, self.count > 0


@dataclass(frozen=True, eq=False)
class GroupPartial:
    """Where [groups, steps] there is a sample."""

    present: Bool

    def finish(self) -> tuple[F64, Bool]:
        """One, where there is a sample."""
        return np.ones(self.present.shape), self.present


@dataclass(frozen=True, eq=False)
class MinPartial:
    """Smallest samples [groups, steps]; a cell that is not present may hold anything."""

    value: F64
    present: Bool

    def finish(self) -> tuple[F64, Bool]:
        """The minima, and where there are any."""
        return self.value, self.present


@dataclass(frozen=True, eq=False)
class MaxPartial:
    """Biggest samples [groups, steps]; a cell that is not present may hold anything."""

    value: F64
    present: Bool

    def finish(self) -> tuple[F64, Bool]:
        """The maxima, and where there are any."""
        return self.value, self.present


@kernel
def _count_rows(present: Bool, groups: I64, count: F64) -> None:
    for row in range(present.shape[0]):
        row_present, row_count = present[row], count[groups[row]]
        for i in range(len(row_present)):
            row_count[i] += 1.0 if row_present[i] else 0.0


@kernel
def _extreme_rows(values: F64, present: Bool, groups: I64, sign: float, value: F64, seen: Bool) -> None:
    """`value` starts as not a number, which every sample replaces. `sign` is 1 for the minimum, -1 for the maximum."""
    for row in range(values.shape[0]):
        row_values, row_present = values[row], present[row]
        group = groups[row]
        row_value, row_seen = value[group], seen[group]
        for i in range(len(row_present)):
            sample, best = row_values[i], row_value[i]
            replaces = row_present[i] & ((sign * best > sign * sample) | (best != best))  # noqa: PLR0124
            row_value[i] = sample if replaces else best
            row_seen[i] |= row_present[i]


def count_groups(_values: F64, present: Bool, groups: I64, n_groups: int) -> CountPartial:
    """The number of samples of each group: `groups` says for each row which."""
    count = np.zeros((n_groups, present.shape[1]))
    _count_rows(given(present), given(groups), count)
    return CountPartial(count)


def group_groups(values: F64, present: Bool, groups: I64, n_groups: int) -> GroupPartial:
    """Where each group has a sample: `groups` says for each row which."""
    return GroupPartial(count_groups(values, present, groups, n_groups).count > 0)


def min_groups(values: F64, present: Bool, groups: I64, n_groups: int) -> MinPartial:
    """The smallest sample of each group: `groups` says for each row which."""
    return MinPartial(*_extremes(values, present, groups, n_groups, 1.0))


def max_groups(values: F64, present: Bool, groups: I64, n_groups: int) -> MaxPartial:
    """The biggest sample of each group: `groups` says for each row which."""
    return MaxPartial(*_extremes(values, present, groups, n_groups, -1.0))


def combine_count(partials: Sequence[CountPartial], maps: Sequence[I64], n_groups: int) -> CountPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    counts = np.concatenate([partial.count for partial in partials])
    summed = sum_groups(counts, counts > 0, np.concatenate(list(maps)), n_groups)
    return CountPartial(summed.finish()[0])


def combine_group(partials: Sequence[GroupPartial], maps: Sequence[I64], n_groups: int) -> GroupPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    present = np.concatenate([partial.present for partial in partials])
    return GroupPartial(sum_groups(np.ones(present.shape), present, np.concatenate(list(maps)), n_groups).present)


def combine_min(partials: Sequence[MinPartial], maps: Sequence[I64], n_groups: int) -> MinPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    values = np.concatenate([partial.value for partial in partials])
    present = np.concatenate([partial.present for partial in partials])
    return min_groups(values, present, np.concatenate(list(maps)), n_groups)


def combine_max(partials: Sequence[MaxPartial], maps: Sequence[I64], n_groups: int) -> MaxPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    values = np.concatenate([partial.value for partial in partials])
    present = np.concatenate([partial.present for partial in partials])
    return max_groups(values, present, np.concatenate(list(maps)), n_groups)


def _extremes(values: F64, present: Bool, groups: I64, n_groups: int, sign: float) -> tuple[F64, Bool]:
    shape = (n_groups, values.shape[1])
    value, seen = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    _extreme_rows(given(values), given(present), given(groups), sign, value, seen)
    return value, seen
