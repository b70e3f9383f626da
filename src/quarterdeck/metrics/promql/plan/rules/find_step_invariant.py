"""What is the same at every step is evaluated once.

A selector with `@` looks at one time whatever the step; so does everything above it until something depends on the
step: another selector, `time()`, `timestamp()` of a computed vector, or `predict_linear`, which predicts from the step.
"""

from quarterdeck.metrics.promql.plan import nodes as pn


def find_step_invariant(plan: pn.Plan) -> pn.Plan:
    """The plan with the largest parts that do not depend on the step wrapped.

    >>> from quarterdeck.metrics.promql.syntax.ast import BinaryOp
    >>> fixed = pn.Select((), pn.Timing(0, 1000))
    >>> found = find_step_invariant(pn.VectorScalar(BinaryOp.MUL, fixed, pn.Time(), False, False))
    >>> found.vector == pn.StepInvariant(fixed)
    True
    """
    marked, invariant = _mark(plan)
    return _wrap(marked) if invariant else marked


def _mark(plan: pn.Plan) -> tuple[pn.Plan, bool]:
    """The plan with wrapped parts inside, and whether it is the same at every step itself."""
    match plan:
        case pn.Select(timing=timing) | pn.SelectRange(timing=timing):
            return plan, timing.at is not None
        case pn.SubqueryRange(timing=timing):
            return pn.map_children(plan, find_step_invariant), timing.at is not None
        case pn.Time():
            return plan, False
        case _:
            pass
    outcomes = {id(child): _mark(child) for child in pn.children(plan)}
    depends = (isinstance(plan, pn.Map) and plan.function == "timestamp") or (
        isinstance(plan, pn.RangeCall) and plan.function == "predict_linear"
    )
    if not depends and all(invariant for _, invariant in outcomes.values()):
        return pn.map_children(plan, lambda child: outcomes[id(child)][0]), True

    def finish(child: pn.Plan) -> pn.Plan:
        marked, invariant = outcomes[id(child)]
        return _wrap(marked) if invariant else marked

    return pn.map_children(plan, finish), False


def _wrap(plan: pn.Plan) -> pn.Plan:
    """A constant needs no wrapping, and a range is evaluated by the function above it."""
    if isinstance(plan, pn.Text | pn.SelectRange | pn.SubqueryRange):
        return plan
    if any(isinstance(node, pn.Select | pn.SelectRange | pn.SubqueryRange) for node in pn.walk(plan)):
        return pn.StepInvariant(plan)
    return plan
