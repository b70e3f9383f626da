"""From the tree of a query to its logical plan.

The tree has been checked: types fit and functions exist. What a plan cannot do is an error here, by name; nothing
becomes something else silently.
"""

import math
from dataclasses import dataclass
from typing import Final, assert_never

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.errors import ExecutionError, ParseError
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax import ast
from quarterdeck.metrics.promql.syntax.ast import AggregateOp, Extension, Matcher, MatchOp, VectorMatching
from quarterdeck.metrics.promql.syntax.matchers import accepts
from quarterdeck.metrics.promql.syntax.quoting import quote
from quarterdeck.metrics.promql.syntax.types import ValueType, type_of


@dataclass(frozen=True, slots=True)
class PlanTimes:
    """When a query is evaluated; of an instant query both ends are the same and the step is 0."""

    start_ms: int
    end_ms: int
    step_ms: int
    default_subquery_step_ms: int


RANGE_FUNCTIONS: Final = frozenset(
    {
        "avg_over_time", "changes", "count_over_time", "delta", "deriv", "double_exponential_smoothing",
        "first_over_time", "idelta", "increase", "irate", "last_over_time", "mad_over_time", "max_over_time",
        "min_over_time", "predict_linear", "present_over_time", "quantile_over_time", "rate", "resets",
        "stddev_over_time", "stdvar_over_time", "sum_over_time", "ts_of_first_over_time", "ts_of_last_over_time",
        "ts_of_max_over_time", "ts_of_min_over_time",
    }
)  # fmt: skip

DATE_FUNCTIONS: Final = frozenset(
    {"day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month", "year"}
)

MAP_FUNCTIONS: Final = DATE_FUNCTIONS | {
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "cosh",
    "deg", "exp", "floor", "ln", "log10", "log2", "rad", "round", "sgn", "sin", "sinh", "sqrt", "tan", "tanh",
    "timestamp", "start_timestamp", "histogram_avg", "histogram_count", "histogram_stddev", "histogram_stdvar",
    "histogram_sum",
}  # fmt: skip

SORT_FUNCTIONS: Final = frozenset({"sort", "sort_desc", "sort_by_label", "sort_by_label_desc"})

EXTENDED_FUNCTIONS: Final = {
    Extension.ANCHORED: ("changes", "delta", "increase", "rate", "resets"),
    Extension.SMOOTHED: ("delta", "increase", "rate"),
}
"""The functions over ranges that take samples around the range into account, sorted."""

BUCKET_FUNCTIONS: Final = frozenset({"histogram_quantile", "histogram_fraction"})


def lower(expr: ast.Expr, text: str, times: PlanTimes) -> pn.Plan:
    """The plan of a checked tree; `text` is the query, for messages."""
    return _Lowering(text, times).plan(expr)


@dataclass(frozen=True, slots=True)
class _Lowering:
    text: str
    times: PlanTimes

    def plan(self, expr: ast.Expr) -> pn.Plan:
        match expr:
            case ast.NumberLiteral(value=value):
                return pn.Number(value)
            case ast.StringLiteral(value=value):
                return pn.Text(value)
            case ast.Paren(expr=inner):
                return self.plan(inner)
            case ast.Unary(negative=negative, expr=inner):
                operand = self.plan(inner)
                return pn.Negate(operand, type_of(inner) is ValueType.SCALAR) if negative else operand
            case ast.Binary():
                return self._binary(expr)
            case ast.Aggregation():
                return self._aggregate(expr)
            case ast.Call():
                return self._call(expr)
            case ast.VectorSelector():
                timing = pn.Timing(expr.offset_ms, expr.at)
                smoothed = expr.extension is Extension.SMOOTHED  # one sample has no beginning to anchor
                return pn.Select(expr.conditions, timing, smoothed=smoothed, span=expr.span)
            case ast.MatrixSelector(selector=selector, range_ms=range_ms):
                timing = pn.Timing(selector.offset_ms, selector.at)
                return pn.SelectRange(
                    selector.conditions, timing, range_ms, extension=selector.extension, span=expr.span
                )
            case ast.Subquery():
                step_ms = self.times.default_subquery_step_ms if expr.step_ms is None else expr.step_ms
                timing = pn.Timing(expr.offset_ms, expr.at)
                return pn.SubqueryRange(self.plan(expr.expr), timing, expr.range_ms, step_ms, expr.span)
            case _:
                assert_never(expr)

    def _binary(self, expr: ast.Binary) -> pn.Plan:
        lhs, rhs = self.plan(expr.lhs), self.plan(expr.rhs)
        left_scalar, right_scalar = (type_of(side) is ValueType.SCALAR for side in (expr.lhs, expr.rhs))
        if left_scalar and right_scalar:
            if expr.op.is_trim:
                # Prometheus finds this when it evaluates: what is wrong in the text comes first.
                raise ExecutionError(f"operator {quote(expr.op)} not allowed for Scalar operations")
            return pn.ScalarBinary(expr.op, lhs, rhs)
        if left_scalar:
            return pn.VectorScalar(expr.op, rhs, lhs, True, expr.return_bool, expr.span)
        if right_scalar:
            return pn.VectorScalar(expr.op, lhs, rhs, False, expr.return_bool, expr.span)
        return pn.VectorVector(expr.op, lhs, rhs, expr.matching or VectorMatching(), expr.return_bool, expr.span)

    def _aggregate(self, expr: ast.Aggregation) -> pn.Plan:
        parameter = None if expr.parameter is None else self.plan(expr.parameter)
        if expr.op is AggregateOp.COUNT_VALUES and not isinstance(parameter, pn.Text):
            raise ParseError("expected a string in call to count_values", self.text, expr.span)
        return pn.Aggregate(
            expr.op,
            self.plan(expr.expr),
            parameter,
            tuple(sorted(set(expr.grouping))),
            expr.without,
            expr.span,
            _bare(expr.expr).span,
            expr.span if expr.parameter is None else _bare(expr.parameter).span,
        )

    def _call(self, call: ast.Call) -> pn.Plan:
        name = call.function
        if name in RANGE_FUNCTIONS:
            return self._range_call(name, call)
        if name in MAP_FUNCTIONS:
            return self._map_call(call)
        if name in SORT_FUNCTIONS:
            return pn.Sort(self.plan(call.args[0]), name, self._strings(call.args[1:]), call.span)
        if name in BUCKET_FUNCTIONS:
            *scalars, vector = call.args
            return self._buckets(call, vector, tuple(scalars), "")
        match name, call.args:
            case "histogram_quantiles", (vector, label, *scalars):
                return self._buckets(call, vector, tuple(scalars), self._strings((label,))[0])
            case (("label_replace" | "label_join"), (vector, *strings)):
                return pn.Relabel(name, self.plan(vector), self._strings(tuple(strings)), call.span)
            case "info", (vector, *_):
                return self._info(call, vector)
            case "absent", (vector,):
                return pn.Absent(self._any_of(self.plan(vector)), labels_of_absent(vector))
            case "absent_over_time", (ranges,):
                present = self._range_call("present_over_time", call)
                return pn.Absent(self._any_of(present), labels_of_absent(ranges))
            case "scalar", (vector,):
                return pn.ScalarOf(self.plan(vector))
            case "vector", (scalar,):
                return pn.VectorOf(self.plan(scalar))
            case "min_of", (first, second):
                return self._extreme(first, second, largest=False)
            case "max_of", (first, second):
                return self._extreme(first, second, largest=True)
            case _:
                return self._constant(call)

    def _constant(self, call: ast.Call) -> pn.Plan:
        times = self.times
        match call.function:
            case "time":
                return pn.Time()
            case "pi":
                return pn.Number(math.pi)
            case "start":
                return pn.Number(times.start_ms / 1000)
            case "end":
                return pn.Number(times.end_ms / 1000)
            case "range":
                return pn.Number((times.end_ms - times.start_ms) / 1000)
            case "step":
                return pn.Number(times.step_ms / 1000)
            case name:
                raise ParseError(f"function {name} is not supported by Quarterdeck", self.text, call.span)

    def _range_call(self, name: str, call: ast.Call) -> pn.Plan:
        plans = [self.plan(arg) for arg in call.args]
        ranges = [plan for plan in plans if isinstance(plan, pn.SelectRange | pn.SubqueryRange)]
        scalars = tuple(plan for plan in plans if not isinstance(plan, pn.SelectRange | pn.SubqueryRange))
        if isinstance(ranges[0], pn.SelectRange) and (extension := ranges[0].extension):
            _check_extension(extension, call.function)
        return pn.RangeCall(name, ranges[0], scalars, call.span, tuple(_bare(arg).span for arg in call.args))

    def _map_call(self, call: ast.Call) -> pn.Plan:
        if call.function in DATE_FUNCTIONS and not call.args:
            return pn.Map(call.function, pn.VectorOf(pn.Time()), (), call.span)
        vector, *rest = (self.plan(arg) for arg in call.args)
        if isinstance(vector, pn.Select) and isinstance(_bare(call.args[0]), ast.VectorSelector):
            if call.function == "timestamp":
                return pn.Select(vector.matchers, vector.timing, as_timestamp=True, span=vector.span)
            if call.function == "start_timestamp":
                return pn.Select(vector.matchers, vector.timing, as_start=True, span=vector.span)
        return pn.Map(call.function, vector, tuple(rest), call.span)

    def _buckets(self, call: ast.Call, vector: ast.Expr, scalars: tuple[ast.Expr, ...], label: str) -> pn.Plan:
        return pn.Buckets(
            call.function,
            self.plan(vector),
            tuple(self.plan(scalar) for scalar in scalars),
            label,
            call.span,
            _bare(vector).span,
            tuple(_bare(scalar).span for scalar in scalars),
        )

    def _info(self, call: ast.Call, vector: ast.Expr) -> pn.Plan:
        """The second argument is matchers; as in Prometheus, an `@` or offset there means nothing."""
        selector = call.args[-1]
        matchers = selector.matchers if len(call.args) > 1 and isinstance(selector, ast.VectorSelector) else ()
        names = info_names(tuple(matcher for matcher in matchers if matcher.name == METRIC_NAME))
        data = tuple(matcher for matcher in matchers if matcher.name != METRIC_NAME)
        return pn.Info(
            self.plan(vector),
            pn.Select((*names, *data), pn.Timing(), as_timestamp=True, keeps_histograms=True, span=selector.span),
            names,
            tuple(sorted({matcher.name for matcher in data})),
            not all(accepts(matcher, "") for matcher in data),
            call.span,
        )

    def _extreme(self, first: ast.Expr, second: ast.Expr, largest: bool) -> pn.Plan:
        return pn.ScalarExtreme(self.plan(first), self.plan(second), largest)

    def _strings(self, args: tuple[ast.Expr, ...]) -> tuple[str, ...]:
        return tuple(self._string(arg) for arg in args)

    def _string(self, arg: ast.Expr) -> str:
        plan = self.plan(arg)
        if not isinstance(plan, pn.Text):
            raise ParseError("expected a string", self.text, arg.span)
        return plan.value

    @staticmethod
    def _any_of(plan: pn.Plan) -> pn.Plan:
        """Whether there is any series at all: this much of a vector is enough to say that it is absent."""
        return pn.Aggregate(AggregateOp.GROUP, plan)


def _bare(expr: ast.Expr) -> ast.Expr:
    """Without the parentheses around it: notes point at what they are about."""
    return _bare(expr.expr) if isinstance(expr, ast.Paren) else expr


def _check_extension(extension: Extension, function: str) -> None:
    allowed = EXTENDED_FUNCTIONS[extension]
    if function not in allowed:
        raise ExecutionError(
            f"{extension} modifier can only be used with: {', '.join(allowed)} - not with {function}",
            f"take the word {extension} out",
        )


def info_names(said: tuple[Matcher, ...]) -> tuple[Matcher, ...]:
    """Which metrics `info` takes for info metrics: what is not only said in the negative, as it was said."""
    if not said:
        return (Matcher(METRIC_NAME, MatchOp.EQUAL, "target_info"),)
    if any(matcher.op in (MatchOp.EQUAL, MatchOp.REGEX) for matcher in said):
        return said
    return (Matcher(METRIC_NAME, MatchOp.REGEX, ".+_info"), *said)


def labels_of_absent(expr: ast.Expr) -> Labels:
    """What a selector says for sure about the series it looks for."""
    match _bare(expr):
        case ast.MatrixSelector(selector=selector):
            return labels_of_absent(selector)
        case ast.VectorSelector(matchers=matchers):
            known: dict[str, str] = {}
            fixed: set[str] = {METRIC_NAME}
            for matcher in matchers:
                # The first equality holds until something else is said of the label; what came before it is forgotten.
                if matcher.op is MatchOp.EQUAL and matcher.name not in fixed:
                    known[matcher.name] = matcher.value
                    fixed.add(matcher.name)
                else:
                    known.pop(matcher.name, None)
            return lb.from_mapping(known)
        case _:
            return lb.EMPTY
