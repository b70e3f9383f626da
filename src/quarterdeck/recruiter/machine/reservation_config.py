"""How a worker is recruited."""

from dataclasses import dataclass, field

from quarterdeck.core.backoff import Backoff


@dataclass(frozen=True, slots=True)
class ReservationConfig:
    addr: str
    """`host:port` of the worker. Decides which recruiter is its first choice."""
    recruiters: tuple[str, ...]
    """Without any it is never registered."""
    backoff: Backoff = field(default_factory=lambda: Backoff(base_s=0.2, cap_s=10.0, factor=1.5, jitter=0.1))
    """Between two tries to register."""
    settle_s: float = 0.2
    """How long it must have been idle. Too short makes a worker between two works come and go; too long leaves it
    unused."""
    idle_s: float = 10.0
    """How long a reserved worker waits for a search. Too short loses workers to a root that plans for long; too long
    keeps workers whose root has died from others."""
    progress_s: float = 60.0
    """How long a search may make none. Too short cuts off roots that are only slow; too long lets one that hangs keep
    its workers."""
    overtaken_s: float = 1.0
    """How long a search or a release that is faster than the word of its reservation waits for that."""
    leave_when_abandoned: bool = True
    """Whether the process ends when its root has left it alone, or registers again."""
    drain_max_s: float = 300.0
    """How long draining waits for searches that run."""
