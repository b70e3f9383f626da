"""The nouns of recruiting, as every room knows them."""

from dataclasses import dataclass
from enum import StrEnum

from quarterdeck.core.tenants import DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker says of itself when it registers."""

    addr: str
    """`host:port`, under which roots reach it. The name of the worker in the pool."""
    node: str
    """The machine it is on."""
    labels: frozenset[str] = frozenset()
    """What it is for; without any, for everybody."""
    slots: int = 1
    """Chunks it searches at the same time."""
    tenant: str = DEFAULT_TENANT
    """Whose worker it is."""


class Directive(StrEnum):
    """What a worker is told at the end of its registration."""

    RESERVED = "reserved"
    REREGISTER = "reregister"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a worker is: what a root names of itself, and what the worker was told."""

    reservation: str
    """Empty where one side names none."""
    tenant: str


@dataclass(frozen=True, slots=True)
class Recruited:
    """A worker that was given to a root."""

    addr: str
    node: str
    slots: int
    reservation: str
    """The name of this reservation. Empty from a recruiter that has none: then the worker does not check it."""
    tenant: str = DEFAULT_TENANT
    """For whom it is reserved. The worker checks that."""
