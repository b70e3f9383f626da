"""Trees as the parser makes them, at random: what it would not make (a negative number before `^`) is left out."""

import math

from hypothesis import strategies as st

from quarterdeck.metrics.promql.syntax.ast import (
    AggregateOp,
    Aggregation,
    AtAnchor,
    Binary,
    BinaryOp,
    Call,
    Cardinality,
    Duration,
    DurationBinary,
    DurationCall,
    DurationExpr,
    DurationExtreme,
    DurationParen,
    DurationSigned,
    Expr,
    Extension,
    Matcher,
    MatchOp,
    MatrixSelector,
    NumberLiteral,
    Paren,
    QueryLength,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from quarterdeck.metrics.promql.syntax.durations import MAX_MS
from quarterdeck.metrics.promql.syntax.functions import FUNCTIONS
from quarterdeck.metrics.promql.syntax.types import ValueType, type_of

_TEXT = st.text(max_size=5) | st.binary(max_size=3).map(lambda data: data.decode("utf-8", "surrogateescape"))
_METRICS = st.sampled_from(["foo", "a:b", "sum", "by", "offset", "without", "fill", "start", "max_of"])
_WORDS = _METRICS | st.sampled_from(["bool", "on", "Inf", "nan", "atan2", "__name__"])
_NAMES = _WORDS | st.text("ab:.é 1\"'\\", min_size=1, max_size=4)
_LABELS = st.lists(_NAMES, max_size=3).map(tuple)
_LENGTHS = st.sampled_from([1, 1000, 300_000, 86_400_000]) | st.integers(1, MAX_MS)
_OFFSETS = st.just(0) | st.integers(-MAX_MS, MAX_MS)
_TIMES = st.none() | st.sampled_from(AtAnchor) | st.integers(-(10**13), 10**13)
_FLOATS = st.floats(0, allow_nan=False) | st.just(math.nan)
_FILLS = st.none() | st.floats(allow_nan=False) | st.just(math.nan)

_MATCHERS = st.one_of(
    st.builds(Matcher, _NAMES, st.sampled_from([MatchOp.EQUAL, MatchOp.NOT_EQUAL]), _TEXT),
    st.builds(Matcher, _NAMES, st.sampled_from([MatchOp.REGEX, MatchOp.NOT_REGEX]), st.sampled_from(["a|b", ".+"])),
)


_SECONDS = st.builds(NumberLiteral, st.floats(0.001, 1e9)) | _LENGTHS.map(lambda ms: NumberLiteral(ms / 1000, True))
_CALLS = st.builds(DurationCall, st.sampled_from(QueryLength))
_ARITHMETIC = [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MOD, BinaryOp.POW]


def _closed_duration(duration: Duration) -> Duration:
    """A length that any operator or sign may stand beside."""
    return DurationParen(duration) if isinstance(duration, DurationBinary | DurationSigned) else duration


@st.composite
def _wider_durations(draw: st.DrawFn, inner: st.SearchStrategy[Duration]) -> DurationExpr:
    one = draw(inner)
    match draw(st.integers(0, 3)):
        case 0:
            return one if isinstance(one, DurationParen) else DurationParen(one)
        case 1:
            closed = _closed_duration(one)
            signed = DurationParen(closed) if isinstance(closed, NumberLiteral) else closed
            return DurationSigned(True, signed)
        case 2:
            return DurationExtreme(draw(st.booleans()), one, draw(inner))
        case _:
            op = draw(st.sampled_from(_ARITHMETIC))
            return DurationBinary(op, _closed_duration(one), _closed_duration(draw(inner)))


_DURATIONS: st.SearchStrategy[Duration] = st.recursive(_SECONDS | _CALLS, _wider_durations, max_leaves=6)
_DURATION_EXPRS = st.none() | _DURATIONS.map(lambda found: None if isinstance(found, NumberLiteral) else found)


def _ends_early(duration: DurationExpr | None) -> DurationExpr | None:
    """A length as it may stand after `offset` with anything after it: an operation is in parentheses."""
    is_open = isinstance(duration, DurationBinary) or (
        isinstance(duration, DurationSigned) and isinstance(duration.inner, DurationBinary | DurationSigned)
    )
    return DurationParen(duration) if duration is not None and is_open else duration


@st.composite
def offsets(draw: st.DrawFn) -> tuple[int, DurationExpr | None]:
    """An offset, or what it is worked out from."""
    written = _ends_early(draw(_DURATION_EXPRS))
    return (draw(_OFFSETS), None) if written is None else (0, written)


@st.composite
def lengths(draw: st.DrawFn) -> tuple[int, DurationExpr | None]:
    """A range or a step, or what it is worked out from."""
    written = draw(_DURATION_EXPRS)
    return (draw(_LENGTHS), None) if written is None else (0, written)


@st.composite
def selectors(draw: st.DrawFn) -> VectorSelector:
    """A selector, with a name or without."""
    matchers = draw(st.lists(_MATCHERS, max_size=3))
    name = draw(st.none() | _METRICS)
    if name is not None:
        matchers.append(Matcher("__name__", MatchOp.EQUAL, name))
    offset_ms, offset_expr = draw(offsets())
    extension = draw(st.none() | st.sampled_from(Extension))
    return VectorSelector(name, tuple(matchers), offset_ms, draw(_TIMES), extension, offset_expr)


@st.composite
def matrix_selectors(draw: st.DrawFn) -> MatrixSelector:
    """A selector with a range."""
    return MatrixSelector(draw(selectors()), *draw(lengths()))


_NUMBERS = st.builds(NumberLiteral, _FLOATS) | _LENGTHS.map(lambda length: NumberLiteral(length / 1000, True))
_LEAVES = st.one_of(_NUMBERS, st.builds(StringLiteral, _TEXT), selectors(), matrix_selectors())


def _closed(expr: Expr) -> Expr:
    """An expression that any operator may stand beside."""
    return Paren(expr) if isinstance(expr, Binary | Unary) else expr


@st.composite
def _binaries(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Binary:
    lhs, rhs = _closed(draw(inner)), _closed(draw(inner))
    op = draw(st.sampled_from(BinaryOp))
    between_vectors = type_of(lhs) is type_of(rhs) is ValueType.VECTOR
    matching = None
    if between_vectors:
        cardinality = Cardinality.MANY_TO_MANY if op.is_set else Cardinality.ONE_TO_ONE
        grouped = draw(st.sampled_from([cardinality, Cardinality.MANY_TO_ONE, Cardinality.ONE_TO_MANY]))
        include = () if grouped is cardinality else draw(_LABELS)
        matching = VectorMatching(grouped, draw(st.booleans()), draw(_LABELS), include, draw(_FILLS), draw(_FILLS))
    return Binary(op, lhs, rhs, draw(st.booleans()), matching)


@st.composite
def _calls(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Call:
    return Call(draw(st.sampled_from(sorted(FUNCTIONS))), tuple(draw(st.lists(inner, max_size=3))))


@st.composite
def _aggregates(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Aggregation:
    op = draw(st.sampled_from(AggregateOp))
    parameter = draw(inner) if op.takes_parameter else None
    return Aggregation(op, draw(inner), parameter, draw(_LABELS), draw(st.booleans()))


@st.composite
def _subqueries(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Subquery:
    expr = _closed(draw(inner))
    (range_ms, range_expr), (offset_ms, offset_expr) = draw(lengths()), draw(offsets())
    step_ms, step_expr = draw(st.just((None, None)) | lengths())
    return Subquery(expr, range_ms, step_ms, offset_ms, draw(_TIMES), range_expr, step_expr, offset_expr)


@st.composite
def _unaries(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Expr:
    expr = draw(inner)
    if isinstance(expr, NumberLiteral | Binary):
        expr = Paren(expr)
    return Unary(draw(st.booleans()), expr)


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        _binaries(inner),
        _calls(inner),
        _aggregates(inner),
        _subqueries(inner),
        _unaries(inner),
        st.builds(Paren, inner),
    )


trees: st.SearchStrategy[Expr] = st.recursive(_LEAVES, _grown, max_leaves=8)
