"""What the parts of a leader's machine share: the time of the step, its effects, the timers, and whether we lead.

It decides nothing. Who leads is the machine's affair, and what is `dirty` is looked at when the store is asked next.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.ids import Fence
from quarterdeck.core.reconcile.leader.config import LeaderConfig
from quarterdeck.core.reconcile.leader.effects import Effect, SendToWorker
from quarterdeck.core.reconcile.leader.timers import Timer
from quarterdeck.core.reconcile.leader.workers import Worker
from quarterdeck.core.reconcile.messages import LeaderMessage
from quarterdeck.core.reconcile.model import ThingId

_NO_JITTER: Final = 0.5
"""One leader tells many workers, each at its own time: there is no herd to spread."""


@dataclass(slots=True, eq=False)
class LeaderDesk:
    config: LeaderConfig
    now: float = 0.0
    effects: list[Effect] = field(default_factory=list[Effect])
    deadlines: Deadlines[Timer] = field(default_factory=Deadlines[Timer])
    counters: Counter[str] = field(default_factory=Counter[str])
    moves: Counter[tuple[StrEnum, StrEnum]] = field(default_factory=Counter[tuple[StrEnum, StrEnum]])
    """How often each entry of the table was committed."""
    fence: Fence | None = None
    """Ours, while we lead."""
    is_doubted: bool = False
    """Somebody has seen a higher fence than ours."""
    knows: bool = False
    """What is declared was read in this leadership: only then is known what nobody wants."""
    dirty: dict[ThingId, None] = field(default_factory=dict[ThingId, None])
    """About these something may be to propose."""

    @property
    def leads(self) -> bool:
        return self.fence is not None and not self.is_doubted

    @property
    def leading(self) -> Fence:
        """Ours; only who leads has one."""
        assert self.fence is not None
        return self.fence

    def again_at(self, times: int) -> float:
        """When to try once more what was tried so often."""
        return self.now + self.config.backoff.delay_s(times, _NO_JITTER)

    def do(self, effect: Effect) -> None:
        self.effects.append(effect)

    def send(self, worker: Worker, message: LeaderMessage) -> None:
        assert worker.session_id is not None
        self.do(SendToWorker(worker.session_id, message))
