"""The nouns of recruiting, as every room knows them."""

from dataclasses import dataclass
from enum import StrEnum


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


class Directive(StrEnum):
    """What a worker is told at the end of its registration."""

    RESERVED = "reserved"
    REREGISTER = "reregister"


@dataclass(frozen=True, slots=True)
class Recruited:
    """A worker that was given to a root."""

    addr: str
    node: str
    slots: int
    reservation: str
    """The name of this reservation. Empty from a recruiter that has none: then the worker checks nothing."""
