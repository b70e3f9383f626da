"""Every difference between Prometheus 2.42, the peer, and 3.x, whose answers ours are, that a comparison must not
report.

Each entry says why there is one and how it is handled: by what is never asked (the maker of queries), by what is
never stored (the data set), by translating, or by a predicate over one finding. A predicate excuses as little as it
can; an entry without one excuses nothing.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from quarterdeck.metrics.promql.labels import Labels
from quarterdeck.metrics.promql.syntax import ast
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.printer import show
from quarterdeck.metrics.promql.syntax.types import ValueType, type_of
from tests.differential.answers import Answer, Difference, Failure, Table, compare
from tests.differential.cases import Candidate, Case
from tests.differential.trees import mapped, parts, without_parens

LIBRARY_FUNCTIONS: Final = frozenset(
    {
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "ln", "log10", "log2", "sin", "sinh",
        "tan", "tanh",
    }
)  # fmt: skip
"""What Go and C compute each in their own way, right but for the last bit or two."""

SHAKEN: Final = LIBRARY_FUNCTIONS | {"timestamp"}
"""What is moved to see how far a last bit carries: these, and times, which stay when the samples are nudged."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One case in which the answers differ."""

    case: Case
    tree: ast.Expr | None
    """None when our parser refused the query."""
    our: Answer
    their: Answer
    difference: Difference


@dataclass(frozen=True, slots=True)
class Known:
    """One difference between the versions."""

    name: str
    reason: str
    handling: str
    excuses: Callable[[Finding, Candidate], bool] | None = None


def excuse(finding: Finding, candidate: Candidate) -> Known | None:
    """The known difference that explains a finding, or None."""
    for known in KNOWN:
        if known.excuses is not None and known.excuses(finding, candidate):
            return known
    return None


def is_tie(finding: Finding, candidate: Candidate | None = None) -> bool:
    """At every time the same values were picked, if from other series."""
    top = without_parens(finding.tree)
    if not isinstance(top, ast.Aggregation) or top.op not in {ast.AggregateOp.TOPK, ast.AggregateOp.BOTTOMK}:
        return False
    if not isinstance(finding.our, Table) or not isinstance(finding.their, Table):
        return False
    return _picked(finding.our) == _picked(finding.their)


def _picked(table: Table) -> Counter[tuple[int, str]]:
    return Counter((time, f"{value:.9g}") for points in table.series.values() for time, value in points.items())


def is_hidden_ambiguity(finding: Finding, candidate: Candidate | None = None) -> bool:
    """Ours refused an ambiguous match that theirs did not notice, and there is a filter that may have hidden it."""
    if not isinstance(finding.our, Failure) or "multiple matches for labels" not in finding.our.text:
        return False
    return finding.tree is not None and any(
        isinstance(part, ast.Binary) and part.op.is_comparison and not part.return_bool and part.matching is not None
        for part in (finding.tree, *parts(finding.tree))
    )


def _is_rounding(finding: Finding, candidate: Candidate) -> bool:
    """Wherever the answers differ, ours differ from each other as well once the samples are moved by 1e-13.

    Differences of sums, comparisons of almost equal values and steps such as `floor` make much out of the last bit.
    """
    our, their, cells = finding.our, finding.their, finding.difference.cells
    if isinstance(our, Table) and isinstance(their, Table) and cells:
        if _averages(finding.tree) and all(_is_residue(our, their, *cell) for cell in cells):
            return True
        if _is_cancelled(finding, candidate):
            return True
        still = candidate.engine_answer(finding.case)
        moved = [compare(still, other) for other in candidate.nudged_answers(finding.case)]
        return cells <= frozenset[object]().union(*(one.cells for one in moved if one is not None))
    # A filter that keeps a series more may make a match ambiguous.
    if {type(our), type(their)} == {Failure, Table}:
        still = candidate.engine_answer(finding.case)
        return any(type(other) is not type(still) for other in candidate.nudged_answers(finding.case))
    return False


def is_last_bit(finding: Finding, candidate: Candidate) -> bool:
    """Wherever the answers differ, ours differ from each other as well once the results of functions with last bits
    of their own, and times, are moved by a bit or two, each in its own way."""
    if finding.tree is None or not finding.difference.cells:
        return False
    still, moved = candidate.engine_answer(finding.case), frozenset[object]()
    for frequency in ("1e9", "1.7e9", "2.3e9", "3.1e9"):
        shaken = mapped(finding.tree, lambda part, hz=frequency: _shaken(part, hz))
        difference = compare(still, candidate.engine_answer(replace(finding.case, text=show(shaken))))
        moved |= frozenset() if difference is None else difference.cells
    return finding.difference.cells <= moved


def _shaken(expr: ast.Expr, frequency: str) -> ast.Expr:
    match expr:
        case ast.Call(function=function) if function in SHAKEN:
            pass
        case ast.Binary(op=ast.BinaryOp.ATAN2 | ast.BinaryOp.POW) if type_of(expr) is ValueType.VECTOR:
            pass
        case _:
            return expr
    return parse(f"(({show(expr)}) * (1 + 4e-16 * sin({frequency} * ({show(expr)}))))")


def _is_cancelled(finding: Finding, candidate: Candidate) -> bool:
    """The whole is a sum or an average, and the difference is nothing beside the sum of its terms' absolute values."""
    top = without_parens(finding.tree)
    if not isinstance(top, ast.Aggregation) or top.op not in {ast.AggregateOp.SUM, ast.AggregateOp.AVG}:
        return False
    absolute = replace(top, expr=ast.Call("abs", (top.expr,)))
    scale = candidate.engine_answer(replace(finding.case, text=show(absolute)))
    if not isinstance(finding.our, Table) or not isinstance(finding.their, Table) or not isinstance(scale, Table):
        return False
    tables = (finding.our, finding.their, scale)
    for labels, time_ms in finding.difference.cells:
        our, their, whole = (table.series.get(labels, {}).get(time_ms, math.nan) for table in tables)
        if not abs(our - their) <= 1e-13 * whole:
            return False
    return True


def _is_residue(our: Table, their: Table, labels: Labels, time_ms: int) -> bool:
    """One of them is 0, and the other what may be left of terms up to 100 that should cancel out."""
    pair = [abs(table.series.get(labels, {}).get(time_ms, math.inf)) for table in (our, their)]
    return min(pair) == 0.0 and 1e-19 < max(pair) < 1e-13


def _averages(tree: ast.Expr | None) -> bool:
    return tree is not None and any(
        (isinstance(part, ast.Aggregation) and part.op is ast.AggregateOp.AVG)
        or (isinstance(part, ast.Call) and part.function == "avg_over_time")
        for part in (tree, *parts(tree))
    )


KNOWN: Final = (
    Known(
        "windows are left-open",
        "Since 3.0 a range selector and the lookback leave out a sample that lies exactly on their start.",
        "Data: samples lie at milliseconds that end in 7. Queries: all times, ranges and offsets are whole seconds.",
    ),
    Known(
        "subqueries are left-open",
        "Since 3.0 a step of a subquery that lies exactly on the start of its range is left out.",
        "Queries: a subquery's range is never a whole number of seconds, while its steps are (SUBQUERY_RANGES).",
    ),
    Known(
        "extrapolation to zero",
        "Up to 2.44 `rate` and `increase` looked at a counter's zero point before the threshold that says whether the "
        "series starts within the window; since then they look at it after. The results differ if the series starts "
        "within the window, 0.5 to 1.1 intervals after its zero point.",
        "Data: series without gaps are regular to 2 %, and counters start at 0 or far above. Queries: these functions "
        "take counters, series without gaps, and subqueries of those.",
    ),
    Known(
        "names go away at the end",
        "Our engine has delayed name removal: a function's result still has a name for `by (__name__)` or "
        "`label_replace`. Two series that differ in their name only clash at the end, not at the function.",
        "Queries: `__name__` is used on what still has its name in both (Vector.named); functions are not applied to "
        "series that differ in their name only (Vector.several).",
    ),
    Known(
        "double_exponential_smoothing",
        "It was called holt_winters up to 2.x.",
        "Translated in cases.Peer.",
    ),
    Known(
        "new in 3.x",
        "2.42 does not know mad_over_time, sort_by_label, limitk, info, first_over_time, ts_of_*, histogram_avg, "
        "durations as numbers, numbers as durations, quoted names, fill, anchored and smoothed.",
        "Queries: none of them. The broken queries lose a bracket or a comma, never a unit.",
    ),
    Known(
        "atan2 keeps names",
        "In 2.x the result of atan2 has the metric's name, unlike those of the other arithmetic operators.",
        "Queries: its operands are multiplied by 1, which takes the name away.",
    ),
    Known(
        "timestamp with @ and offset",
        "Prometheus, including 3.x, forgets the offset of a selector with `@` directly within `timestamp`. It finds "
        "nothing, or a sample of another time. Ours applies the offset.",
        "Queries: nothing with both within `timestamp`.",
    ),
    Known(
        "predict_linear with @",
        "For this function alone, Prometheus moves the window of a range with `@` along with the steps of a range "
        "query. Ours stays.",
        "Queries: no `@` within `predict_linear`.",
    ),
    Known(
        "fixed times in empty subqueries",
        "If no step of a subquery lies within its range, Prometheus, including 3.x, still evaluates what has an `@` "
        "inside at the next step, and answers with a sample from after the range. Ours is empty.",
        "Queries: no `@` in a subquery whose step is longer than its range may be.",
    ),
    Known(
        "spread of infinities",
        "In 2.42 the stddev and stdvar of a single infinity or NaN are 0; since 3.0 they are NaN. In 2.42 those over "
        "time of values whose squares overflow are NaN; since 3.0 they are infinity.",
        "Queries: spreads are taken of finite values only (Vector.finite).",
    ),
    Known(
        "names that change between steps",
        "This follows from delayed name removal. If `or` takes a series from one metric at one step and from another "
        "at the next, 2.42 has one series. Ours has two, which clash within a window.",
        "Queries: no `or` within a subquery.",
    ),
    Known(
        "parameters with @",
        "In a range query 2.42 moves an `@` within the parameter of an aggregation along with the steps. If the vector "
        "is the same at all steps (`vector(2)`, or by `@`), it uses the first step's parameter for all of them.",
        "Queries: the parameter of `quantile` is a number when there is an `@` or a `vector()`; those of `topk` and "
        "`bottomk` always are.",
    ),
    Known(
        "count_values by three labels",
        "In a range query 2.42 forgets one of three, five or more labels of `by` after the first step.",
        "Queries: `count_values` groups by two labels at most, or `without`.",
    ),
    Known(
        "sinh and cosh near the largest number",
        "Go computes them from the exponential, which overflows at 709.8. They themselves overflow at 710.5, as in "
        "ours.",
        "Queries: their argument is clamped to ±700.",
    ),
    Known(
        "last bits of functions",
        "Go has its own implementations of powers, logarithms and trigonometric functions; ours are the C library's. "
        "Their last bits differ, which shows in the difference of two results that are almost equal.",
        "Predicate: our own answer at the same place moves as well when the results of these functions, and of "
        "`timestamp`, are moved by 4e-16.",
        is_last_bit,
    ),
    Known(
        "sums of minus zero",
        "In 2.42 the sum of a single -0 is -0; since 3.0 the carried error makes it 0. A division shows it.",
        "Data: no -0 is stored. Queries may still make one.",
    ),
    Known(
        "filters hide ambiguity",
        "In 2.x two series that match one are an error only if a comparison keeps both. Since 3.0 they always are.",
        "Predicate: ours fails for this reason, and the query filters by comparing vectors.",
        is_hidden_ambiguity,
    ),
    Known(
        "ties of topk",
        "In Prometheus the order of the series in storage decides which of several equal values topk and bottomk pick.",
        "Queries: inside a query they pick from distinct values (Vector.distinct). At the top of one, the predicate: "
        "at every time the picked values are the same.",
        is_tie,
    ),
    Known(
        "rounding",
        "Since 3.0 `sum` and `avg` carry the rounding error along (Kahan), and the order of the series differs. If a "
        "line rises by less than a millionth of the values, `deriv` and `predict_linear` over many samples lose fewer "
        "digits in ours. It shows in queries that amplify the last bit.",
        "Tolerance 1e-9, and the predicate: our own answer at the same place moves as well when every series is "
        "multiplied by 1 ± 1e-13; or there is an average, 0 for one and next to it for the other; or the whole is a "
        "sum of far larger terms. Queries: `count_values`, where a last bit becomes a label, counts stored or whole "
        "values; no angle is a time.",
        _is_rounding,
    ),
)
