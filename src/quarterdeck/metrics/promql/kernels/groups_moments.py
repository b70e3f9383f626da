"""`MomentsPartial`: variance and standard deviation over the rows of a group, for each step.

Welford's update as upstream does it, and Chan's rule to combine partials. A sample that is not finite makes the
variance not a number. Sharded and unsharded results differ by rounding. Where the mean is a million times the
deviation, rounding takes six of the sixteen digits in either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool
from quarterdeck.metrics.promql.kernels.compile import given, kernel


@dataclass(frozen=True, eq=False)
class MomentsPartial:
    """Moments [groups, steps]; a cell with a count of zero is not present and may hold anything."""

    count: F64
    mean: F64
    m2: F64
    """The sum of the squared differences from the mean."""

    def finish_stdvar(self) -> tuple[F64, Bool]:
        """The variances, and where there are any."""
        present = self.count > 0
        return self.m2 / np.where(present, self.count, 1.0), present

    def finish_stddev(self) -> tuple[F64, Bool]:
        """The standard deviations, and where there are any."""
        variance, present = self.finish_stdvar()
        with np.errstate(invalid="ignore"):
            return np.sqrt(variance), present


@kernel
def _moments_rows(values: F64, present: Bool, groups: I64, count: F64, mean: F64, m2: F64) -> None:
    for row in range(values.shape[0]):
        row_values, row_present = values[row], present[row]
        group = groups[row]
        row_count, row_mean, row_m2 = count[group], mean[group], m2[group]
        for i in range(len(row_present)):
            if not row_present[i]:
                continue
            sample = row_values[i]
            n = row_count[i] + 1.0
            row_count[i] = n
            if n == 1.0:
                row_mean[i] = sample
                row_m2[i] = sample - sample  # zero, or not a number for one that is not finite
                continue
            delta = sample - row_mean[i]
            row_mean[i] += delta / n
            row_m2[i] += delta * (sample - row_mean[i])


@kernel
def _merge_moments(counts: F64, means: F64, m2s: F64, rows: I64, count: F64, mean: F64, m2: F64) -> None:
    for source in range(counts.shape[0]):
        row = rows[source]
        for i in range(counts.shape[1]):
            theirs, ours = counts[source, i], count[row, i]
            if theirs == 0.0:
                continue
            both = ours + theirs
            count[row, i] = both
            if ours == 0.0:
                mean[row, i], m2[row, i] = means[source, i], m2s[source, i]
                continue
            delta = means[source, i] - mean[row, i]
            mean[row, i] += delta * (theirs / both)
            m2[row, i] += m2s[source, i] + delta * (delta * (ours * theirs / both))


def moments_groups(values: F64, present: Bool, groups: I64, n_groups: int) -> MomentsPartial:
    """The moments of each group: `groups` says for each row which."""
    values, present, groups = given(values), given(present), given(groups)
    partial = _no_moments(n_groups, values.shape[1])
    _moments_rows(values, present, groups, partial.count, partial.mean, partial.m2)
    return partial


def combine_moments(partials: Sequence[MomentsPartial], maps: Sequence[I64], n_groups: int) -> MomentsPartial:
    """One partial of several: row `r` of `partials[p]` is part of row `maps[p][r]`. There must be one or more."""
    combined = _no_moments(n_groups, partials[0].count.shape[1])
    for partial, rows in zip(partials, maps, strict=True):
        _merge_moments(
            given(partial.count),
            given(partial.mean),
            given(partial.m2),
            given(rows),
            combined.count,
            combined.mean,
            combined.m2,
        )
    return combined


def _no_moments(n_groups: int, steps: int) -> MomentsPartial:
    shape = (n_groups, steps)
    return MomentsPartial(np.zeros(shape), np.zeros(shape), np.zeros(shape))
