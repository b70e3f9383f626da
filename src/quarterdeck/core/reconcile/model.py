"""The nouns both machines share: things that are declared, and what a worker has of them. Values only."""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NewType

from quarterdeck.core.ids import Fence, WorkerId
from quarterdeck.core.reconcile.tables import HoldingState, ThingState

ThingId = NewType("ThingId", str)
GroupId = NewType("GroupId", str)
"""Things of one group stand and fall together: the fragments of one query, the replicas of one epoch."""

Revision = NewType("Revision", int)
"""Counts what was committed in one store. It rises with each commit, whoever made it."""

HeldKind = NewType("HeldKind", str)
"""What a worker can be asked to hold. Each capability names its own kinds."""

_HELD_KIND: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")

NEVER: Final = Revision(0)
"""Before any commit."""


def held_kind(text: str) -> HeldKind:
    """The kind of that name; a `ValueError` when no kind can have it.

    >>> held_kind("epoch")
    'epoch'
    """
    if _HELD_KIND.fullmatch(text) is None:
        raise ValueError(
            f"{text[:40]!r} names no kind of held thing: at most 32 of a-z, 0-9, - and _ do, of which the first is a "
            "letter"
        )
    return HeldKind(text)


class HeldId(NamedTuple):
    """Names one thing in one place. Each placing is a generation of its own, which is never used again: so a copy that
    a worker kept from an earlier one is told from the one that is wanted."""

    thing_id: ThingId
    generation: Revision

    def __str__(self) -> str:
        return f"{self.thing_id}@{self.generation}"


@dataclass(frozen=True, slots=True)
class HeldError:
    """Why a worker does not hold a thing."""

    code: str
    message: str
    retryable: bool = True
    """If not, no worker can hold it: its group is rolled back."""


@dataclass(frozen=True, slots=True)
class ThingSpec:
    """What is declared. It never changes; the payload is the capability's own and opaque here."""

    thing_id: ThingId
    group_id: GroupId
    kind: HeldKind
    payload: bytes = b""
    tenant: str = "default"
    pinned_to: WorkerId | None = None
    """The one worker that may hold it, which it waits for. None: any worker that holds the kind, one for each thing of
    the group, and another one when that is gone."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A declared thing as it is committed."""

    spec: ThingSpec
    revision: Revision
    """Of its last change. A change names the revision it has seen, and is refused when there is a newer one."""
    state: ThingState = ThingState.DECLARED
    worker_id: WorkerId | None = None
    """Where it was placed last."""
    generation: Revision = NEVER
    """The revision of that placing."""
    error: HeldError | None = None
    """Why it is rolled back."""

    @property
    def held_id(self) -> HeldId:
        return HeldId(self.spec.thing_id, self.generation)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a worker says of one thing it has."""

    held_id: HeldId
    state: HoldingState
    error: HeldError | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker holds: all of it, or what has changed since the report before."""

    fence: Fence
    """The highest that this incarnation has seen: it obeys no lower one."""
    since: int | None
    """The number of the report that this one follows; None when it is a full one."""
    number: int
    """Counts the changes of one incarnation."""
    kinds: frozenset[HeldKind] = frozenset()
    """What it can hold. Said in full reports."""
    takes_more: bool = True
    """Whether new things are welcome: not while it drains."""
    holdings: tuple[Holding, ...] = ()
    gone: tuple[HeldId, ...] = field(default=())
    """What it has no trace of any more."""
