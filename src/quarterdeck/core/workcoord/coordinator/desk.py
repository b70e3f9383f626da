"""What the parts of a coordinator's machine share: the time of the step, its effects, the timers and the counters."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.workcoord.coordinator.effects import Effect, SendToWorker
from quarterdeck.core.workcoord.coordinator.records import Session
from quarterdeck.core.workcoord.coordinator.timers import Timer
from quarterdeck.core.workcoord.messages import CoordinatorMessage, Refused, Registered


@dataclass(slots=True, eq=False)
class Desk:
    now: float = 0.0
    effects: list[Effect] = field(default_factory=list[Effect])
    deadlines: Deadlines[Timer] = field(default_factory=Deadlines[Timer])
    counters: Counter[str] = field(default_factory=Counter[str])
    moves: Counter[tuple[StrEnum, StrEnum]] = field(default_factory=Counter[tuple[StrEnum, StrEnum]])
    """How often each entry of the tables was used."""

    def do(self, effect: Effect) -> None:
        self.effects.append(effect)

    def send(self, session: Session, message: CoordinatorMessage | Registered | Refused) -> None:
        self.effects.append(SendToWorker(session.session_id, message))
