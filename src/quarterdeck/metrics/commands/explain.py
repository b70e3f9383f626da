"""`quarterdeck explain`: the plan of a PromQL query, or the place at which it is wrong."""

import sys

from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.plan.explain import explain
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.plan.rules.check_times import check_range
from quarterdeck.terminal.times import parse_length_s

_DEFAULT_SUBQUERY_STEP_MS = 60_000


def run(query: str, last: str, step: str) -> int:
    """Print the plan."""
    last_ms = 0 if last == "0" else _length_ms("--last", last)
    step_ms = _length_ms("--step", step)
    if not last_ms:
        step_ms = 0
    check_range(0, last_ms, step_ms, Limits().max_points)
    sys.stdout.write(explain(plan_query(query, 0, last_ms, step_ms, _DEFAULT_SUBQUERY_STEP_MS)) + "\n")
    return 0


def _length_ms(option: str, text: str) -> int:
    return round(parse_length_s(option, text) * 1_000)
