"""Whose fault it was that a worker died: what may have been running there, and when a work is not tried again.

A poisonous work ends whatever runs it. Those beside it must not pay for that, least of all those that only waited. So
the loss of a worker makes suspects only of what may have been running. A suspect is given to a worker that has no other
suspect; when that worker dies too, the suspect was it, and those beside it are not asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import Incarnation, WorkerId
from quarterdeck.core.workcoord.coordinator.records import Attempt, Death, Loss, Session, Work
from quarterdeck.core.workcoord.coordinator.tables import WorkState
from quarterdeck.core.workcoord.load import Load
from quarterdeck.core.workcoord.model import WorkError

_QUARANTINED_AFTER = 2
"""Deaths. One may be anybody's bad luck; a third worker would be spent on being sure of what is likely enough."""
_LOSSES_FOR_FREE = 4
"""Lost workers on which a work only waited, as far as we know. What kills before it can be told that it runs would
otherwise go on for ever."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """Of one lost worker."""

    running: frozenset[Attempt]
    """What may have been running, as far as we know: it has begun, or had a place when it was assigned."""
    blamed: Mapping[Attempt, tuple[Death, ...]]
    """Whose fault it was or may have been, with the earlier deaths that still count."""

    @classmethod
    def of(cls, session: Session, loss: Loss, is_here: Callable[[WorkerId, Incarnation], bool]) -> "Suspects":
        running = _may_have_run(session)
        # What we gave up and has not stopped yet may have done it, and then the others did not.
        if loss is Loss.ORDERLY or session.closing:
            return cls(running, {})
        earlier = {attempt: _that_count(attempt.work, is_here) for attempt in running}
        again = {attempt: deaths for attempt, deaths in earlier.items() if deaths}
        return cls(running, again or earlier)

    def has_to_pay(self, attempt: Attempt) -> bool:
        """Whether the loss counts as a failure of the work. It does not for what ran beside somebody to blame."""
        if attempt in self.blamed or attempt.work.losses > _LOSSES_FOR_FREE:
            return True
        return attempt.work.state is WorkState.READY or (attempt in self.running and not self.blamed)


def _that_count(work: Work, is_here: Callable[[WorkerId, Incarnation], bool]) -> tuple[Death, ...]:
    """Without those where a connection was cut and not a life: that process is back."""
    return tuple(d for d in work.deaths if d.is_certain or not is_here(d.worker_id, d.incarnation))


def _may_have_run(session: Session) -> frozenset[Attempt]:
    """A worker says that a work has begun, but the word may still be on its way; so what was assigned counts as far as
    there were places. It begins works in the order in which they come, while there are."""
    places = Load()
    running: list[Attempt] = []
    for attempt in session.attempts.values():
        if attempt.work.state is WorkState.ACCEPTED and not attempt.work.spec.policy.resident:
            places.add(attempt.work.spec.kind)
            running.append(attempt)
    for attempt in session.attempts.values():
        kind = attempt.work.spec.kind
        if attempt.work.state is WorkState.ASSIGNED and places.has_room(kind, session.worker.slots):
            places.add(kind)
            running.append(attempt)
    return frozenset(attempt for attempt in running if not attempt.work.durable)


def quarantined(work: Work, error: WorkError) -> WorkError | None:
    """Why a work is not tried again; None while it is. At least one of the workers has said that it runs it: several
    that were out of reach when they were given it may never have seen it."""
    if len(work.deaths) < _QUARANTINED_AFTER or not any(death.had_begun for death in work.deaths):
        return None
    names = ", ".join(death.worker_id for death in work.deaths)
    message = (
        f"{len(work.deaths)} workers died, or their engines did, while they ran work {work.key.work_id} ({names}), "
        f"so it is not given to another; the last time: {error.message}"
    )
    return WorkError(ErrorCode.QUARANTINED, message, retryable=False)
