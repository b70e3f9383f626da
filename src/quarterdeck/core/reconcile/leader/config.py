"""The times and the limits of a leader's machine, and what it costs to set one of them wrong."""

from dataclasses import dataclass

from quarterdeck.core.backoff import Backoff


@dataclass(frozen=True, slots=True)
class LeaderConfig:
    """How a leader's machine behaves."""

    lease_s: float = 10.0
    """How long things wait for a worker that is away before others take them. Too short loads again what a worker that
    merely restarts would have had; too long leaves what it held unavailable."""
    adopt_s: float = 18.0
    """The same for a new leader, whom workers still have to find: the lease and their longest wait between two tries to
    connect. Too short makes each change of leaders load everything anew."""
    look_s: float = 5.0
    """How often it looks whether something was declared that nobody told it of. Each look is a small query."""
    backoff: Backoff = Backoff()
    """How long a worker has to do what it was told before it is told again, and the store after a failure."""
    tries_before_moving: int = 3
    """How often a worker may fail to hold a thing before another one is asked, if one may hold it."""
    max_said: int = 512
    """How many commands are on their way to one worker. A session in which too much waits to be written is ended, and
    the queries on it with it."""
    max_said_bytes: int = 4 << 20
    """And what their payloads take, of which the last one may go beyond it."""
    hear_s: float = 30.0
    """How long what a worker does not answer counts as on its way. Too short, and a slow network fills up."""
    steady_s: float = 60.0
    """What a worker has held for so long it holds well. What breaks sooner, a second time in a row, is told again with
    the backoff, and counts as one that the worker failed to hold."""
    deaths_allowed: int = 3
    """How many deaths of workers, each of which nothing else explains, a thing may cause before it fails for good. Too
    few, and it fails because its workers were killed for other reasons while they acquired it; too many, and it takes
    down all that is held beside it more often. The last try begins when its worker has lived for `steady_s` without
    it. A new leader counts anew."""
    believe_again_s: float = 60.0
    """A worker that says it has seen a higher fence is believed, and then not again for so long: one that always says
    so must not keep everybody from leading. A leader that really was followed hears it from the store."""
