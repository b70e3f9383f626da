"""`count_values`: how often each value occurs in a group, for each step.

Values are told apart by how they print: all that are not numbers are one, -0 and 0 are two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64, Bool

_ALL_BUT_SIGN: Final = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """One row for each group and value that occurs in it, by rising group, then value; not a number comes last."""

    groups: I64
    values: F64
    counts: F64
    """[pairs, steps]"""
    present: Bool


def unlimited(rows: int, steps: int) -> None:
    """For a caller with memory to spare."""


def count_values(
    values: F64, present: Bool, groups: I64, n_groups: int, check_room: Callable[[int, int], None] = unlimited
) -> ValueCounts:
    """Count the values of each group: `groups` says for each row which.

    The result has as many rows as there are distinct pairs, each with all steps: before it is made, `check_room` is
    told how many rows and steps these are, and raises if they are too many.
    """
    steps = values.shape[1]
    rows, columns = np.nonzero(present)
    cells = _sortable(values[rows, columns])
    distinct = np.unique(cells)
    pairs, pair = _unique(groups[rows] * len(distinct) + np.searchsorted(distinct, cells), n_groups * len(distinct))
    check_room(len(pairs), steps)
    counts = np.bincount(pair * steps + columns, minlength=len(pairs) * steps).reshape(len(pairs), steps)
    group_of_pair, value_of_pair = np.divmod(pairs, max(len(distinct), 1))
    return ValueCounts(group_of_pair, _unsortable(distinct[value_of_pair]), counts.astype(np.float64), counts > 0)


def _unique(keys: I64, end: int) -> tuple[I64, I64]:
    """The distinct keys, which are below `end`, and for each key which of them it is."""
    if end > 16 * len(keys):
        distinct = np.unique(keys)
        return distinct, np.searchsorted(distinct, keys)
    seen = np.zeros(end, np.bool_)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]


def _sortable(values: F64) -> I64:
    """Integers in the order of the values, -0 before 0 and one not-a-number after all."""
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return bits ^ ((bits >> 63) & _ALL_BUT_SIGN)


def _unsortable(keys: I64) -> F64:
    """The values of which `_sortable` made `keys`."""
    return (keys ^ ((keys >> 63) & _ALL_BUT_SIGN)).view(np.float64)
