"""Below `histogram_count`, `histogram_sum` and `histogram_avg`, histograms are asked if their counter started over.

Prometheus reads histograms for these functions in a cheaper way, without buckets, which has to find counter resets on
its own; so there a sum over histograms that were reset and others that were not comes with a warning, and elsewhere it
does not. Where something between needs the buckets, or around it all a subquery, nothing is read in that way.
"""

from dataclasses import replace
from typing import Final

from quarterdeck.metrics.promql.plan import nodes as pn

_ASKING: Final = frozenset({"histogram_count", "histogram_sum", "histogram_avg"})
_NEEDING_BUCKETS: Final = frozenset({"histogram_stddev", "histogram_stdvar"})


def find_resets(plan: pn.Plan, asked: bool = False) -> pn.Plan:
    """The plan with `finds_resets` set on the selectors that are meant; the samples of a subquery are not stored ones.

    >>> found = find_resets(pn.Map("histogram_count", pn.Select((), pn.Timing())))
    >>> found.vector.finds_resets
    True
    """
    match plan:
        case pn.Select() | pn.SelectRange():
            return replace(plan, finds_resets=True) if asked else plan
        case pn.Map(function=function) if function in _ASKING:
            asked = True
        case _ if _needs_buckets(plan):
            return plan
        case _:
            pass
    return pn.map_children(plan, lambda child: find_resets(child, asked))


def _needs_buckets(plan: pn.Plan) -> bool:
    match plan:
        case pn.Buckets() | pn.SubqueryRange():
            return True
        case pn.Map(function=function):
            return function in _NEEDING_BUCKETS
        case pn.VectorScalar(op=op) | pn.VectorVector(op=op):
            return op.is_trim
        case _:
            return False
