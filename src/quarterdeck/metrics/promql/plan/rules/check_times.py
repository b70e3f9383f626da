"""Times that are too far away to compute with are refused."""

from typing import Final

from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded, ParseError
from quarterdeck.metrics.promql.limits import CELL_BYTES
from quarterdeck.metrics.promql.plan import nodes as pn

FARTHEST_MS: Final = 1 << 61
"""73 million years. A hundred nested ranges and offsets, of 292 years each, added to it still fit into 64 bits."""


def check_range(start_ms: int, end_ms: int, step_ms: int, max_points: int) -> None:
    """Refuse steps that make no sense, and more than `max_points` of them after the first point; a step of 0 is that of
    an instant query."""
    for what, time_ms in (("start", start_ms), ("end", end_ms), ("step", step_ms)):
        if abs(time_ms) > FARTHEST_MS:
            raise ExecutionError(
                f"the {what} of the query is out of bounds: {time_ms} ms", "give times in milliseconds since 1970"
            )
    if step_ms < 0 or (step_ms == 0 and end_ms != start_ms):
        raise ExecutionError("zero or negative query resolution step widths are not accepted", "give a positive step")
    if end_ms < start_ms:
        raise ExecutionError("end timestamp must not be before start time", "swap the two times")
    if step_ms and (end_ms - start_ms) // step_ms > max_points:
        raise LimitExceeded(
            f"exceeded maximum resolution of {max_points:,} points per timeseries",
            "make the step longer or the range shorter",
        )


def check_times(plan: pn.Plan, text: str) -> None:
    """Refuse a plan that looks at a time out of bounds."""
    for node in pn.walk(plan):
        if isinstance(node, pn.Select | pn.SelectRange | pn.SubqueryRange):
            at = node.timing.at
            if isinstance(at, int) and abs(at) > FARTHEST_MS:
                raise ParseError(f"timestamp out of bounds for @ modifier: {at / 1000:f}", text, node.span)


def check_windows(plan: pn.Plan, memory_bytes: int) -> None:
    """Refuse a subquery of which not even one series would fit, before anybody evaluates its steps: that may take for
    ever, in no memory to speak of."""
    for node in pn.walk(plan):
        if isinstance(node, pn.SubqueryRange):
            steps = node.range_ms // node.step_ms
            if steps * CELL_BYTES > memory_bytes:
                raise LimitExceeded(
                    f"a subquery has {steps:,} steps, and no more than {memory_bytes // CELL_BYTES:,} fit into the "
                    f"{memory_bytes >> 20:,} MiB that a query may take",
                    "make its range shorter or its step longer, or raise the limit",
                )
