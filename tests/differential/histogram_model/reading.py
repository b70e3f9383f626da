"""Queries of scripts as the model's trees. What the model does not have is refused by name, never left out."""

from quarterdeck.metrics.promql.syntax import ast
from quarterdeck.metrics.promql.syntax.parser import parse
from tests.differential.histogram_model.expressions import (
    OF_FLOATS,
    OF_HISTOGRAMS,
    OTHER_MAPS,
    Aggregated,
    Binary,
    Mapped,
    Negated,
    NotModelled,
    OverTime,
    RangeOf,
    Select,
    Shares,
    Subquery,
    Vector,
    WithNumber,
)
from tests.differential.histogram_model.extended import ANCHORED, RATES
from tests.differential.histogram_model.groups import PLAIN, WITH_NUMBER
from tests.differential.histogram_model.operators import Matching
from tests.differential.histogram_model.samples import Wanted
from tests.differential.histogram_model.windows import FUNCTIONS

CLAMPS = ("clamp", "clamp_min", "clamp_max")
SHARES = ("histogram_quantile", "histogram_quantiles", "histogram_fraction")
DEFAULT_STEP_MS = 60_000


def read(text: str) -> Vector:
    """The model's tree of a query."""
    return vector(parse(text))


def vector(expr: ast.Expr) -> Vector:
    """An expression that has rows."""
    match expr:
        case ast.Paren(expr=inner):
            return vector(inner)
        case ast.Unary(negative=negative, expr=inner):
            return Negated(vector(inner)) if negative else vector(inner)
        case ast.VectorSelector(extension=None):
            return _select(expr)
        case ast.Binary():
            return _binary(expr)
        case ast.Aggregation():
            return _aggregate(expr)
        case ast.Call(function=function, args=args):
            return _call(function, list(args))
        case _:
            raise NotModelled(type(expr).__name__)


def _select(expr: ast.VectorSelector) -> Select:
    if isinstance(expr.at, ast.AtAnchor) or expr.offset_expr is not None:
        raise NotModelled("a selector with @ start() or a reckoned offset")
    wanted = tuple(
        Wanted(
            matcher.name,
            matcher.value,
            matcher.op in {ast.MatchOp.REGEX, ast.MatchOp.NOT_REGEX},
            matcher.op in {ast.MatchOp.NOT_EQUAL, ast.MatchOp.NOT_REGEX},
        )
        for matcher in expr.matchers
    )
    return Select(wanted, expr.offset_ms, expr.at)


def _number(expr: ast.Expr) -> float | None:
    """The number that an expression of nothing but numbers is."""
    match expr:
        case ast.NumberLiteral(value=value):
            return value
        case ast.Paren(expr=inner):
            return _number(inner)
        case ast.Unary(negative=negative, expr=inner):
            found = _number(inner)
            return None if found is None else -found if negative else found
        case _:
            return None


def _numbers(exprs: list[ast.Expr]) -> tuple[float, ...]:
    found = [number for number in map(_number, exprs) if number is not None]
    if len(found) < len(exprs):
        raise NotModelled("an argument that is no plain number")
    return tuple(found)


def _binary(expr: ast.Binary) -> Vector:
    left, right = _number(expr.lhs), _number(expr.rhs)
    if left is not None and right is None:
        return WithNumber(expr.op.value, vector(expr.rhs), left, True, expr.return_bool)
    if right is not None and left is None:
        return WithNumber(expr.op.value, vector(expr.lhs), right, False, expr.return_bool)
    matching = expr.matching
    if matching is None or matching.include or matching.fill_left is not None or matching.fill_right is not None:
        raise NotModelled("numbers alone, labels of the one side, or filling in")
    many = {ast.Cardinality.MANY_TO_ONE: "left", ast.Cardinality.ONE_TO_MANY: "right"}.get(matching.cardinality, "")
    sides = (vector(expr.lhs), vector(expr.rhs))
    return Binary(expr.op.value, *sides, Matching(matching.on, matching.labels, many), expr.return_bool)


def _aggregate(expr: ast.Aggregation) -> Aggregated:
    op, parameter = expr.op.value, None
    if isinstance(expr.parameter, ast.StringLiteral):
        parameter = expr.parameter.value
    elif expr.parameter is not None:
        (parameter,) = _numbers([expr.parameter])
    if op not in {*PLAIN, *WITH_NUMBER, "count_values"}:
        raise NotModelled(op)
    return Aggregated(op, vector(expr.expr), expr.grouping, expr.without, parameter)


def _call(function: str, args: list[ast.Expr]) -> Vector:
    if function in SHARES:
        where = 0 if function == "histogram_quantiles" else -1
        operand = vector(args.pop(where))
        if function == "histogram_quantiles" and args.pop(0) != ast.StringLiteral("q"):
            raise NotModelled("a label of another name")
        return Shares(function, operand, _numbers(args))
    if function in {*FUNCTIONS, "absent_over_time"}:
        place = next(at for at, arg in enumerate(args) if isinstance(arg, ast.MatrixSelector | ast.Subquery))
        window = _window(args[place])
        if isinstance(window, RangeOf) and window.extension and function not in ANCHORED:
            raise NotModelled("an extended range where it is refused")
        if isinstance(window, RangeOf) and window.extension == "smoothed" and function not in RATES:
            raise NotModelled("a smoothed range where it is refused")
        return OverTime(function, window, _numbers(args[:place]), _numbers(args[place + 1 :]))
    if function in {*OF_HISTOGRAMS, *OF_FLOATS, *OTHER_MAPS, *CLAMPS} and args:
        return Mapped(function, vector(args[0]), _numbers(args[1:]))
    raise NotModelled(function)


def _window(expr: ast.Expr) -> RangeOf | Subquery:
    match expr:
        case ast.MatrixSelector(selector=selector, range_ms=range_ms, range_expr=None):
            extension = "" if selector.extension is None else selector.extension.value
            return RangeOf(_select(selector), range_ms, extension)
        case ast.Subquery(at=None, range_expr=None, step_expr=None, offset_expr=None):
            step_ms = DEFAULT_STEP_MS if expr.step_ms is None else expr.step_ms
            return Subquery(vector(expr.expr), expr.range_ms, step_ms, expr.offset_ms)
        case _:
            raise NotModelled("a range whose length is reckoned")
