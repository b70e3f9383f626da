"""The disasters, as data: what happens, to whom, when, for how long. They can be printed, left out, and replayed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Reply(StrEnum):
    """Messages of a worker that a fault can lose after their effect."""

    ACCEPTED = "accepted"
    READY = "ready"
    ENDED = "ended"
    FAILED = "failed"
    CANCELED = "canceled"
    CREDIT = "credit"


@dataclass(frozen=True, slots=True)
class Crash:
    """kill -9, and a new start after a while."""

    at_s: float
    host: str
    down_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP and SIGCONT."""

    at_s: float
    host: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Partition:
    """Traffic between two hosts stalls, in both directions or from one to the other only."""

    at_s: float
    source: str
    target: str
    for_s: float
    one_way: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """The connections between two hosts break; half-open if only the first one learns of it."""

    at_s: float
    host: str
    other: str
    half_open: bool


@dataclass(frozen=True, slots=True)
class LostReply:
    """The next reply of this kind is lost together with its connection, after its effect."""

    at_s: float
    host: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class SlowPeer:
    """Everything from and to a host takes longer."""

    at_s: float
    host: str
    for_s: float
    extra_s: float


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A host's clock leaps, ahead or back."""

    at_s: float
    host: str
    by_s: float


@dataclass(frozen=True, slots=True)
class Drain:
    """A worker is told to stop, by a signal or by a coordinator; it comes back after a while."""

    at_s: float
    host: str
    by: str | None
    down_s: float


@dataclass(frozen=True, slots=True)
class Shutdown:
    """A coordinator is told to stop: it says goodbye, ends, and starts again after a while."""

    at_s: float
    host: str
    down_s: float


@dataclass(frozen=True, slots=True)
class NotAccepting:
    """A worker takes no new work for a while."""

    at_s: float
    host: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Pressure:
    """A worker asks to be spared for a while."""

    at_s: float
    host: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Eviction:
    """A worker's disk is full: all results it keeps are evicted."""

    at_s: float
    host: str


@dataclass(frozen=True, slots=True)
class Corruption:
    """The next artifact fetched from a worker is not what was announced."""

    at_s: float
    host: str


@dataclass(frozen=True, slots=True)
class Poison:
    """A coordinator is asked for works that end every worker which runs one; each starts again after a while."""

    at_s: float
    host: str
    down_s: float
    works: int = 1
    """One has an innocent work of the same query beside it; several are all that is asked for."""


Fault: TypeAlias = (
    Crash
    | Pause
    | Partition
    | Cut
    | LostReply
    | SlowPeer
    | ClockJump
    | Drain
    | Shutdown
    | NotAccepting
    | Pressure
    | Eviction
    | Corruption
    | Poison
)

FAULTS: dict[str, type[Fault]] = {
    "crash": Crash,
    "pause": Pause,
    "partition": Partition,
    "cut": Cut,
    "lost-reply": LostReply,
    "slow-peer": SlowPeer,
    "clock-jump": ClockJump,
    "drain": Drain,
    "shutdown": Shutdown,
    "not-accepting": NotAccepting,
    "pressure": Pressure,
    "eviction": Eviction,
    "corruption": Corruption,
    "poison": Poison,
}
"""Every kind of fault by the name it has on the command line."""


def hosts_of(fault: Fault) -> list[str]:
    """The hosts a fault is about."""
    match fault:
        case Partition(_, source, target):
            return [source, target]
        case Cut(_, host, other):
            return [host, other]
        case Drain(_, host, by):
            return [host] if by is None else [host, by]
        case _:
            return [fault.host]
