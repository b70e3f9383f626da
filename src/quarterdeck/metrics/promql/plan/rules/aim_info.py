"""Which info series `info` reads, and when.

They are looked at when the samples are that they describe: at the vector's `@` and offset. That is one time only if
all selectors below agree; if they do not, or if some part of the vector comes from no selector at all, it is the time
of the step (so since prometheus/prometheus#19387).

What a selector says about instance and job holds for its info series too: so those of other jobs are not even read.
"""

from collections.abc import Iterator
from dataclasses import replace

from quarterdeck.metrics.promql.labels import IDENTIFYING
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.rules.split_leaves import is_local
from quarterdeck.metrics.promql.syntax.ast import Matcher
from quarterdeck.metrics.promql.syntax.matchers import accepts


def aim_info(plan: pn.Plan) -> pn.Plan:
    """The plan with the selectors of all info series narrowed and timed.

    >>> m, infos = pn.Select((), pn.Timing(1000, 5000)), pn.Select((), pn.Timing())
    >>> aim_info(pn.Info(m, infos, ())).series.timing
    Timing(offset_ms=0, at=4000)
    """
    plan = pn.map_children(plan, aim_info)
    if isinstance(plan, pn.Info) and isinstance(plan.series, pn.Select):
        timings = set(_timings(plan.vector, pn.Timing()))
        timing = timings.pop() if len(timings) == 1 else None
        matchers = (*plan.series.matchers, *_identifying(plan.vector))
        return replace(plan, series=replace(plan.series, matchers=matchers, timing=timing or pn.Timing()))
    return plan


def _timings(plan: pn.Plan, above: pn.Timing) -> Iterator[pn.Timing | None]:
    """When the samples of a vector are from, for each selector below; None for what comes from no selector.

    `above` is what subqueries around it say: without an `@` of its own, a time is relative to that.
    """
    match plan:
        case pn.Select(timing=timing) | pn.SelectRange(timing=timing):
            yield _within(above, timing)
        case pn.SubqueryRange(plan=inner, timing=timing):
            yield from _timings(inner, _within(above, timing))
        case pn.Info(vector=vector):
            yield from _timings(vector, above)
        case _:
            below = [child for child in pn.children(plan) if not pn.is_scalar(child) and not isinstance(child, pn.Text)]
            for child in below:
                yield from _timings(child, above)
            if not below:
                yield None


def _within(above: pn.Timing, timing: pn.Timing) -> pn.Timing:
    """One timing inside another; a fixed time takes its offset in, so that equal times are equal."""
    if isinstance(timing.at, int):
        return pn.Timing(0, timing.at - timing.offset_ms)
    if isinstance(above.at, int):
        return pn.Timing(0, above.at - timing.offset_ms)
    return pn.Timing(above.offset_ms + timing.offset_ms)


def _identifying(vector: pn.Plan) -> Iterator[Matcher]:
    """What is known of the identifying labels of all series of a vector."""
    if not is_local(vector):
        return
    for node in pn.walk(vector):
        if isinstance(node, pn.Select | pn.SelectRange):
            # A matcher that takes series without the label says nothing: among info series it would hide duplicates.
            yield from (m for m in node.matchers if m.name in IDENTIFYING and not accepts(m, ""))
