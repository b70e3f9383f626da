"""What the pool's machine is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.recruiter.model import Offer


@dataclass(frozen=True, slots=True)
class RegistrationOpened:
    """A worker asks to be given to somebody."""

    registration: int
    """Its number: no other has it, before or after."""
    offer: Offer
    timeout_s: float
    """After so long, or up to a tenth less, it is told to register again."""


@dataclass(frozen=True, slots=True)
class RegistrationClosed:
    """The worker hung up, or died. Of one that was answered already it means nothing."""

    registration: int


@dataclass(frozen=True, slots=True)
class RecruitRequested:
    """A root wants workers, now."""

    request: int
    number: int
    label: str
    """What they are for; empty for anything."""
    reservation: str
    """The names of the reservations begin with it."""
    tenant: str = DEFAULT_TENANT
    """Who asks."""


@dataclass(frozen=True, slots=True)
class RecruiterClosed:
    """The recruiter is about to end: its workers should go to another."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that `next_deadline` named has come."""


Event = RegistrationOpened | RegistrationClosed | RecruitRequested | RecruiterClosed | TimePassed
