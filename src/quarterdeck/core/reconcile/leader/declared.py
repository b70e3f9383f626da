"""What is declared, as it is committed and as far as the leader has read it."""

from collections.abc import Collection, Iterator
from typing import TypeVar

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.model import GroupId, HeldError, Thing, ThingId
from quarterdeck.core.reconcile.tables import ThingState

KeyT = TypeVar("KeyT")

_FAILED = (ThingState.FAILING, ThingState.FAILED)


class Declared:
    """Things by name, by group and by the worker they are placed on. Nothing here is linear in all of them."""

    def __init__(self) -> None:
        self._things: dict[ThingId, Thing] = {}
        self._groups: dict[GroupId, dict[ThingId, None]] = {}
        self._at: dict[WorkerId, dict[ThingId, None]] = {}
        self._failed: dict[GroupId, dict[ThingId, None]] = {}
        """Those of each group that were stopped because one of them cannot be held."""
        self._used: dict[GroupId, dict[WorkerId, int]] = {}
        """How many things of each group are placed on a worker."""

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[Thing]:
        return iter(self._things.values())

    def get(self, thing_id: ThingId) -> Thing | None:
        return self._things.get(thing_id)

    def of_group(self, group_id: GroupId) -> Iterator[Thing]:
        return (self._things[thing_id] for thing_id in self._groups.get(group_id, ()))

    def at(self, worker_id: WorkerId) -> Iterator[Thing]:
        return (self._things[thing_id] for thing_id in self._at.get(worker_id, ()))

    def has_at(self, worker_id: WorkerId) -> bool:
        return worker_id in self._at

    def failure_of(self, group_id: GroupId) -> HeldError | None:
        """Why a group is rolled back, if it is."""
        failed = next(iter(self._failed.get(group_id, ())), None)
        return None if failed is None else self._things[failed].error

    def workers_of(self, group_id: GroupId) -> Collection[WorkerId]:
        """Where its things are placed."""
        return self._used.get(group_id, {}).keys()

    def put(self, thing: Thing) -> None:
        thing_id = thing.spec.thing_id
        if thing_id in self._things:
            self.remove(thing_id)
        self._things[thing_id] = thing
        group_id = thing.spec.group_id
        self._groups.setdefault(group_id, {})[thing_id] = None
        if thing.state in _FAILED:
            self._failed.setdefault(group_id, {})[thing_id] = None
        if thing.worker_id is not None:
            self._at.setdefault(thing.worker_id, {})[thing_id] = None
            used = self._used.setdefault(group_id, {})
            used[thing.worker_id] = used.get(thing.worker_id, 0) + 1

    def remove(self, thing_id: ThingId) -> Thing:
        thing = self._things.pop(thing_id)
        group_id = thing.spec.group_id
        _leave(self._groups, group_id, thing_id)
        if thing.state in _FAILED:
            _leave(self._failed, group_id, thing_id)
        if thing.worker_id is not None:
            _leave(self._at, thing.worker_id, thing_id)
            self._leave_worker(group_id, thing.worker_id)
        return thing

    def clear(self) -> None:
        for index in (self._things, self._groups, self._at, self._failed, self._used):
            index.clear()

    def _leave_worker(self, group_id: GroupId, worker_id: WorkerId) -> None:
        used = self._used[group_id]
        used[worker_id] -= 1
        if not used[worker_id]:
            del used[worker_id]
            if not used:
                del self._used[group_id]


def _leave(index: dict[KeyT, dict[ThingId, None]], key: KeyT, thing_id: ThingId) -> None:
    members = index[key]
    del members[thing_id]
    if not members:
        del index[key]
