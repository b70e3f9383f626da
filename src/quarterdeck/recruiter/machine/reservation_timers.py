"""The things a worker's reservation machine waits for, as keys of its deadlines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegisterTimer:
    """It has been idle for a moment, or has waited for a recruiter."""


@dataclass(frozen=True, slots=True)
class AbandonTimer:
    """It is reserved, and its root sends nothing."""


@dataclass(frozen=True, slots=True)
class ProgressTimer:
    """A search scans nothing, and nothing of it is taken."""

    search: int


@dataclass(frozen=True, slots=True)
class OvertakenTimer:
    """A search waits for the word of its reservation."""

    search: int


@dataclass(frozen=True, slots=True)
class DrainTimer:
    """Draining has taken as long as it may."""


Timer = RegisterTimer | AbandonTimer | ProgressTimer | OvertakenTimer | DrainTimer
