"""A plan as a tree that a person can read: what is left for the coordinator, and what each leaf does where the samples
are."""

from collections.abc import Iterator

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.labels import METRIC_NAME, quote
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.leaves import BaseExpr, Merge
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan
from quarterdeck.metrics.promql.syntax.ast import Cardinality, Matcher, MatchOp, VectorMatching
from quarterdeck.metrics.promql.syntax.durations import show_duration_ms

_MERGES = {
    Merge.UNION: "series of all shards, sorted by labels",
    Merge.COMBINE: "partial aggregates of all shards, combined",
    Merge.ADD: "counts of all shards, added",
    Merge.SAMPLES: "stored samples of all shards",
}


def explain(query: QueryPlan) -> str:
    """The plan of a query, one operation a line.

    >>> from quarterdeck.metrics.promql.plan.pipeline import plan_query
    >>> print(explain(plan_query("sum by (job) (rate(m[5m])) / 2", 0, 3_600_000, 60_000, 60_000)))
    61 steps of 1m
    / number on the right
    ├── leaf 0
    └── 2
    leaf 0: partial aggregates of all shards, combined; 61 steps of 1m
    └── sum by (job)
        └── rate
            └── m[5m]
    """
    lines = [_steps(query.grid), *_tree(query.plan)]
    for index, leaf in enumerate(query.leaves):
        lines += _leaf(index, leaf)
    return "\n".join(lines)


def explain_leaf(leaf: BaseExpr) -> str:
    """A leaf in one line, from the outside in.

    >>> from quarterdeck.metrics.promql.plan.pipeline import plan_query
    >>> explain_leaf(plan_query("sum by (job) (rate(m[5m]))", 0, 0, 0, 60_000).leaves[0])
    'sum by (job) of rate of m[5m]'
    """
    titles = [title(leaf.plan)]
    below = list(pn.children(leaf.plan))
    while below:
        titles.append(title(below[0]))
        below = list(pn.children(below[0]))
    return " of ".join(titles)


def _leaf(index: int, leaf: BaseExpr) -> Iterator[str]:
    yield f"leaf {index}: {_MERGES[leaf.merge]}; {_steps(leaf.grid)}"
    yield from _branch(leaf.plan, "", last=True)


def _steps(grid: Grid) -> str:
    if grid.count == 1:
        return "1 step"
    return f"{grid.count:,} steps of {show_duration_ms(grid.step_ms)}"


def _tree(plan: pn.Plan) -> Iterator[str]:
    yield title(plan)
    below = list(pn.children(plan))
    for child in below:
        yield from _branch(child, "", last=child is below[-1])


def _branch(plan: pn.Plan, indent: str, last: bool) -> Iterator[str]:
    yield f"{indent}{'└── ' if last else '├── '}{title(plan)}"
    below = list(pn.children(plan))
    for child in below:
        yield from _branch(child, indent + ("    " if last else "│   "), last=child is below[-1])


def title(plan: pn.Plan) -> str:
    """What one node does, in a few words."""
    match plan:
        case pn.Number(value=value):
            return f"{value:g}"
        case pn.Text(value=value):
            return quote(value)
        case pn.Time():
            return "time of the step"
        case pn.ScalarOf():
            return "scalar"
        case pn.VectorOf():
            return "vector"
        case pn.ScalarBinary(op=op):
            return f"{op} of numbers"
        case pn.ScalarExtreme(largest=largest):
            return "larger of numbers" if largest else "smaller of numbers"
        case pn.Negate():
            return "negative"
        case pn.Select(matchers=matchers, timing=timing, smoothed=smoothed):
            modifier = " smoothed" if smoothed else ""
            wanted = "timestamp of " if plan.as_timestamp else "start timestamp of " if plan.as_start else ""
            return wanted + selector(matchers) + modifier + _timing(timing)
        case pn.SelectRange(matchers=matchers, timing=timing, range_ms=range_ms, extension=extension):
            modifier = f" {extension}" if extension else ""
            return f"{selector(matchers)}[{show_duration_ms(range_ms)}]{modifier}{_timing(timing)}"
        case pn.SubqueryRange(timing=timing, range_ms=range_ms, step_ms=step_ms):
            return f"subquery [{show_duration_ms(range_ms)}:{show_duration_ms(step_ms)}]{_timing(timing)}"
        case pn.LeafRange(range_ms=range_ms, timing=timing):
            return f"windows of {show_duration_ms(range_ms)}{_timing(timing)}"
        case pn.RangeCall(function=function) | pn.Map(function=function) | pn.Sort(function=function):
            return function
        case pn.Buckets(function=function):
            return function
        case pn.Relabel(function=function, args=args):
            return f"{function} {', '.join(quote(arg) for arg in args)}"
        case pn.Info(data=data):
            return f"info {', '.join(data)}" if data else "info"
        case pn.VectorScalar(op=op, scalar_left=left, return_bool=return_bool):
            return f"{op}{' bool' if return_bool else ''} number on the {'left' if left else 'right'}"
        case pn.VectorVector(op=op, matching=matching, return_bool=return_bool):
            return f"{op}{' bool' if return_bool else ''}{_matching(matching)}"
        case pn.Aggregate(op=op, grouping=grouping, without=without):
            word = "without" if without else "by"
            return f"{op} {word} ({', '.join(grouping)})" if grouping or without else str(op)
        case pn.Absent():
            return "absent"
        case pn.StepInvariant():
            return "once for all steps"
        case pn.LeafRef(index=index):
            return f"leaf {index}"


def selector(matchers: tuple[Matcher, ...]) -> str:
    """A selector as one would write it."""
    names = [m.value for m in matchers if m.name == METRIC_NAME and m.op is MatchOp.EQUAL]
    name = names[0] if names else ""
    rest = [m for m in matchers if not (m.name == METRIC_NAME and m.op is MatchOp.EQUAL and m.value == name)]
    shown = ", ".join(f"{m.name}{m.op}{quote(m.value)}" for m in rest)
    return f"{name}{{{shown}}}" if rest or not name else name


def _timing(timing: pn.Timing) -> str:
    offset = ""
    if timing.offset_ms:
        sign = "-" if timing.offset_ms < 0 else ""
        offset = f" offset {sign}{show_duration_ms(abs(timing.offset_ms))}"
    return (f" @ {timing.at / 1000:g}" if isinstance(timing.at, int) else "") + offset


def _matching(matching: VectorMatching) -> str:
    words = ""
    if matching.on or matching.labels:
        words = f" {'on' if matching.on else 'ignoring'} ({', '.join(matching.labels)})"
    sides = {Cardinality.MANY_TO_ONE: " group_left", Cardinality.ONE_TO_MANY: " group_right"}
    if matching.cardinality in sides:
        words += f"{sides[matching.cardinality]} ({', '.join(matching.include)})"
    return words
