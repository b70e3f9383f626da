"""What may happen to a candidate for leadership."""

from enum import StrEnum
from types import MappingProxyType

from quarterdeck.core.transitions import TransitionTable


class CandidateState(StrEnum):
    WAITING = "waiting"
    """Another leads, or nobody does yet."""
    LEADING = "leading"
    RELEASING = "releasing"
    """The store is being told that the row is free."""
    ENDED = "ended"


class CandidateTrigger(StrEnum):
    GAIN = "gain"
    LOSE = "lose"
    RELEASE = "release"
    FINISH = "finish"


_S, _T = CandidateState, CandidateTrigger

CANDIDATE_TABLE = TransitionTable(
    name="candidate",
    initial=_S.WAITING,
    terminal=frozenset({_S.ENDED}),
    moves=MappingProxyType(
        {
            (_S.WAITING, _T.GAIN): _S.LEADING,
            (_S.WAITING, _T.RELEASE): _S.RELEASING,
            (_S.WAITING, _T.FINISH): _S.ENDED,
            (_S.LEADING, _T.LOSE): _S.WAITING,
            (_S.RELEASING, _T.FINISH): _S.ENDED,
        }
    ),
)
