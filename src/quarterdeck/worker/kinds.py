"""Which kinds of work a worker takes: those of its capabilities, or those of them that it was told."""

from collections.abc import Iterable, Sequence

from quarterdeck.capability import Capability
from quarterdeck.config import WorkerSettings
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.kinds import WorkKind


def kinds_taken(settings: WorkerSettings, capabilities: Iterable[Capability]) -> Sequence[WorkKind]:
    """What the settings ask for; without a word, all. A kind that nothing here executes would wait until its queries
    give up."""
    given = tuple(capabilities)
    executed = [kind for one in given for kind in one.kinds]
    if settings.kinds is None:
        return executed
    unknown = sorted(set(settings.kinds) - set(executed))
    if unknown:
        old = {name: kind for one in given for name, kind in one.old_kinds.items()}
        renamed = [f"{kind} is called {old[kind]} now" for kind in unknown if kind in old]
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            f"this worker cannot take {', '.join(unknown)} work",
            "; ".join(renamed) or f"this release executes {' and '.join(executed)} work only",
            f"set kinds to some of {', '.join(executed)}",
        )
    return settings.kinds
