"""How long to wait before trying again: exponential growth, a cap, and jitter.

Rules: the cap is applied before the jitter. Otherwise all who have reached the cap would wait exactly as long and come
back together, which jitter is meant to prevent. So the longest wait is `cap_s * (1 + jitter)`.

It must not know a clock or a random generator: the caller draws the number and does the waiting.
"""

from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True, slots=True)
class Backoff:
    """A policy of waiting. The defaults suit a connection to a peer that may have restarted."""

    base_s: float = 0.5
    """The wait after the first failure, before jitter. Too small floods a peer that is coming up."""

    cap_s: float = 30.0
    """The longest wait, before jitter. Too large leaves a recovered peer unused for as long."""

    factor: float = 2.0
    """By how much each wait is longer than the one before. 1 means always `base_s`."""

    jitter: float = 0.25
    """The share of the wait by which it may turn out shorter or longer. 0 means none."""

    def __post_init__(self) -> None:
        if not (isfinite(self.base_s) and self.base_s > 0):
            raise ValueError(f"base_s is {self.base_s}: it must be a finite number above 0")
        if not (isfinite(self.cap_s) and self.cap_s >= self.base_s):
            raise ValueError(f"cap_s is {self.cap_s}: it must be a finite number, not below base_s ({self.base_s})")
        if not (isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"factor is {self.factor}: it must be a finite number, 1 or more")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter is {self.jitter}: it must be 0 or more and below 1")

    def delay_s(self, attempt: int, unit: float) -> float:
        """Return the wait after the `attempt`-th failure in a row, counted from 1.

        `unit` is a number from [0, 1) out of the caller's random generator; 0.5 gives the wait without jitter.
        """
        if attempt < 1:
            raise ValueError(f"attempt is {attempt}: failures are counted from 1")
        if not 0 <= unit < 1:
            raise ValueError(f"unit is {unit}: it must be 0 or more and below 1")
        return self._capped_s(attempt) * (1 + self.jitter * (2 * unit - 1))

    def _capped_s(self, attempt: int) -> float:
        if self.factor == 1:
            return self.base_s
        try:
            return min(self.cap_s, self.base_s * self.factor ** (attempt - 1))
        except OverflowError:
            # A number too large for a float is above any cap.
            return self.cap_s
