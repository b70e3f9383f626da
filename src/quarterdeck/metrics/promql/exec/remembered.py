"""`Remembered`: what was worked out from the labels of some series, for as long as the same series come.

An axis comes with one block after the other, so that the last answer is all that is ever asked for again. Operations
whose labels depend on values make a new axis for each block: keeping more than the last one would let a long
range take more and more memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import is_
from typing import Generic, TypeVar

from quarterdeck.metrics.promql.blocks import Axis

T = TypeVar("T")


@dataclass
class Remembered(Generic[T]):
    """The last answer, and the axes it is for."""

    last: tuple[tuple[Axis, ...], T] | None = None

    def of(self, axes: tuple[Axis, ...], work_out: Callable[[], T]) -> T:
        """What belongs to these axes, worked out if they are not the last ones."""
        if self.last is None or len(self.last[0]) != len(axes) or not all(map(is_, self.last[0], axes)):
            self.last = None  # what is no longer needed goes before the next takes its room
            self.last = (axes, work_out())
        return self.last[1]
