"""Changes of what is declared, as they are proposed and as every store applies them."""

from dataclasses import dataclass, replace
from typing import Final

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.model import HeldError, Revision, Thing, ThingId
from quarterdeck.core.reconcile.tables import THING_TABLE, ThingState, ThingTrigger

MAX_CHANGES: Final = 128
"""In one proposal: as many as etcd takes in one transaction."""


@dataclass(frozen=True, slots=True)
class Change:
    """One move of one thing."""

    thing_id: ThingId
    seen: Revision
    """The revision of the thing that it is about: a store refuses it when there is a newer one."""
    trigger: ThingTrigger
    worker_id: WorkerId | None = None
    """Of PLACE: where."""
    error: HeldError | None = None
    """Of FAIL: why."""


def is_wanted(thing: Thing) -> bool:
    """Whether a worker should hold it."""
    return thing.state in (ThingState.DECLARED, ThingState.PLACED, ThingState.HELD)


def changed(thing: Thing, change: Change, revision: Revision) -> Thing | None:
    """The thing after a change that is committed at a revision; None when it is gone."""
    state = THING_TABLE.next(thing.state, change.trigger)
    if state is ThingState.GONE:
        return None
    after = replace(thing, state=state, revision=revision)
    match change.trigger:
        case ThingTrigger.PLACE:
            return replace(after, worker_id=change.worker_id, generation=revision)
        case ThingTrigger.FAIL:
            return replace(after, error=change.error)
        case _:
            return after
