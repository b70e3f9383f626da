"""From a query's text to its plan, step by step."""

from dataclasses import dataclass

from quarterdeck.metrics.promql.blocks import Grid
from quarterdeck.metrics.promql.errors import WrongTypeError
from quarterdeck.metrics.promql.plan.leaves import BaseExpr
from quarterdeck.metrics.promql.plan.lower import PlanTimes, lower
from quarterdeck.metrics.promql.plan.nodes import Plan
from quarterdeck.metrics.promql.plan.rules.aim_info import aim_info
from quarterdeck.metrics.promql.plan.rules.check_times import check_times
from quarterdeck.metrics.promql.plan.rules.check_types import check_types
from quarterdeck.metrics.promql.plan.rules.find_resets import find_resets
from quarterdeck.metrics.promql.plan.rules.find_step_invariant import find_step_invariant
from quarterdeck.metrics.promql.plan.rules.fold_constants import fold_constants
from quarterdeck.metrics.promql.plan.rules.resolve_anchors import resolve_anchors
from quarterdeck.metrics.promql.plan.rules.resolve_durations import resolve_durations
from quarterdeck.metrics.promql.plan.rules.split_leaves import split_leaves
from quarterdeck.metrics.promql.syntax.parser import parse
from quarterdeck.metrics.promql.syntax.types import ValueType, type_of


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query, ready to be evaluated."""

    text: str
    kind: ValueType
    """What it answers with: a scalar, a string, a vector, or a range vector."""
    grid: Grid
    instant: bool
    plan: Plan
    """What is left for the coordinator, with references to the leaves."""
    leaves: tuple[BaseExpr, ...]


def plan_query(text: str, start_ms: int, end_ms: int, step_ms: int, default_subquery_step_ms: int) -> QueryPlan:
    """The plan of a query. `step_ms` is 0 for an instant query, whose two times are the same."""
    tree = parse(text)
    check_types(tree, text)
    kind = type_of(tree)
    instant = step_ms == 0
    if not instant and kind not in {ValueType.SCALAR, ValueType.VECTOR}:
        shown = {ValueType.MATRIX: "range vector", ValueType.STRING: "string"}[kind]
        raise WrongTypeError(
            f'invalid expression type "{shown}" for range query, must be Scalar or instant Vector', text, tree.span
        )
    grid = Grid(start_ms, step_ms or 1, 1 if instant else (end_ms - start_ms) // step_ms + 1)
    tree = resolve_durations(tree, text, end_ms - start_ms, step_ms)
    plan = lower(tree, text, PlanTimes(start_ms, end_ms, step_ms, default_subquery_step_ms))
    plan = resolve_anchors(plan, start_ms, end_ms)
    check_times(plan, text)
    plan = aim_info(plan)
    plan = fold_constants(plan)
    plan = find_resets(plan)
    plan = find_step_invariant(plan)
    rest, leaves = split_leaves(plan, grid)
    return QueryPlan(text, kind, grid, instant, rest, leaves)
