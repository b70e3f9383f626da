"""The parameters of aggregations: which are wrong, and what is said of them.

Prometheus looks at the parameters of all steps before it aggregates, and names the largest and the smallest of the
wrong ones. Here they come in blocks of steps; a warning is taken back when a later block has a parameter that is worse.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from quarterdeck.metrics.promql.blocks import F64, I64
from quarterdeck.metrics.promql.errors import ExecutionError
from quarterdeck.metrics.promql.exec.node import Context
from quarterdeck.metrics.promql.floats import show_short
from quarterdeck.metrics.promql.spans import Span

_LARGEST_INT64: Final = 9223372036854774784.0
"""The largest double below 2**63."""


def whole_numbers(values: F64) -> I64:
    """The number of series to choose, for each step. None is chosen for less than 1, however little that is."""
    if np.isnan(values).any():
        raise ExecutionError("Parameter value is NaN")
    if (values < 1).all():
        return np.zeros(len(values), np.int64)
    if (values < -_LARGEST_INT64).any():
        raise ExecutionError(f"Scalar value {show_short(float(values.min()))} underflows int64")
    if (values >= _LARGEST_INT64).any():
        raise ExecutionError(f"Scalar value {show_short(float(values.max()))} overflows int64")
    return values.astype(np.int64)


@dataclass(slots=True)
class WrongParameters:
    """The parameters so far that are out of bounds. Where some are no numbers, that is all that is said."""

    lowest: float
    highest: float
    text: Callable[[float], str]
    """What is said of one of them."""
    span: Span
    context: Context
    told: tuple[float, ...] = ()
    """Which of them were warned of."""
    smallest: float = math.inf
    largest: float = -math.inf

    def note(self, values: F64) -> None:
        """Warn of those of a block, and of the blocks before it."""
        # NumPy's min and max of anything that is not a number is not a number, now and in all later blocks.
        self.smallest = float(values.min(initial=self.smallest))
        self.largest = float(values.max(initial=self.largest))
        if math.isnan(self.smallest):
            found: tuple[float, ...] = (math.nan,)
        else:
            found = tuple(
                value
                for value, is_wrong in (
                    (self.smallest, self.smallest < self.lowest),
                    (self.largest, self.largest > self.highest),
                )
                if is_wrong
            )
        for value in self.told:
            self.context.notes.take_back(self.text(value), self.span)
        for value in found:
            self.context.notes.warn(self.text(value), self.span)
        self.told = found
