"""`quarterdeck explain`: the plan of a PromQL query, or the place at which it is wrong."""

import sys

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.promql.plan.explain import explain
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.plan.rules.check_times import check_range
from quarterdeck.metrics.promql.syntax.durations import parse_duration_ms

_DEFAULT_SUBQUERY_STEP_MS = 60_000


def run(query: str, last: str, step: str) -> int:
    """Print the plan."""
    last_ms = 0 if last == "0" else _duration_ms("--last", last)
    step_ms = _duration_ms("--step", step)
    if not last_ms:
        step_ms = 0
    check_range(0, last_ms, step_ms, Limits().max_points)
    sys.stdout.write(explain(plan_query(query, 0, last_ms, step_ms, _DEFAULT_SUBQUERY_STEP_MS)) + "\n")
    return 0


def _duration_ms(option: str, text: str) -> int:
    try:
        length_ms = parse_duration_ms(text)
    except ValueError as error:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, f"{option} was not understood", str(error), "write it as in 30s, 5m or 1h30m"
        ) from None
    if length_ms == 0:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT, f"{option} was not understood", "it must be more than 0", "write it as in 30s"
        )
    return length_ms
