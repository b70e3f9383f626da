"""Watching a peer: when to beat, when its silence is worth a warning, and when it is lost. Used by both machines."""

from dataclasses import dataclass
from enum import StrEnum

from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.model import LivenessPolicy


class Silence(StrEnum):
    """What a peer's silence means now."""

    NORMAL = "normal"
    NOTABLE = "notable"
    """Said once, when the warning is due."""
    LOST = "lost"


@dataclass(slots=True, eq=False)
class PeerWatch:
    """One side's view of the other in a session. `not_before` is when we last were unable to hear anybody ourselves."""

    policy: LivenessPolicy
    last_heard: float
    next_beat: float
    warned: bool = False

    @classmethod
    def begin(cls, policy: LivenessPolicy, now: float) -> "PeerWatch":
        return cls(policy, last_heard=now, next_beat=now + policy.interval_s)

    def heard(self, now: float) -> None:
        self.last_heard = now
        self.warned = False

    def silence_s(self, now: float, not_before: float) -> float:
        return now - max(self.last_heard, not_before)

    def judge(self, now: float, not_before: float) -> Silence:
        # As `next_look` reckons: a difference of times could be rounded below a limit that the sum has reached, and
        # the timer that came for it would be set to the same time again, for ever.
        silent_since = max(self.last_heard, not_before)
        if now >= silent_since + self.policy.lost_after_s:
            return Silence.LOST
        if now >= silent_since + self.policy.warn_after_s and not self.warned:
            self.warned = True
            return Silence.NOTABLE
        return Silence.NORMAL

    def take_beat(self, now: float) -> bool:
        """Whether a beat is to be sent now; the next one is due an interval later."""
        if now < self.next_beat:
            return False
        self.next_beat = now + self.policy.interval_s
        return True

    def next_look(self, not_before: float) -> float:
        limit_s = self.policy.lost_after_s if self.warned else self.policy.warn_after_s
        return min(self.next_beat, max(self.last_heard, not_before) + limit_s)


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A beat to send, or a peer that has been silent."""

    session_id: SessionId
