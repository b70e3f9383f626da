"""What is wrong with a query, found by a worker, on its way to whoever asked: in the report of the work's artifact."""

from collections.abc import Mapping
from typing import Final

from quarterdeck.metrics.promql.errors import ExecutionError, LimitExceeded

_KIND: Final = "refused"
_KINDS: Final[Mapping[str, type[ExecutionError] | type[LimitExceeded]]] = {
    "execution": ExecutionError,
    "limit": LimitExceeded,
}


def report_of(error: ExecutionError | LimitExceeded) -> dict[str, int | float | str]:
    """What an artifact without blocks says."""
    kind = "limit" if isinstance(error, LimitExceeded) else "execution"
    return {_KIND: kind, "reason": error.reason, "next_step": error.next_step}


def raise_refusal(report: Mapping[str, object]) -> None:
    """Raises the worker's error, if that is what it answers."""
    kind = report.get(_KIND)
    if kind is not None:
        raise _KINDS.get(str(kind), ExecutionError)(str(report.get("reason")), str(report.get("next_step")))
