"""The logical plan: what a query computes, with everything that does not matter for the numbers gone.

Parentheses, spelling and the two ways to write a grouping end with the tree; here a node stands for one operation.
Equality ignores places in the text. Nodes are frozen: a rule answers with a new plan.

A plan yields a number for each step (scalars), a value for each series and step (vectors), or samples within a range
before each step (ranges), which only a range function takes.
"""

import dataclasses
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, TypeVar, cast

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.spans import NOWHERE, Span
from quarterdeck.metrics.promql.syntax.ast import AggregateOp, At, BinaryOp, Extension, Matcher, VectorMatching


@dataclass(frozen=True, slots=True)
class Number:
    """The same number at every step."""

    value: float = field(compare=False)
    bits: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", struct.pack(">d", self.value))


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class Time:
    """The time of each step in seconds."""


@dataclass(frozen=True, slots=True)
class ScalarOf:
    """The value of a vector's only series, or not-a-number."""

    vector: "Plan"


@dataclass(frozen=True, slots=True)
class ScalarBinary:
    """Two numbers and an operator; a comparison answers 0 or 1."""

    op: BinaryOp
    lhs: "Plan"
    rhs: "Plan"


@dataclass(frozen=True, slots=True)
class ScalarExtreme:
    """The larger or the smaller of two numbers; not-a-number if either is."""

    lhs: "Plan"
    rhs: "Plan"
    largest: bool


@dataclass(frozen=True, slots=True)
class Negate:
    """The other sign, of a scalar or a vector."""

    operand: "Plan"
    is_scalar: bool


@dataclass(frozen=True, slots=True)
class Timing:
    """When samples are looked for: at the step's time, moved back by `offset_ms`, or at a fixed time instead."""

    offset_ms: int = 0
    at: At | None = None

    def resolve(self, grid: Grid) -> Grid:
        """The times to look at for the steps of `grid`."""
        if self.at is None:
            return Grid(grid.start_ms - self.offset_ms, grid.step_ms, grid.count)
        if not isinstance(self.at, int):
            raise TypeError("the ends of the query's range are resolved before evaluation")
        return Grid(self.at - self.offset_ms, 0, grid.count)


@dataclass(frozen=True, slots=True)
class Select:
    """The newest sample of each series that matches, unless it is older than the lookback or says that the series
    ended."""

    matchers: tuple[Matcher, ...]
    timing: Timing
    as_timestamp: bool = False
    """Whether the sample's time is wanted instead of its value (`timestamp`)."""
    as_start: bool = False
    """Whether the sample's start timestamp is wanted instead of its value (`start_timestamp`)."""
    keeps_histograms: bool = False
    """Whether a histogram stays beside its time, to tell it from a float (`info`)."""
    finds_resets: bool = False
    """Whether only counts and sums of native histograms matter: these come without buckets, and have been compared
    with the ones before, to know if their counter started over."""
    smoothed: bool = False
    """Whether the value lies on the line between the samples before and after; it may be as far to the latter."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SelectRange:
    """All samples of each series that matches, within a range before each step."""

    matchers: tuple[Matcher, ...]
    timing: Timing
    range_ms: int
    finds_resets: bool = False
    """As for `Select`."""
    extension: Extension | None = None
    """Whether samples around the range count: up to a lookback before it, and after it as well if smoothed."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SubqueryRange:
    """The values of another plan at steps of its own, within a range before each step."""

    plan: "Plan"
    timing: Timing
    range_ms: int
    step_ms: int
    span: Span = field(default=NOWHERE, compare=False)

    def inner_grid(self, grid: Grid) -> Grid:
        """The multiples of the step that some window of `grid` contains; windows are open on the left."""
        looked_at = self.timing.resolve(grid)
        first = ((looked_at.start_ms - self.range_ms) // self.step_ms + 1) * self.step_ms
        return Grid(first, self.step_ms, max(0, (looked_at.end_ms - first) // self.step_ms + 1))


@dataclass(frozen=True, slots=True)
class LeafRange:
    """The stored samples that a leaf answers with, as a range: for a function whose arguments need other series."""

    leaf: "LeafRef"
    timing: Timing
    range_ms: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RangeCall:
    """A function over the samples in each window of each series."""

    function: str
    range: "Ranges"
    args: tuple["Plan", ...] = ()
    """Its scalar arguments, in their order."""
    span: Span = field(default=NOWHERE, compare=False)
    arg_spans: tuple[Span, ...] = field(default=(), compare=False)
    """The places of all arguments as written, including the range."""


@dataclass(frozen=True, slots=True)
class Map:
    """A function of each value by itself; `args` are scalars."""

    function: str
    vector: "Plan"
    args: tuple["Plan", ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Relabel:
    """`label_replace` and `label_join`: other labels, the same values."""

    function: str
    vector: "Plan"
    args: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Info:
    """The labels of info series added to the series that they belong to; the same values."""

    vector: "Plan"
    series: "Plan"
    """The info series: the times of their newest samples."""
    sources: tuple[Matcher, ...]
    """Series whose names satisfy all of these are info series themselves and stay as they are."""
    data: tuple[str, ...] = ()
    """The labels to add; none: all."""
    required: bool = False
    """Whether series are left out where they have no info series."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class VectorScalar:
    """An operator between each value of a vector and a number."""

    op: BinaryOp
    vector: "Plan"
    scalar: "Plan"
    scalar_left: bool
    return_bool: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class VectorVector:
    """An operator between series that match each other."""

    op: BinaryOp
    lhs: "Plan"
    rhs: "Plan"
    matching: VectorMatching
    return_bool: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Series put together by their labels."""

    op: AggregateOp
    vector: "Plan"
    parameter: "Plan | None" = None
    grouping: tuple[str, ...] = ()
    without: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    vector_span: Span = field(default=NOWHERE, compare=False)
    parameter_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Absent:
    """1 at the steps at which a vector has no series; `labels` are what the query says about the series."""

    vector: "Plan"
    labels: Labels


@dataclass(frozen=True, slots=True)
class VectorOf:
    """A number as a series without labels."""

    scalar: "Plan"


@dataclass(frozen=True, slots=True)
class Sort:
    """The order of an instant query's answer."""

    vector: "Plan"
    function: str
    by: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Buckets:
    """`histogram_quantile`, `histogram_fraction` and the like over classic histograms."""

    function: str
    vector: "Plan"
    args: tuple["Plan", ...]
    label: str = ""
    span: Span = field(default=NOWHERE, compare=False)
    vector_span: Span = field(default=NOWHERE, compare=False)
    arg_spans: tuple[Span, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class StepInvariant:
    """A plan that yields the same at every step: evaluated once."""

    plan: "Plan"


@dataclass(frozen=True, slots=True)
class LeafRef:
    """The place of a leaf's answer in the plan that is left for the coordinator."""

    index: int
    """Into the query's leaves."""
    start: int = field(compare=False)
    """Where in the text this occurrence begins; equal leaves may stand at several places."""


Ranges: TypeAlias = SelectRange | SubqueryRange | LeafRange

Plan: TypeAlias = (
    Number
    | Text
    | Time
    | ScalarOf
    | ScalarBinary
    | ScalarExtreme
    | Negate
    | Select
    | SelectRange
    | SubqueryRange
    | LeafRange
    | RangeCall
    | Map
    | Relabel
    | Info
    | VectorScalar
    | VectorVector
    | Aggregate
    | Absent
    | VectorOf
    | Sort
    | Buckets
    | StepInvariant
    | LeafRef
)

P = TypeVar("P", bound=Plan)

_NODES = (
    Number, Text, Time, ScalarOf, ScalarBinary, ScalarExtreme, Negate, Select, SelectRange, SubqueryRange, LeafRange,
    RangeCall, Map, Relabel, Info, VectorScalar, VectorVector, Aggregate, Absent, VectorOf, Sort, Buckets,
    StepInvariant, LeafRef,
)  # fmt: skip


@cache
def _parts(kind: type[Plan]) -> tuple[str, ...]:
    """The fields of a kind of plan: asked for at each node, by each rule."""
    return tuple(part.name for part in dataclasses.fields(kind))


def children(plan: Plan) -> Iterator[Plan]:
    """The plans right below."""
    for name in _parts(type(plan)):
        value = getattr(plan, name)
        if isinstance(value, tuple):
            yield from (item for item in cast("tuple[object, ...]", value) if isinstance(item, _NODES))
        elif isinstance(value, _NODES):
            yield value


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan and all below it."""
    yield plan
    for child in children(plan):
        yield from walk(child)


def map_children(plan: P, change: Callable[[Plan], Plan]) -> P:
    """The same node over changed plans; the node itself where nothing changed."""
    changes: dict[str, object] = {}
    for name in _parts(type(plan)):
        value = getattr(plan, name)
        if isinstance(value, tuple):
            if any(isinstance(item, _NODES) for item in cast("tuple[object, ...]", value)):
                changes[name] = tuple(change(item) for item in cast("tuple[Plan, ...]", value))
        elif isinstance(value, _NODES):
            changed = change(value)
            if changed is not value:
                changes[name] = changed
    return dataclasses.replace(plan, **changes) if changes else plan


def is_scalar(plan: Plan) -> bool:
    """Whether a plan yields a number for each step and not a vector."""
    match plan:
        case Number() | Time() | ScalarOf() | ScalarBinary() | ScalarExtreme():
            return True
        case Negate(is_scalar=scalar):
            return scalar
        case StepInvariant(plan=inner):
            return is_scalar(inner)
        case _:
            return False
