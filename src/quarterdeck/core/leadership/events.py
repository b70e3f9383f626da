"""What a candidate is told. Past tense: it has happened, the machine decides what follows."""

from dataclasses import dataclass

from quarterdeck.core.ids import Fence
from quarterdeck.core.leadership.model import LeaderRow


@dataclass(frozen=True, slots=True)
class RowAnswered:
    """The transaction that was asked for has ended."""

    number: int
    """Of the request."""
    row: LeaderRow
    """As the transaction left it."""
    changed: bool
    """Whether this transaction changed the row. A row that names us may be an older request's."""


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The store gave an error. What the request should have changed, it may have changed."""

    number: int


@dataclass(frozen=True, slots=True)
class HigherFenceSeen:
    """Somebody, such as a database or a worker, refuses what is below this fence."""

    fence: Fence


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """The process is on its way out."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_deadline` has come. The first of all events too."""


Event = RowAnswered | RequestFailed | HigherFenceSeen | ReleaseAsked | TimePassed
