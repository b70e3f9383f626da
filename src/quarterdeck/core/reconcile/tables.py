"""What may happen to a declared thing, and to a thing on the worker that holds it."""

from enum import StrEnum
from types import MappingProxyType

from quarterdeck.core.transitions import TransitionTable


class ThingState(StrEnum):
    """As it is committed."""

    DECLARED = "declared"
    """Wanted, and no worker has been chosen yet."""
    PLACED = "placed"
    """Wanted on a worker that is not known to hold it."""
    HELD = "held"
    """The worker has said that it holds it."""
    FAILING = "failing"
    """No worker can hold it, or another one of its group: it is being stopped."""
    FAILED = "failed"
    """Stopped everywhere. It stays until it is withdrawn, so that people can read why."""
    WITHDRAWN = "withdrawn"
    """Nobody wants it any more: it is being stopped."""
    GONE = "gone"
    """Stopped everywhere, and forgotten."""


class ThingTrigger(StrEnum):
    PLACE = "place"
    """On a worker: the first one, or another one."""
    CONFIRM = "confirm"
    MISS = "miss"
    """The worker that held it does not, or has been away for longer than its lease."""
    FAIL = "fail"
    STOP = "stop"
    WITHDRAW = "withdraw"
    CLEAR = "clear"


class HoldingState(StrEnum):
    """On its worker."""

    ACQUIRING = "acquiring"
    HELD = "held"
    FAILED = "failed"
    """It could not be acquired, or broke, or could not be released; the worker waits to be told what to do."""
    RELEASING = "releasing"
    GONE = "gone"


class HoldingTrigger(StrEnum):
    ACQUIRE = "acquire"
    FAIL = "fail"
    HOLD = "hold again"
    DROP = "drop"
    RELEASE = "release"


_S, _T = ThingState, ThingTrigger

THING_TABLE = TransitionTable(
    name="thing",
    initial=_S.DECLARED,
    terminal=frozenset({_S.GONE}),
    moves=MappingProxyType(
        {
            (_S.DECLARED, _T.PLACE): _S.PLACED,
            (_S.DECLARED, _T.FAIL): _S.FAILING,
            (_S.DECLARED, _T.WITHDRAW): _S.WITHDRAWN,
            (_S.PLACED, _T.PLACE): _S.PLACED,
            (_S.PLACED, _T.CONFIRM): _S.HELD,
            (_S.PLACED, _T.FAIL): _S.FAILING,
            (_S.PLACED, _T.WITHDRAW): _S.WITHDRAWN,
            (_S.HELD, _T.PLACE): _S.PLACED,
            (_S.HELD, _T.MISS): _S.PLACED,
            (_S.HELD, _T.FAIL): _S.FAILING,
            (_S.HELD, _T.WITHDRAW): _S.WITHDRAWN,
            (_S.FAILING, _T.STOP): _S.FAILED,
            (_S.FAILING, _T.WITHDRAW): _S.WITHDRAWN,
            (_S.FAILED, _T.WITHDRAW): _S.WITHDRAWN,
            (_S.WITHDRAWN, _T.CLEAR): _S.GONE,
        }
    ),
)

_H, _R = HoldingState, HoldingTrigger

HOLDING_TABLE = TransitionTable(
    name="holding",
    initial=_H.ACQUIRING,
    terminal=frozenset({_H.GONE}),
    moves=MappingProxyType(
        {
            (_H.ACQUIRING, _R.ACQUIRE): _H.HELD,
            (_H.ACQUIRING, _R.FAIL): _H.FAILED,
            (_H.ACQUIRING, _R.DROP): _H.RELEASING,
            (_H.HELD, _R.FAIL): _H.FAILED,
            (_H.HELD, _R.DROP): _H.RELEASING,
            (_H.FAILED, _R.HOLD): _H.ACQUIRING,
            (_H.FAILED, _R.DROP): _H.RELEASING,
            (_H.RELEASING, _R.FAIL): _H.FAILED,
            (_H.RELEASING, _R.RELEASE): _H.GONE,
        }
    ),
)
