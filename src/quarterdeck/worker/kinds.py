"""Which kinds of work a worker may be told to take: those of its capabilities."""

from collections.abc import Iterable

from quarterdeck.capability import Capability
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import WorkKind


def insist_known(kinds: Iterable[WorkKind], capabilities: Iterable[Capability]) -> None:
    """A kind that nothing here executes would wait until its queries give up."""
    executed = sorted({kind for one in capabilities for kind in one.kinds})
    unknown = sorted(set(kinds) - set(executed))
    if unknown:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"this worker cannot take {', '.join(unknown)} work",
            f"this release executes {' and '.join(executed)} work only",
            f"set kinds to some of {', '.join(executed)}",
        )
