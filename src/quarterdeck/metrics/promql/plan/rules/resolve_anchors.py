"""`@ start()` and `@ end()` become times."""

from dataclasses import replace

from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.syntax.ast import AtAnchor


def resolve_anchors(plan: pn.Plan, start_ms: int, end_ms: int) -> pn.Plan:
    """The plan with every anchor replaced by the end of the query's range that it names.

    >>> foo = pn.Select((), pn.Timing(0, AtAnchor.END))
    >>> resolve_anchors(foo, 1000, 5000).timing
    Timing(offset_ms=0, at=5000)
    """

    def resolve(node: pn.Plan) -> pn.Plan:
        node = pn.map_children(node, resolve)
        if isinstance(node, pn.Select | pn.SelectRange | pn.SubqueryRange):
            at = node.timing.at
            if isinstance(at, AtAnchor):
                return replace(node, timing=replace(node.timing, at=start_ms if at is AtAnchor.START else end_ms))
        return node

    return resolve(plan)
