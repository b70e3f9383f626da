"""What a worker's reservation machine is told. Past tense: it has happened, the machine decides what follows.

Whatever asks for another try carries `unit`, a number from [0, 1) by chance: the machine has none of its own.
"""

from dataclasses import dataclass

from quarterdeck.core.tenants import DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class IdleChanged:
    """Whether the worker has nothing to do for coordinators."""

    idle: bool


# From the registration that is open


@dataclass(frozen=True, slots=True)
class WorkerReserved:
    poll: int
    reservation: str
    """Empty from a recruiter that names none."""
    label: str = ""
    tenant: str = DEFAULT_TENANT
    """For whom."""


@dataclass(frozen=True, slots=True)
class ReregisterAsked:
    poll: int
    unit: float


@dataclass(frozen=True, slots=True)
class RegistrationFailed:
    """The recruiter was not reached, hung up, or refused."""

    poll: int
    unit: float


@dataclass(frozen=True, slots=True)
class RegistrationWithdrawn:
    """It ended because it was taken back, and nobody had been faster."""

    poll: int


# From roots


@dataclass(frozen=True, slots=True)
class SearchAsked:
    """A chunk was sent. It waits to be admitted or refused."""

    search: int
    reservation: str
    """Empty where the root names none."""
    tenant: str = DEFAULT_TENANT
    """Who sent it."""


@dataclass(frozen=True, slots=True)
class SearchProgressed:
    """Something was scanned, or taken by the root."""

    search: int


@dataclass(frozen=True, slots=True)
class SearchEnded:
    """Nothing of it runs any more; or it was given up before it was admitted."""

    search: int
    broken: bool = False
    """Whether its connection broke, or was cut."""


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    reservation: str
    """Empty where the root names none: whichever this tenant has."""
    tenant: str = DEFAULT_TENANT
    """Who asks."""


# From the process


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The process was told to stop, gently."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `next_deadline` named has come."""


Event = (
    IdleChanged
    | WorkerReserved
    | ReregisterAsked
    | RegistrationFailed
    | RegistrationWithdrawn
    | SearchAsked
    | SearchProgressed
    | SearchEnded
    | ReleaseAsked
    | DrainRequested
    | TimePassed
)
