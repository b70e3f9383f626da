"""What the drivers of recruiting need from the world: somebody to register with, somebody to recruit from; over HTTP in
a process, simulated in a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterdeck.recruiter.model import Directive, Offer, Recruited


@dataclass(frozen=True, slots=True)
class Registered:
    """The end of a registration."""

    directive: Directive
    reservation: str = ""
    """With RESERVED: its name."""
    label: str = ""
    """With RESERVED: what the root said it is for."""
    tenant: str | None = None
    """With RESERVED: for whom. None from a recruiter that knows no tenants: for the worker's own."""


class RegistrationFailedError(Exception):
    """The recruiter could not be reached, hung up, or refused; the message says which."""


class Registry(Protocol):
    """Recruiters, as a worker sees them."""

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        """Holds a registration with the recruiter of this URL until it ends. Canceled, it is taken back."""
        ...


class Recruiting(Protocol):
    """Recruiters, as a root sees them."""

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        """At most so many workers for this tenant, from as many recruiters as it takes; none, when none is reached."""
        ...
