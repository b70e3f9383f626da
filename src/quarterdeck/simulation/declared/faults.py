"""What goes wrong around declared things, besides what befalls any host or connection."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from quarterdeck.simulation.faults import Crash, Cut, Partition, Pause, SlowPeer


class Moment(StrEnum):
    """Of a commit of the leader."""

    BEFORE = "before"
    AFTER = "after"
    """It is committed, and nobody has been told."""


@dataclass(frozen=True, slots=True)
class CrashAtCommit:
    """The next coordinator that commits a proposal dies, before or after its effect."""

    at_s: float
    moment: Moment
    down_s: float


@dataclass(frozen=True, slots=True)
class StoreFails:
    """The answer to the next proposal is an error, before or after its effect."""

    at_s: float
    moment: Moment


@dataclass(frozen=True, slots=True)
class CrashAtSend:
    """The next coordinator that tells a worker to hold something dies when it has said so."""

    at_s: float
    down_s: float


@dataclass(frozen=True, slots=True)
class LostReport:
    """The next report of a worker is lost together with its connection, after its effect."""

    at_s: float
    host: str


class At(StrEnum):
    """What a leader is about to do."""

    SEND = "send"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Depose:
    """The next leader that is about to send a command, or to commit, stands still; meanwhile another may lead."""

    at_s: float
    at: At
    for_s: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Something that a worker holds breaks by itself."""

    at_s: float
    host: str


Fault: TypeAlias = (
    Crash
    | Pause
    | Partition
    | Cut
    | SlowPeer
    | CrashAtCommit
    | StoreFails
    | CrashAtSend
    | LostReport
    | Depose
    | Breakdown
)

FAULTS: dict[str, type[Fault]] = {
    "crash": Crash,
    "pause": Pause,
    "partition": Partition,
    "cut": Cut,
    "slow-peer": SlowPeer,
    "crash-at-commit": CrashAtCommit,
    "store-fails": StoreFails,
    "crash-at-send": CrashAtSend,
    "lost-report": LostReport,
    "depose": Depose,
    "breakdown": Breakdown,
}
"""Every kind of fault by the name it has on the command line."""


def hosts_of(fault: Fault) -> list[str]:
    """The hosts a fault is about."""
    match fault:
        case Partition(_, source, target):
            return [source, target]
        case Cut(_, host, other):
            return [host, other]
        case CrashAtCommit() | StoreFails() | CrashAtSend() | Depose():
            return []
        case _:
            return [fault.host]
