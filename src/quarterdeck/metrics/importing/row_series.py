"""The series of each row of a table, made from the columns that name it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quarterdeck.metrics.importing.column_numbers import Problem
from quarterdeck.metrics.importing.errors import Malformed
from quarterdeck.metrics.importing.label_columns import CodedColumn, Pairs, densified
from quarterdeck.metrics.importing.series_table import Places
from quarterdeck.metrics.importing.series_text import as_labels
from quarterdeck.metrics.promql.blocks import I64

_MANY: Final = 1 << 31
"""Numbers up to here can be multiplied with each other."""


def series_of(
    columns: Sequence[CodedColumn], row_count: int, fixed: Pairs, places: Places
) -> tuple[NDArray[np.int32], list[Problem]]:
    """For each row the place of its series, and the first row that has none."""
    codes, count = _combined(columns, row_count)
    firsts = _first_rows(codes)
    parts = [column.pairs_at(firsts) for column in columns]
    by_code = np.zeros(count, np.int32)
    for at, row in enumerate(firsts.tolist()):
        try:
            by_code[at] = places.place_of(as_labels([*fixed, *_joined([part[at] for part in parts])]))
        except Malformed as fault:
            return by_code[codes], [Problem(row, fault)]
    return by_code[codes], []


def _joined(parts: list[Pairs | Malformed]) -> Pairs:
    pairs: Pairs = []
    for part in parts:
        if isinstance(part, Malformed):
            raise part
        pairs += part
    return pairs


def _combined(columns: Sequence[CodedColumn], row_count: int) -> tuple[I64, int]:
    """One number for all columns together, in the order in which they come."""
    codes, size = np.zeros(row_count, np.int64), 1
    for column in columns:
        if size * column.size > _MANY:
            codes, size = densified(codes)
        codes, size = codes * column.size + column.codes, size * column.size
    return densified(codes)


def _first_rows(codes: I64) -> I64:
    """Where each number comes first: where it is larger than all before it."""
    highest = np.maximum.accumulate(codes)
    return np.flatnonzero(np.diff(highest, prepend=-1))
