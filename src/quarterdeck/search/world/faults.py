"""The disasters of recruiting, as data; those that befall any host or connection are the same as a crew's."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from quarterdeck.simulation.faults import ClockJump, Crash, Cut, Partition, Pause, Shutdown, SlowPeer


class Reply(StrEnum):
    """Answers that a fault can lose after their effect."""

    RESERVED = "reserved"
    REREGISTER = "reregister"
    RECRUITED = "recruited"
    CHUNK = "chunk"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class LostReply:
    """The next answer of this kind is lost with its connection, after its effect; silently, its client waits on."""

    at_s: float
    host: str
    reply: Reply
    silently: bool


@dataclass(frozen=True, slots=True)
class Drain:
    """A worker is told to stop, by a signal; it comes back after a while."""

    at_s: float
    host: str
    down_s: float


@dataclass(frozen=True, slots=True)
class Busy:
    """A coordinator gives a worker something to do, if it takes it; or in the moment in which it next hears that it is
    reserved."""

    at_s: float
    host: str
    for_s: float
    when_reserved: bool


@dataclass(frozen=True, slots=True)
class Wedge:
    """A root stays connected and from now on reads nothing, asks nothing and releases nobody. It does not heal."""

    at_s: float
    host: str


@dataclass(frozen=True, slots=True)
class SlowScan:
    """Scans on a worker stand still for a while."""

    at_s: float
    host: str
    for_s: float


Fault: TypeAlias = (
    Crash | Pause | Partition | Cut | LostReply | SlowPeer | ClockJump | Drain | Shutdown | Busy | Wedge | SlowScan
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
    "busy": Busy,
    "wedge": Wedge,
    "slow-scan": SlowScan,
}
"""Every kind of fault by the name it has on the command line."""


def hosts_of(fault: Fault) -> list[str]:
    """The hosts a fault is about."""
    match fault:
        case Partition(_, source, target):
            return [source, target]
        case Cut(_, host, other):
            return [host, other]
        case _:
            return [fault.host]
