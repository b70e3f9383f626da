"""What evaluates: the port of all nodes, and what they share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quarterdeck.metrics.promql.blocks import Block, Grid, ScalarBlock, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.kernels.threads import Threads
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.notes import Notes


def never() -> bool:
    """A query that nobody stops."""
    return False


@dataclass(frozen=True, slots=True)
class Context:
    """What the nodes of one evaluation share."""

    threads: Threads
    memory: Memory
    notes: Notes
    lookback_ms: int
    instant: bool
    """Whether the query has one step by nature: then the order of series counts."""
    should_stop: Callable[[], bool] = never


class ExecNode(Protocol):
    """A part of a plan that can be evaluated."""

    def eval(self, grid: Grid) -> Block:
        """The values at the steps of `grid`. Called with rising times, each step once."""
        ...


class Windows(Protocol):
    """A part of a plan that yields ranges of samples."""

    def eval(self, grid: Grid) -> tuple[SeriesBlock, Grid]:
        """The samples that all windows of `grid` need, without staleness markers, and the times at which the windows
        end."""
        ...

    @property
    def range_ms(self) -> int:
        """How far a window reaches back."""
        ...


def vector(node: ExecNode, grid: Grid) -> VectorBlock:
    """What a node yields that is known to yield vectors."""
    block = node.eval(grid)
    if not isinstance(block, VectorBlock):
        raise TypeError(f"expected a vector, got {type(block).__name__}")
    return block


def scalar(node: ExecNode, grid: Grid) -> ScalarBlock:
    """What a node yields that is known to yield scalars."""
    block = node.eval(grid)
    if not isinstance(block, ScalarBlock):
        raise TypeError(f"expected a scalar, got {type(block).__name__}")
    return block


SAME_LABELSET = "vector cannot contain metrics with the same labelset"
