"""How heavy a query is, as far as can be told before it runs: from the catalog, which has counts, and not from samples.

A light one is done in some milliseconds. It does not wait behind heavy ones: it has places of its own when theirs are
taken, and is evaluated at once. Of heavy ones only as many are evaluated at a time as there are processors: more would
take longer, take memory, and take the interpreter away from everybody else.
"""

from collections.abc import Iterable
from typing import Final

from quarterdeck.metrics.planning import Division
from quarterdeck.metrics.promql.plan import nodes as pn
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan

LIGHT_CELLS: Final = 1_000_000
"""Samples that are read, and values that are computed."""


def is_light(plan: QueryPlan, divisions: Iterable[Division], steps: int) -> bool:
    """Whether it takes no time to speak of, if all goes well. A subquery has steps of its own, and is never light."""
    parts = (plan.plan, *(leaf.plan for leaf in plan.leaves))
    if any(isinstance(node, pn.SubqueryRange) for part in parts for node in pn.walk(part)):
        return False
    return sum(division.rows + division.series * steps for division in divisions) <= LIGHT_CELLS
