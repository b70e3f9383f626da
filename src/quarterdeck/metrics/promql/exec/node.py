"""What evaluates: the port of all nodes, and what they share."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeVar

from quarterdeck.metrics.promql.blocks import Block, Grid, ScalarBlock, SeriesBlock, VectorBlock
from quarterdeck.metrics.promql.defects import PASSING, defect
from quarterdeck.metrics.promql.kernels.threads import Stopped, Threads
from quarterdeck.metrics.promql.limits import Memory
from quarterdeck.metrics.promql.notes import Notes
from quarterdeck.metrics.promql.plan.explain import title
from quarterdeck.metrics.promql.plan.nodes import Plan

T = TypeVar("T")

STRIDE: Final = 1 << 8
"""So many series or histograms of a loop in Python go by, a millisecond or some, before it is asked whether to stop."""


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

    def check_stop(self) -> None:
        """Raise `Stopped` if the caller wants no answer any more."""
        if self.should_stop():
            raise Stopped

    def need(self, size_bytes: int) -> None:
        """Say what the next step is going to take, and ask whether to stop before it."""
        self.check_stop()
        self.memory.need(size_bytes)

    def watched(self, items: Iterable[T]) -> Iterator[T]:
        """The same items, for a loop in Python over many: every now and then it is asked whether to stop."""
        left = iter(items)
        while some := tuple(islice(left, STRIDE)):
            self.check_stop()
            yield from some


class ExecNode(Protocol):
    """A part of a plan that can be evaluated."""

    def eval(self, grid: Grid) -> Block:
        """The values at the steps of `grid`. Called with rising times, each step at most once."""
        ...


@dataclass(frozen=True, slots=True)
class AccountedNode:
    """A node whose answer is on the account until the node above it has answered in turn, and whose mistakes have its
    name."""

    node: ExecNode
    context: Context
    plan: Plan

    def eval(self, grid: Grid) -> Block:
        self.context.check_stop()
        # No context manager around this: a plan is as deep as its limit, and each level has its frames.
        try:
            with self.context.memory.frame():
                block = self.node.eval(grid)
        except PASSING:
            raise
        except Exception as error:
            raise defect(title(self.plan), error) from error
        if isinstance(block, VectorBlock):
            self.context.memory.lend(block.size_bytes)
        return block


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
