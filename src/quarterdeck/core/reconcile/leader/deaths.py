"""Which things take their workers down: what is remembered of the deaths of workers, and when a thing is given up.

A poisonous thing ends the process of whatever worker begins to hold it, and would be told to the next process for ever.
But workers also die for other reasons, and no thing pays for those:

- a death counts against a thing only if it was the only one on its way there, or else the only one that had not been
  held for long. If several were, each is on probation: it is told by turns, fewer at once after each such death, until
  a death has one candidate;
- several that were held already are on probation only from the second such death on: their turns take long;
- before the try that could be its last, a thing is kept away for a while from the worker that is to hold it. If the
  worker dies without it, and nothing else explains that, its deaths are forgotten;
- a death that was none (that process is back) is taken back, and one of a worker that drains is nobody's fault.

A thing is here from the first death that it may have caused until it has been held for long, or nobody wants it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import Incarnation, WorkerId
from quarterdeck.core.reconcile.leader.workers import Candidates
from quarterdeck.core.reconcile.model import HeldError, ThingId

_ALONE: Final = 1


class Life(NamedTuple):
    """Of one process of a worker."""

    worker_id: WorkerId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Probation:
    """How a thing is told that may have taken a worker down."""

    at_once: int
    """So many of them may be on trial on one worker."""
    until_steady: bool
    """Workers died when they held it already: then its trial is not over when they do."""


@dataclass(slots=True, eq=False)
class _Case:
    deaths: list[Life] = field(default_factory=list[Life])
    """That nothing else can have caused."""
    probation: Probation | None = None
    kept_from: Life | None = None
    """Whom it was kept away from last, before its last try."""
    kept_since: float = 0.0


class Deaths:
    """Of things by name. Nothing here is linear in more than the candidates of one death."""

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self._cases: dict[ThingId, _Case] = {}
        self._counted: dict[Life, ThingId] = {}
        """Which thing each death is counted against."""

    def __iter__(self) -> Iterator[ThingId]:
        return iter(self._cases)

    def __contains__(self, thing_id: object) -> bool:
        return thing_id in self._cases

    def probation(self, thing_id: ThingId) -> Probation | None:
        case = self._cases.get(thing_id)
        return None if case is None else case.probation

    def at_once(self, thing_id: ThingId) -> int:
        """How many like it may be on trial on one worker."""
        probation = self.probation(thing_id)
        return _ALONE if probation is None else probation.at_once

    def died(self, life: Life, candidates: Candidates, wanted: Collection[ThingId]) -> None:
        """A process ended, and these may have done it. Those that nobody wants any more are not told again."""
        number = len(candidates.things)
        for thing_id in wanted:
            is_first = thing_id not in self._cases
            case = self._cases.setdefault(thing_id, _Case())
            if number == 1:
                case.deaths.append(life)
                self._counted[life] = thing_id
                case.probation = Probation(_ALONE, candidates.were_held)
            elif not (candidates.were_held and is_first):
                case.probation = Probation(max(_ALONE, number // 2), candidates.were_held)

    def take_back(self, life: Life) -> ThingId | None:
        """That process is alive. The answer is the thing that its death was counted against."""
        thing_id = self._counted.pop(life, None)
        if thing_id is not None:
            self._cases[thing_id].deaths.remove(life)
        return thing_id

    def passed(self, thing_id: ThingId) -> None:
        """A trial has ended well. What deaths are counted against stays on probation."""
        case = self._cases[thing_id]
        if not case.deaths:
            case.probation = None

    def forget(self, thing_id: ThingId) -> None:
        case = self._cases.pop(thing_id, None)
        if case is not None:
            for life in case.deaths:
                del self._counted[life]

    def clear(self) -> None:
        self._cases.clear()
        self._counted.clear()

    def has_deaths(self, thing_id: ThingId) -> bool:
        case = self._cases.get(thing_id)
        return case is not None and bool(case.deaths)

    def kept_away_since(self, thing_id: ThingId, life: Life, now: float) -> float | None:
        """Since when it is kept away from a worker, before a try that could be the last; None before another one."""
        case = self._cases[thing_id]
        if not case.deaths or len(case.deaths) + 1 < self._allowed:
            return None
        if case.kept_from != life:
            case.kept_from, case.kept_since = life, now
        return case.kept_since

    def verdict(self, thing_id: ThingId) -> HeldError | None:
        """Why no worker is told to hold it any more; None while one is."""
        case = self._cases.get(thing_id)
        if case is None or len(case.deaths) < self._allowed:
            return None
        names = ", ".join(life.worker_id for life in case.deaths)
        message = (
            f"a worker died {len(case.deaths)} times when it was told to hold {thing_id} or had just begun ({names}), "
            "and nothing else explains it, so no worker is told any more. Look into the logs of these workers, mend "
            "the cause, then withdraw it and declare it again"
        )
        return HeldError(ErrorCode.QUARANTINED, message, retryable=False)
