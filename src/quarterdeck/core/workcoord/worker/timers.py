"""The things a worker's machine waits for, as keys of its deadlines."""

from dataclasses import dataclass

from quarterdeck.core.workcoord.liveness import SessionTimer
from quarterdeck.core.workcoord.model import AttemptId


@dataclass(frozen=True, slots=True)
class ArtifactTimer:
    """An artifact has been kept for as long as it is worth."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class DrainTimer:
    """Draining has taken as long as it may."""


Timer = SessionTimer | ArtifactTimer | DrainTimer
