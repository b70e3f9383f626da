"""A lane: the works of one tenant and one kind that wait, and the workers in rotation that may take them.

A waiting work stands in the line of the worker that placement chose for it, its home, because its cache is warm there.
It also stands in the common line of the lane: once it has waited longer than an idle worker should be kept from it, any
worker with credit takes it. A work that was given to a worker and waits there, behind what runs, is taken back when
another could begin it at once. Works that nobody may take now stand in a backlog and are placed a batch at a time, so
that no step grows with the number of works.
"""

from collections import OrderedDict, deque
from typing import TypeAlias

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.placement import Placement, PlacementStrategy, make_placement
from quarterdeck.core.workcoord.coordinator.line import Line
from quarterdeck.core.workcoord.coordinator.records import Attempt, Query, Session, Work
from quarterdeck.core.workcoord.coordinator.timers import BacklogTimer, RecallTimer, SpillTimer
from quarterdeck.core.workcoord.kinds import WorkKind

LaneKey: TypeAlias = tuple[str, WorkKind]


class Lane:
    """One tenant's works of one kind, and who may take them."""

    __slots__ = (
        "_placements",
        "backlog",
        "backlog_timer",
        "choosy",
        "common",
        "homes",
        "idle",
        "is_recall_due",
        "is_spill_due",
        "key",
        "kind",
        "members",
        "pending",
        "recall_timer",
        "spill_timer",
        "suspects",
        "vacant",
        "waiting",
    )

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.kind = key[1]
        self.spill_timer = SpillTimer(key)
        self.is_spill_due = False
        """Whether that timer runs: to ask for it costs more than to know."""
        self.recall_timer = RecallTimer(key)
        self.is_recall_due = False
        self.backlog_timer = BacklogTimer(key)
        self.members: dict[WorkerId, Session] = {}
        self.idle: dict[WorkerId, Session] = {}
        """Members with credit to spare."""
        self.vacant: dict[WorkerId, Session] = {}
        """Those among them that would begin a work at once."""
        self.waiting: OrderedDict[Attempt, None] = OrderedDict()
        """Attempts of which no worker has said that they have begun, the oldest first; not those recalled already."""
        self.homes: dict[WorkerId, Line] = {}
        self.common = Line()
        self.choosy = Line()
        """Works that wait at home and may go elsewhere, but not anywhere."""
        self.suspects = Line()
        """Works that wait for a worker with no other suspect."""
        self.backlog: deque[Line] = deque()
        """Works to be placed as soon as there is a worker, and their query has nobody accused."""
        self.pending: dict[Query, int] = {}
        """How many works of each query wait here."""
        self._placements: dict[PlacementStrategy, Placement] = {}

    def placement(self, strategy: PlacementStrategy) -> Placement:
        """The members as one strategy sees them; made when first asked for."""
        found = self._placements.get(strategy)
        if found is None:
            found = self._placements[strategy] = make_placement(strategy)
            for worker_id, session in self.members.items():
                found.add(worker_id, session.free)
        return found

    def add(self, session: Session) -> None:
        worker_id = session.worker_id
        self.members[worker_id] = session
        self.homes[worker_id] = Line()
        for placement in self._placements.values():
            placement.add(worker_id, session.free)

    def remove(self, session: Session) -> None:
        worker_id = session.worker_id
        del self.members[worker_id]
        self.idle.pop(worker_id, None)
        self.vacant.pop(worker_id, None)
        self.backlog.append(self.homes.pop(worker_id))
        for placement in self._placements.values():
            placement.remove(worker_id)

    def credit_changed(self, session: Session) -> None:
        worker_id = session.worker_id
        load, kind = session.load, self.kind
        self.idle.pop(worker_id, None)
        self.vacant.pop(worker_id, None)
        if load.has_room(kind, session.credit):
            self.idle[worker_id] = session  # last in turn, so that idle workers share what spills over
            if load.has_room(kind, session.worker.slots):
                self.vacant[worker_id] = session
        for placement in self._placements.values():
            placement.set_free(worker_id, session.free)

    def next_in_backlog(self) -> Work | None:
        while self.backlog and not self.backlog[0]:
            self.backlog.popleft()
        return next((work for line in self.backlog if (work := line.head()) is not None), None)

    def next_for(self, session: Session, now: float, spill_after_s: float) -> Work | None:
        """What a worker with credit should get: its own line first, then what has waited long enough to spill over."""
        work = self.homes[session.worker_id].head()
        if work is not None:
            return work
        work = self.common.head()
        return work if work is not None and work.since + spill_after_s <= now else None
