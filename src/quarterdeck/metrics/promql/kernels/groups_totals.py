"""`SumPartial` and `AvgPartial`: compensated sums over the rows of a group, for each step.

Upstream's arithmetic, operation for operation: Neumaier's sum, whose compensation is dropped once the total is
infinite; and an average that becomes an incremental mean when the sum would overflow. Combining partials in the order
of their rows gives the unsharded result up to rounding, exactly where no rounding happens. Whether finite numbers
overflow a sum depends on the order in which they are added, hence on the shards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel, part_of_kernel


@dataclass(frozen=True, eq=False)
class SumPartial:
    """Sums [groups, steps]; a cell with no sample is not present and may hold anything."""

    total: F64
    compensation: F64
    present: Bool

    def finish(self) -> tuple[F64, Bool]:
        """The sums, and where there are any."""
        with np.errstate(over="ignore"):
            return self.total + self.compensation, self.present


@dataclass(frozen=True, eq=False)
class AvgPartial:
    """Averages [groups, steps]; a cell with a count of zero is not present and may hold anything."""

    count: F64
    value: F64
    """The sum, or where `incremental` the mean."""
    compensation: F64
    """What is to be added to `value`."""
    incremental: Bool
    """Where the sum would have overflowed."""

    def finish(self) -> tuple[F64, Bool]:
        """The averages, and where there are any."""
        present = self.count > 0
        divisor = np.where(self.incremental | ~present, 1.0, self.count)
        return self.value / divisor + self.compensation / divisor, present


@part_of_kernel
def compensated(total: float, compensation: float, value: float) -> tuple[float, float]:
    """The total and compensation after `value` is added."""
    new = total + value
    lost = (total - new) + value if abs(total) >= abs(value) else (value - new) + total
    return new, 0.0 if abs(new) == np.inf else compensation + lost


@kernel
def _sum_rows(values: F64, present: Bool, groups: I64, total: F64, compensation: F64, seen: Bool) -> None:
    for row in range(values.shape[0]):
        row_values, row_present = values[row], present[row]
        group = groups[row]
        row_total, row_compensation = total[group], compensation[group]
        row_seen = seen[group]
        for i in range(len(row_present)):
            # Adding -0.0 changes no bit of a total, so absent cells need no branch.
            value = row_values[i] if row_present[i] else -0.0
            row_total[i], row_compensation[i] = compensated(row_total[i], row_compensation[i], value)
            row_seen[i] |= row_present[i]


@kernel
def _merge_sums(
    totals: F64,
    compensations: F64,
    present: Bool,
    rows: I64,
    total: F64,
    compensation: F64,
    seen: Bool,
) -> None:
    for source in range(totals.shape[0]):
        row = rows[source]
        for i in range(totals.shape[1]):
            if present[source, i]:
                new, lost = compensated(total[row, i], compensation[row, i], totals[source, i])
                total[row, i] = new
                compensation[row, i] = lost if abs(new) == np.inf else lost + compensations[source, i]
                seen[row, i] = True


@part_of_kernel
def _mean_step(count: float, mean: float, compensation: float, value: float) -> tuple[float, float]:
    """The mean of `count` values and its compensation; before `value`, the last of them, they were as given."""
    share = (count - 1.0) / count
    return compensated(share * mean, share * compensation, value / count)


@kernel
def _avg_rows(
    values: F64,
    present: Bool,
    groups: I64,
    count: F64,
    value: F64,
    compensation: F64,
    incremental: Bool,
) -> None:
    for row in range(values.shape[0]):
        row_values, row_present = values[row], present[row]
        group = groups[row]
        row_count, row_value = count[group], value[group]
        row_compensation, row_incremental = compensation[group], incremental[group]
        for i in range(len(row_present)):
            if not row_present[i]:
                continue
            n = row_count[i] + 1.0
            row_count[i] = n
            if n == 1.0:
                row_value[i] = row_values[i]
                continue
            if not row_incremental[i]:
                new, lost = compensated(row_value[i], row_compensation[i], row_values[i])
                if abs(new) != np.inf:
                    row_value[i], row_compensation[i] = new, lost
                    continue
                row_incremental[i] = True
                row_value[i] /= n - 1.0
                row_compensation[i] /= n - 1.0
            row_value[i], row_compensation[i] = _mean_step(n, row_value[i], row_compensation[i], row_values[i])


@kernel
def _merge_avgs(
    counts: F64,
    values: F64,
    compensations: F64,
    incrementals: Bool,
    rows: I64,
    count: F64,
    value: F64,
    compensation: F64,
    incremental: Bool,
) -> None:
    for source in range(counts.shape[0]):
        row = rows[source]
        for i in range(counts.shape[1]):
            theirs, ours = counts[source, i], count[row, i]
            if theirs == 0.0:
                continue
            count[row, i] = ours + theirs
            their_value, their_lost = values[source, i], compensations[source, i]
            if ours == 0.0:
                value[row, i], compensation[row, i] = their_value, their_lost
                incremental[row, i] = incrementals[source, i]
                continue
            our_value, our_lost = value[row, i], compensation[row, i]
            if not (incremental[row, i] or incrementals[source, i]):
                new, lost = compensated(our_value, our_lost, their_value)
                if abs(new) != np.inf:
                    value[row, i], compensation[row, i] = new, lost + their_lost
                    continue
            if not incremental[row, i]:
                our_value, our_lost = our_value / ours, our_lost / ours
            if not incrementals[source, i]:
                their_value, their_lost = their_value / theirs, their_lost / theirs
            incremental[row, i] = True
            our_share, their_share = ours / (ours + theirs), theirs / (ours + theirs)
            new, lost = compensated(our_share * our_value, our_share * our_lost, their_share * their_value)
            value[row, i] = new
            compensation[row, i] = lost if abs(new) == np.inf else lost + their_share * their_lost


def sum_groups(values: F64, present: Bool, groups: I64, n_groups: int) -> SumPartial:
    """The sum of each group: `groups` says for each row which."""
    values, present, groups = given(values), given(present), given(groups)
    partial = _no_sums(n_groups, values.shape[1])
    _sum_rows(values, present, groups, partial.total, partial.compensation, partial.present)
    return partial


def avg_groups(values: F64, present: Bool, groups: I64, n_groups: int) -> AvgPartial:
    """The average of each group: `groups` says for each row which."""
    values, present, groups = given(values), given(present), given(groups)
    partial = _no_avgs(n_groups, values.shape[1])
    _avg_rows(
        values,
        present,
        groups,
        partial.count,
        partial.value,
        partial.compensation,
        partial.incremental,
    )
    return partial


def combine_sum(partials: Sequence[SumPartial], maps: Sequence[I64], n_groups: int) -> SumPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    combined = _no_sums(n_groups, partials[0].total.shape[1])
    for partial, rows in zip(partials, maps, strict=True):
        _merge_sums(
            given(partial.total),
            given(partial.compensation),
            given(partial.present),
            given(rows),
            combined.total,
            combined.compensation,
            combined.present,
        )
    return combined


def combine_avg(partials: Sequence[AvgPartial], maps: Sequence[I64], n_groups: int) -> AvgPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    combined = _no_avgs(n_groups, partials[0].count.shape[1])
    for partial, rows in zip(partials, maps, strict=True):
        _merge_avgs(
            given(partial.count),
            given(partial.value),
            given(partial.compensation),
            given(partial.incremental),
            given(rows),
            combined.count,
            combined.value,
            combined.compensation,
            combined.incremental,
        )
    return combined


def _no_sums(n_groups: int, steps: int) -> SumPartial:
    shape = (n_groups, steps)
    return SumPartial(np.full(shape, -0.0), np.zeros(shape), np.zeros(shape, np.bool_))


def _no_avgs(n_groups: int, steps: int) -> AvgPartial:
    shape = (n_groups, steps)
    return AvgPartial(np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_))
