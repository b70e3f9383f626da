"""The tries of one worker to register: with which recruiter, and not before when.

The first choice is the worker's own, so that workers divide themselves evenly. Whatever fails moves on to the next one
after a wait; whatever succeeds goes back to the first choice, so that the division comes back by itself.

Waits are 0.2 s, 0.3 s, 0.45 s and so on, give or take a tenth. So a recruiter that is away for half a second has cost
each of its workers two tries at most, and all are back within a second of when it went.
"""

from typing import Final

from quarterdeck.core.backoff import Backoff
from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement.rendezvous import Rendezvous

_HELD_S: Final = 1.0
"""A registration that was open for so long was a good one: what failed before it is forgotten."""
_HASTY_S: Final = 0.05
"""Of recruiters that ask to register again in less, the second in a row counts as one that fails: nobody spins."""


class RegistrationTries:
    def __init__(self, addr: str, recruiters: tuple[str, ...], backoff: Backoff) -> None:
        rendezvous = Rendezvous()
        for recruiter in dict.fromkeys(recruiters):
            rendezvous.add(WorkerId(recruiter), 0)
        self.recruiters: Final[tuple[str, ...]] = tuple(rendezvous.ranked(addr))
        """The best first."""
        self.not_before = 0.0
        self.failed = 0
        """In all."""
        self._backoff = backoff
        self._choice = 0
        self._failures = 0
        """In a row."""
        self._waited_s = 0.0
        """Before the try that is under way."""
        self._began_at = 0.0
        self._hasty = 0

    def begin(self, now: float) -> str:
        """A try; the recruiter to register with."""
        self._began_at = now
        return self.recruiters[self._choice]

    def succeed(self) -> None:
        self._hasty = 0
        self._start_over()

    def fail(self, now: float, unit: float) -> None:
        if now - self._began_at >= min(_HELD_S, self._waited_s):
            self._failures = 0
        self._failures += 1
        self.failed += 1
        self._choice = (self._choice + 1) % len(self.recruiters)
        self._waited_s = self._backoff.delay_s(self._failures, unit)
        self.not_before = now + self._waited_s

    def ask_again(self, now: float, unit: float) -> None:
        """The recruiter asked us to register again."""
        self._hasty = self._hasty + 1 if now - self._began_at < _HASTY_S else 0
        if self._hasty > 1:
            self.fail(now, unit)
        else:
            self._start_over()

    def _start_over(self) -> None:
        self._choice = self._failures = 0
        self._waited_s = self.not_before = 0.0
