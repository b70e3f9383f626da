"""Whose fault it was that a worker died: what may have been running there, and when a work is not tried again.

A poisonous work ends whatever runs it. Those beside it must not pay for that, least of all those that only waited. So
the loss of a worker makes suspects only of what may have been running. A suspect is given to a worker that has no other
suspect; when that worker dies too, the suspect is blamed, and those beside it pay nothing. They are suspects, though:
else a poisonous work could hide for long behind one that was only unlucky before.

Workers also die for other reasons, and a lost worker costs a work one try, not its query. So the verdict needs three
deaths, and it is not given while workers die that had nothing to do with the work: then its attempts count, as ever.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import Incarnation, WorkerId
from quarterdeck.core.workcoord.coordinator.records import Attempt, Death, Loss, Session, Work
from quarterdeck.core.workcoord.coordinator.tables import WorkState
from quarterdeck.core.workcoord.load import Load
from quarterdeck.core.workcoord.model import WorkerInfo, WorkError, WorkKey

ACCUSED_AFTER = 2
"""Deaths. From then on it is tried alone of its query, if that has no result yet: its other works may be no better."""
_QUARANTINED_AFTER = 3
"""Deaths. Whoever stops two workers in the middle of a query hits a work twice: it moves to where it is hit again."""
_QUARANTINED_AFTER_ENGINES = 2
"""Engines that died. An engine runs one work and nobody else stops it."""
_LOSSES_FOR_FREE = 4
"""Lost workers on which a work only waited, as far as we know. What kills before it can be told that it runs would
otherwise go on for ever."""
_RECENT_S = 60.0
"""How long the loss of a worker says that workers die for other reasons than a work that was not there."""
_RECENT = 64
"""Of so many lost workers it is remembered."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """Of one lost worker."""

    running: frozenset[Attempt]
    """What may have been running, as far as we know: it has begun, or had a place when it was assigned."""
    earlier: Mapping[Attempt, tuple[Death, ...]]
    """The earlier deaths, as far as they still count, of each that is a suspect now."""
    blamed: frozenset[Attempt]
    """Those among them that pay for it: who was suspect before, or all if nobody was."""

    @classmethod
    def of(cls, session: Session, loss: Loss, is_here: Callable[[WorkerId, Incarnation], bool]) -> "Suspects":
        running = _may_have_run(session)
        # What we gave up and has not stopped yet may have done it, and then the others did not.
        if loss is Loss.ORDERLY or session.closing:
            return cls(running, {}, frozenset())
        earlier = {attempt: _that_count(attempt.work, session.worker, is_here) for attempt in running}
        again = frozenset(a for a, deaths in earlier.items() if deaths or a.work.query.is_suspect)
        return cls(running, earlier, again or running)

    @property
    def are_of_one_query(self) -> bool:
        """Whether nobody else may have done it. Which work of a query it was is all the same: it ends with any."""
        return len({attempt.work.query for attempt in self.blamed}) == 1

    def has_to_pay(self, attempt: Attempt) -> bool:
        """Whether the loss counts as a failure of the work. It does not for what ran beside somebody to blame."""
        if attempt in self.blamed or attempt.work.losses > _LOSSES_FOR_FREE:
            return True
        return attempt.work.state is WorkState.READY or (attempt in self.running and not self.blamed)


def _that_count(work: Work, lost: WorkerInfo, is_here: Callable[[WorkerId, Incarnation], bool]) -> tuple[Death, ...]:
    """Without those where a connection was cut and not a life: that process is back, or was, and is lost again."""

    def was_back(death: Death) -> bool:
        is_lost_again = (death.worker_id, death.incarnation) == (lost.worker_id, lost.incarnation)
        return is_lost_again or is_here(death.worker_id, death.incarnation)

    return tuple(death for death in work.deaths if death.is_certain or not was_back(death))


def _may_have_run(session: Session) -> frozenset[Attempt]:
    """A worker says that a work has begun, but the word may still be on its way; so what was assigned counts as far as
    there were places. It begins works in the order in which they come, while there are."""
    places = Load()
    running: list[Attempt] = []
    for attempt in session.attempts.values():
        if attempt.work.state is WorkState.ACCEPTED:
            places.add(attempt.work.spec.kind)
            running.append(attempt)
    for attempt in session.attempts.values():
        kind = attempt.work.spec.kind
        if attempt.work.state is WorkState.ASSIGNED and places.has_room(kind, session.worker.slots):
            places.add(kind)
            running.append(attempt)
    return frozenset(running)


class Losses:
    """The workers that were lost of late, and what may have been running on each."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, frozenset[WorkKey]]] = deque(maxlen=_RECENT)

    def add(self, running: frozenset[Attempt], now: float) -> None:
        self._recent.append((now, frozenset(attempt.work.key for attempt in running)))

    def were_without(self, work: Work, now: float) -> bool:
        """Whether workers die of late that did not run this work. While its query has no result, the query's other
        works may kill just as it does, and a worker that ran one of them does not count."""
        recent = (running for at, running in self._recent if now - at <= _RECENT_S)
        return any(not any(_may_be_as_bad(key, work) for key in running) for running in recent)


def _may_be_as_bad(key: WorkKey, work: Work) -> bool:
    return key == work.key if work.query.has_result else key.query_id == work.query.query_id


def quarantined(work: Work, error: WorkError) -> WorkError | None:
    """Why a work is not tried again, if it has nobody else to blame; None while it is. At least one of the workers has
    said that it runs it: several that were out of reach when they were given it may never have seen it."""
    deaths = work.deaths
    of_engines = sum(death.of_engine for death in deaths)
    enough = len(deaths) >= _QUARANTINED_AFTER or of_engines >= _QUARANTINED_AFTER_ENGINES
    if not enough or not any(death.had_begun for death in deaths):
        return None
    names = ", ".join(death.worker_id for death in deaths)
    message = (
        f"{len(deaths)} workers died, or their engines did, while they ran work {work.key.work_id} ({names}), "
        f"so it is not given to another; the last time: {error.message}"
    )
    return WorkError(ErrorCode.QUARANTINED, message, retryable=False)
