"""What the pool's machine wants done. Imperative: the driver executes them in the order in which they come.

The worker of a registration has left the pool before any of these is executed.
"""

from dataclasses import dataclass

from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.recruiter.model import Recruited


@dataclass(frozen=True, slots=True)
class Reserve:
    """Tell the worker that it is somebody's now."""

    registration: int
    reservation: str
    label: str
    waited_s: float
    """How long its registration was open."""
    tenant: str = DEFAULT_TENANT
    """Whose it is now."""


@dataclass(frozen=True, slots=True)
class SendBack:
    """Tell the worker to register again."""

    registration: int


@dataclass(frozen=True, slots=True)
class Supersede:
    """Tell whoever holds this registration that its address has registered again since, and that counts."""

    registration: int


@dataclass(frozen=True, slots=True)
class AnswerRecruit:
    request: int
    workers: tuple[Recruited, ...]


Effect = Reserve | SendBack | Supersede | AnswerRecruit
