"""A worker of a crew on this machine before its start, as whoever has something to tell it sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quarterdeck.config import WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerToBe:
    number: int
    """From 0."""
    settings: WorkerSettings
    """What somebody has set for all workers."""
    coordinator_url: str
    """Where the coordinator is asked."""
    keep_back: int
    """How many of the workers, the first ones, nobody may reserve."""


Advice = Callable[[WorkerToBe], Mapping[str, str]]
"""Settings of one worker, by their names as `--set` takes them; they count more than what somebody has set."""
