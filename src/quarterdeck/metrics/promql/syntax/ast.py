"""The tree of a query: frozen nodes, each with its place in the text.

Equality ignores places, so that a tree that is printed and parsed again equals the first one. The tree says what was
written: nothing is resolved, folded or checked here. It must not know types, functions' signatures or samples.
"""

import struct
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from quarterdeck.metrics.promql.spans import NOWHERE, Span


class MatchOp(StrEnum):
    """How a matcher compares a label's value. A label that is not there has the empty value."""

    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label; a regular expression is anchored on both ends."""

    name: str
    op: MatchOp
    value: str


class BinaryOp(StrEnum):
    """The operators between two expressions."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    MOD = "%"
    POW = "^"
    ATAN2 = "atan2"
    EQ = "=="
    NE = "!="
    GT = ">"
    LT = "<"
    GE = ">="
    LE = "<="
    AND = "and"
    OR = "or"
    UNLESS = "unless"
    TRIM_UPPER = "</"
    TRIM_LOWER = ">/"

    @property
    def is_comparison(self) -> bool:
        """Whether it filters, or with `bool` answers 0 or 1."""
        return self in _COMPARISONS

    @property
    def is_set(self) -> bool:
        """Whether it works on which series are there, not on their values."""
        return self in _SETS

    @property
    def is_trim(self) -> bool:
        """Whether it cuts off one side of histograms."""
        return self in _TRIMS


_COMPARISONS = frozenset({BinaryOp.EQ, BinaryOp.NE, BinaryOp.GT, BinaryOp.LT, BinaryOp.GE, BinaryOp.LE})
_SETS = frozenset({BinaryOp.AND, BinaryOp.OR, BinaryOp.UNLESS})
_TRIMS = frozenset({BinaryOp.TRIM_UPPER, BinaryOp.TRIM_LOWER})


class AggregateOp(StrEnum):
    """The aggregations over series."""

    SUM = "sum"
    AVG = "avg"
    COUNT = "count"
    MIN = "min"
    MAX = "max"
    GROUP = "group"
    STDDEV = "stddev"
    STDVAR = "stdvar"
    TOPK = "topk"
    BOTTOMK = "bottomk"
    COUNT_VALUES = "count_values"
    QUANTILE = "quantile"
    LIMITK = "limitk"
    LIMIT_RATIO = "limit_ratio"

    @property
    def takes_parameter(self) -> bool:
        """Whether an argument stands before the vector."""
        return self in _WITH_PARAMETER


_WITH_PARAMETER = frozenset(
    {
        AggregateOp.TOPK,
        AggregateOp.BOTTOMK,
        AggregateOp.COUNT_VALUES,
        AggregateOp.QUANTILE,
        AggregateOp.LIMITK,
        AggregateOp.LIMIT_RATIO,
    }
)


class Cardinality(StrEnum):
    """How many series of either side may match one of the other."""

    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "many-to-one"
    ONE_TO_MANY = "one-to-many"
    MANY_TO_MANY = "many-to-many"


@dataclass(frozen=True, slots=True)
class VectorMatching:
    """How series of two vectors find each other."""

    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    on: bool = False
    """Whether `labels` are those to compare; else they are those to leave out."""
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    """Labels that `group_left` or `group_right` takes over from the one side."""
    fill_left: float | None = None
    """The value for a series that is missing on the left (`fill`, `fill_left`)."""
    fill_right: float | None = None


class AtAnchor(StrEnum):
    """The two times of a query that `@` can name."""

    START = "start"
    END = "end"


At: TypeAlias = int | AtAnchor
"""What follows `@`: a time in milliseconds, or an end of the query's range."""


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number; `as_duration` when it was written with units (`5m` is 300)."""

    value: float = field(compare=False)
    as_duration: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    bits: bytes = field(init=False, repr=False)
    """The value for comparisons: not-a-number equals itself here, and 0 is not -0."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", struct.pack(">d", self.value))


class QueryLength(StrEnum):
    """The two lengths of a query that a duration can name: from step to step, and from the first to the last."""

    STEP = "step"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class DurationCall:
    """`step()` or `range()` in a duration."""

    length: QueryLength
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DurationExtreme:
    """`min_of` or `max_of` of two durations."""

    largest: bool
    lhs: "Duration"
    rhs: "Duration"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DurationBinary:
    """Two durations and the operator between them."""

    op: BinaryOp
    lhs: "Duration"
    rhs: "Duration"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DurationSigned:
    """A sign before a duration that is no number."""

    negative: bool
    inner: "Duration"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DurationParen:
    """A duration in parentheses."""

    inner: "Duration"
    span: Span = field(default=NOWHERE, compare=False)


DurationExpr: TypeAlias = DurationCall | DurationExtreme | DurationBinary | DurationSigned | DurationParen
"""A length of time that has to be worked out, when the times of the query are known."""

Duration: TypeAlias = NumberLiteral | DurationExpr
"""A length of time, or a number in the arithmetic with such; both are in seconds."""


class Extension(StrEnum):
    """What a window is told of the samples around it."""

    ANCHORED = "anchored"
    """The last sample before the window stands for its beginning."""
    SMOOTHED = "smoothed"
    """The values at both ends lie on the lines between the samples around them."""


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A quoted string, its escapes resolved."""

    value: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Paren:
    """An expression in parentheses."""

    expr: "Expr"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """A sign before an expression."""

    negative: bool
    expr: "Expr"
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Two expressions and the operator between them."""

    op: BinaryOp
    lhs: "Expr"
    rhs: "Expr"
    return_bool: bool = False
    matching: VectorMatching | None = None
    """None unless both sides are vectors."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation; `grouping` are the labels of `by` or, with `without`, those that go."""

    op: AggregateOp
    expr: "Expr"
    parameter: "Expr | None" = None
    grouping: tuple[str, ...] = ()
    without: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    function: str
    args: tuple["Expr", ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class VectorSelector:
    """The series that match, one value each. A name before the braces is a matcher of `__name__` too, the last one."""

    name: str | None
    """As written before the braces; for messages and printing. A name within them is a matcher and no more."""
    matchers: tuple[Matcher, ...] = field(compare=False)
    offset_ms: int = 0
    at: At | None = None
    extension: Extension | None = None
    offset_expr: DurationExpr | None = None
    """What the offset is worked out from; until then it is 0."""
    span: Span = field(default=NOWHERE, compare=False)
    conditions: tuple[Matcher, ...] = field(init=False, repr=False)
    """The matchers for comparisons: their order says nothing, and they are printed in another one."""

    def __post_init__(self) -> None:
        in_order = sorted(self.matchers, key=lambda matcher: (matcher.name, matcher.op, matcher.value))
        object.__setattr__(self, "conditions", tuple(in_order))


@dataclass(frozen=True, slots=True)
class MatrixSelector:
    """The series that match, all values within a range before each step. `selector` has what stands after it."""

    selector: VectorSelector
    range_ms: int
    range_expr: DurationExpr | None = None
    """What the range is worked out from; until then it is 0."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Subquery:
    """An expression evaluated at steps of its own within a range before each step."""

    expr: "Expr"
    range_ms: int
    step_ms: int | None
    """None: the engine's default."""
    offset_ms: int = 0
    at: At | None = None
    range_expr: DurationExpr | None = None
    """What the range is worked out from; until then it is 0. The same goes for step and offset."""
    step_expr: DurationExpr | None = None
    offset_expr: DurationExpr | None = None
    span: Span = field(default=NOWHERE, compare=False)


Expr: TypeAlias = (
    NumberLiteral
    | StringLiteral
    | Paren
    | Unary
    | Binary
    | Aggregation
    | Call
    | VectorSelector
    | MatrixSelector
    | Subquery
)
