"""The proposals: which changes the store is asked to commit next.

It looks at what is dirty, one thing at a time, and finds a worker for what wants one. It owns which things are
homeless, and which are suspects because a proposal about them failed. It changes nothing itself: what it proposes is so
when it is committed. It does not know when the store may be asked.
"""

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.changes import MAX_CHANGES, Change, is_wanted
from quarterdeck.core.reconcile.leader.deaths import Deaths
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.desk import LeaderDesk
from quarterdeck.core.reconcile.leader.leases import Leases
from quarterdeck.core.reconcile.leader.timers import SuspectTimer
from quarterdeck.core.reconcile.leader.workers import Worker, Workers
from quarterdeck.core.reconcile.model import GroupId, HeldError, Holding, Thing, ThingId
from quarterdeck.core.reconcile.tables import HoldingState, ThingState, ThingTrigger


class Proposals:
    """Tell it what has `changed`, take the next `changes`, and say what became of them."""

    def __init__(self, desk: LeaderDesk, declared: Declared, workers: Workers, leases: Leases, deaths: Deaths) -> None:
        self._desk = desk
        self._declared = declared
        self._workers = workers
        self._leases = leases
        self._deaths = deaths
        self._suspects: dict[ThingId, None] = {}
        """A proposal about these failed. They are proposed apart, so that one that always fails holds up no others."""
        self._suspicions = 0
        """How often in a row."""
        self._chosen: dict[GroupId, set[WorkerId]] = {}
        """In the proposal that is being made."""
        self.homeless: dict[ThingId, None] = {}
        """These want a worker, or another one, and there is none."""
        self._homeless_of: dict[GroupId, dict[ThingId, None]] = {}
        """The same, by group."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to propose."""
        return not self._desk.dirty and not self._suspects

    # What is to be looked at

    def changed(self, thing: Thing, before: Thing | None, *, had_failed: bool) -> None:
        """Something may be to propose about it; about those that stand and fall with it, when it is the first that has
        failed; and about those that found no worker, when it has left one."""
        group_id = thing.spec.group_id
        self._desk.dirty[thing.spec.thing_id] = None
        if not had_failed and self._declared.failure_of(group_id) is not None:
            for sibling in self._declared.of_group(group_id):
                if is_wanted(sibling):
                    self._desk.dirty[sibling.spec.thing_id] = None
        left = None if before is None else before.worker_id
        if left is not None and left not in self._declared.workers_of(group_id):
            self._desk.dirty |= self._homeless_of.get(group_id, {})

    def has_home(self, thing: Thing) -> None:
        """Or wants none any more."""
        thing_id, group_id = thing.spec.thing_id, thing.spec.group_id
        if thing_id in self.homeless:
            del self.homeless[thing_id]
            group = self._homeless_of[group_id]
            del group[thing_id]
            if not group:
                del self._homeless_of[group_id]

    def look_at_homeless(self) -> None:
        """Somebody may take them now."""
        self._desk.dirty |= self.homeless

    def clear(self) -> None:
        """Somebody else leads."""
        self._suspicions = 0
        self._desk.dirty.clear()
        self._suspects.clear()
        self.homeless.clear()
        self._homeless_of.clear()
        self._desk.deadlines.cancel(SuspectTimer())

    # Proposals

    def changes(self) -> tuple[Change, ...]:
        """What is to be proposed now, as far as it fits into one proposal."""
        self._chosen.clear()
        for thing_id in self._suspects.keys() & self._desk.dirty.keys():
            del self._desk.dirty[thing_id]
        changes = self._proposed(self._desk.dirty, MAX_CHANGES)
        if not changes and SuspectTimer() not in self._desk.deadlines:
            changes = self._proposed(self._suspects, max(1, MAX_CHANGES >> self._suspicions))
        return tuple(changes)

    def again(self, changes: tuple[Change, ...]) -> None:
        """Nobody knows what became of these."""
        self._desk.dirty |= _things_of(changes)

    def suspect(self, changes: tuple[Change, ...]) -> None:
        """The store failed when it was given these."""
        self._suspicions += 1
        self._suspects |= _things_of(changes)
        self._desk.deadlines.set(SuspectTimer(), self._desk.again_at(self._suspicions))

    def trust(self) -> None:
        """The store has committed some."""
        if self._suspicions and not self._suspects:
            self._suspicions = 0

    # Inside

    def _proposed(self, things: dict[ThingId, None], most: int) -> list[Change]:
        """The changes of the first of these, which are taken out."""
        changes: list[Change] = []
        while things and len(changes) < most:
            thing_id = next(iter(things))
            del things[thing_id]
            thing = self._declared.get(thing_id)
            change = None if thing is None else self._change_of(thing)
            if change is not None:
                changes.append(change)
        return changes

    def _change_of(self, thing: Thing) -> Change | None:
        if is_wanted(thing):
            failure = self._declared.failure_of(thing.spec.group_id)
            if failure is not None:
                return _change(thing, ThingTrigger.FAIL, error=failure)
            return self._change_of_wanted(thing)
        if thing.state is ThingState.FAILED or not self._is_gone(thing):
            return None
        return _change(thing, ThingTrigger.STOP if thing.state is ThingState.FAILING else ThingTrigger.CLEAR)

    def _change_of_wanted(self, thing: Thing) -> Change | None:
        self.has_home(thing)
        verdict = self._deaths.verdict(thing.spec.thing_id)
        if verdict is not None:
            return _change(thing, ThingTrigger.FAIL, error=verdict)
        if thing.worker_id is None:
            return self._place(thing)
        worker = self._leases.worker(thing.worker_id)
        obeys = worker.obeys(self._desk.leading)
        holding = worker.holdings.get(thing.held_id) if obeys else None
        if holding is not None and holding.error is not None and not holding.error.retryable:
            return _change(thing, ThingTrigger.FAIL, error=holding.error)
        if thing.spec.pinned_to is None and self._should_leave(thing, worker, holding):
            move = self._place(thing)
            if move is not None:
                return move
        is_held = holding is not None and holding.state is HoldingState.HELD
        if thing.state is ThingState.PLACED and is_held:
            return _change(thing, ThingTrigger.CONFIRM)
        if thing.state is ThingState.HELD and (worker.lease_over or (obeys and not is_held)):
            return _change(thing, ThingTrigger.MISS)
        return None

    def _should_leave(self, thing: Thing, worker: Worker, holding: Holding | None) -> bool:
        """Whether another worker should have it, if there is one."""
        if worker.report is None:
            return worker.lease_over
        told = worker.told.get(thing.held_id)
        failed = holding is not None and holding.state is HoldingState.FAILED
        is_vain = failed and told is not None and told.times >= self._desk.config.tries_before_moving
        return is_vain or not worker.report.takes_more or not worker.serves(thing.spec)

    def _place(self, thing: Thing) -> Change | None:
        spec = thing.spec
        chosen = self._chosen.setdefault(spec.group_id, set())
        worker_id = spec.pinned_to
        if worker_id is None:
            worker_id = self._workers.choose(spec, chosen.union(self._declared.workers_of(spec.group_id)))
        if worker_id is None:
            self.homeless[spec.thing_id] = None
            self._homeless_of.setdefault(spec.group_id, {})[spec.thing_id] = None
            return None
        chosen.add(worker_id)
        return _change(thing, ThingTrigger.PLACE, worker_id)

    def _is_gone(self, thing: Thing) -> bool:
        """Whether its worker has no trace of it."""
        if thing.worker_id is None:
            return True
        worker = self._leases.worker(thing.worker_id)
        if worker.obeys(self._desk.leading):
            return not worker.may_have(thing.held_id) and not worker.has_other(thing.held_id)
        return worker.lease_over and thing.spec.pinned_to is None


def _things_of(changes: tuple[Change, ...]) -> dict[ThingId, None]:
    return dict.fromkeys(change.thing_id for change in changes)


def _change(
    thing: Thing, trigger: ThingTrigger, worker_id: WorkerId | None = None, error: HeldError | None = None
) -> Change:
    return Change(thing.spec.thing_id, thing.revision, trigger, worker_id, error)
