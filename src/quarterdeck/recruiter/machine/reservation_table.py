"""What may happen to a worker that can be recruited."""

from enum import StrEnum
from types import MappingProxyType

from quarterdeck.core.transitions import TransitionTable


class ReservationState(StrEnum):
    AWAY = "away"
    """Busy for coordinators, or not to be recruited at all."""
    WAITING = "waiting"
    """Idle; it registers when it has been so for a moment, or after a wait for a recruiter that failed."""
    REGISTERED = "registered"
    """A registration is open, or about to be."""
    WITHDRAWING = "withdrawing"
    """The registration is being taken back; it may still end with a reservation."""
    RESERVED = "reserved"
    ENDING = "ending"
    """The reservation is over; its searches were told to stop, and some have not."""
    GONE = "gone"
    """Drained, or abandoned by its root and on the way out."""


class ReservationTrigger(StrEnum):
    PREPARE = "prepare"
    TURN_BUSY = "turn busy"
    REGISTER = "register"
    TRY_AGAIN = "try again"
    """Asked to, or because it failed."""
    WITHDRAW = "withdraw"
    COME_BACK = "come back"
    RESERVE = "reserve"
    END = "end"
    """Released, abandoned, or drained."""
    LEAVE = "leave"


_S, _T = ReservationState, ReservationTrigger

RESERVATION_TABLE = TransitionTable(
    name="reservation",
    initial=_S.AWAY,
    terminal=frozenset({_S.GONE}),
    moves=MappingProxyType(
        {
            (_S.AWAY, _T.PREPARE): _S.WAITING,
            (_S.AWAY, _T.LEAVE): _S.GONE,
            (_S.WAITING, _T.TURN_BUSY): _S.AWAY,
            (_S.WAITING, _T.REGISTER): _S.REGISTERED,
            (_S.WAITING, _T.LEAVE): _S.GONE,
            (_S.REGISTERED, _T.TRY_AGAIN): _S.WAITING,
            (_S.REGISTERED, _T.WITHDRAW): _S.WITHDRAWING,
            (_S.REGISTERED, _T.RESERVE): _S.RESERVED,
            (_S.WITHDRAWING, _T.COME_BACK): _S.AWAY,
            (_S.WITHDRAWING, _T.RESERVE): _S.RESERVED,
            (_S.RESERVED, _T.END): _S.ENDING,
            (_S.ENDING, _T.COME_BACK): _S.AWAY,
        }
    ),
)
