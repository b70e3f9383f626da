"""The workers as the leader's machine knows them: who is there, what each reports, and who could hold a thing.

Every coordinator keeps these, leader or not, so that whoever gains leadership knows what is held.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from quarterdeck.core.ids import Fence, Incarnation, SessionId, WorkerId
from quarterdeck.core.placement import Rendezvous
from quarterdeck.core.reconcile.model import HeldId, HeldKind, Holding, Report, ThingId, ThingSpec

_CREW_TENANT = "default"
"""Whose workers hold the things of tenants that have no workers of their own."""


@dataclass(slots=True, eq=False)
class Told:
    """What a worker is told about one thing, until it is so."""

    hold: bool
    """Else to drop it."""
    times: int = 1


@dataclass(slots=True, eq=False)
class Worker:
    worker_id: WorkerId
    incarnation: Incarnation = Incarnation(0)
    tenant: str = ""
    session_id: SessionId | None = None
    report: Report | None = None
    """The newest of this session, without what it says of single things; None while the full one has not come."""
    holdings: dict[HeldId, Holding] = field(default_factory=dict[HeldId, Holding])
    """What it said last that it has."""
    of_thing: dict[ThingId, dict[HeldId, None]] = field(default_factory=dict[ThingId, dict[HeldId, None]])
    """The same, by thing."""
    asked: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """What it was told to hold in this session and has not mentioned since: it may have it."""
    told: dict[HeldId, Told] = field(default_factory=dict[HeldId, Told])
    """What it was told in this session and has not done yet."""
    lease_over: bool = False
    """Away for so long that others may take what it holds."""

    def obeys(self, fence: Fence) -> bool:
        """Whether it is there, has said what it holds, and refuses all leaders before us."""
        return self.report is not None and self.report.fence == fence

    def may_have(self, held_id: HeldId) -> bool:
        return held_id in self.holdings or held_id in self.asked

    def has_other(self, held_id: HeldId) -> bool:
        """Another generation of the same thing."""
        return any(other != held_id for other in self.of_thing.get(held_id.thing_id, ()))

    def put(self, holding: Holding) -> None:
        self.holdings[holding.held_id] = holding
        self.of_thing.setdefault(holding.held_id.thing_id, {})[holding.held_id] = None
        self.asked.pop(holding.held_id, None)

    def take(self, held_id: HeldId) -> None:
        self.asked.pop(held_id, None)
        if self.holdings.pop(held_id, None) is not None:
            generations = self.of_thing[held_id.thing_id]
            del generations[held_id]
            if not generations:
                del self.of_thing[held_id.thing_id]

    def forget_session(self) -> None:
        self.session_id, self.report = None, None
        self.holdings.clear()
        self.of_thing.clear()
        self.asked.clear()
        self.told.clear()


class Workers:
    def __init__(self) -> None:
        self._workers: dict[WorkerId, Worker] = {}
        self._by_session: dict[SessionId, Worker] = {}
        self._lanes: dict[tuple[str, HeldKind], Rendezvous] = {}
        """By tenant and kind: the workers that take more."""

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def get(self, worker_id: WorkerId | None) -> Worker | None:
        return None if worker_id is None else self._workers.get(worker_id)

    def of_session(self, session_id: SessionId) -> Worker | None:
        return self._by_session.get(session_id)

    def known(self, worker_id: WorkerId) -> Worker:
        """Its record, made if there is none: things may be placed on a worker that has not come yet."""
        return self._workers.setdefault(worker_id, Worker(worker_id))

    def forget(self, worker: Worker) -> None:
        """One that is away, with nothing left to wait for."""
        del self._workers[worker.worker_id]

    def open(self, session_id: SessionId, worker_id: WorkerId, incarnation: Incarnation, tenant: str) -> None:
        """A worker has a session, and its older one is closed; nothing, when a newer process of it is there already."""
        worker = self.known(worker_id)
        if incarnation < worker.incarnation:
            return
        worker.session_id, worker.incarnation, worker.tenant = session_id, incarnation, tenant
        self._by_session[session_id] = worker

    def close(self, worker: Worker) -> None:
        """Its session is over."""
        assert worker.session_id is not None
        self._leave_lanes(worker)
        del self._by_session[worker.session_id]
        worker.forget_session()

    def take_report(self, worker: Worker, report: Report) -> list[HeldId] | None:
        """The things it is about; None when a report before it is missing, and all of it is to be said again."""
        mentioned = dict.fromkeys((*(holding.held_id for holding in report.holdings), *report.gone))
        if report.since is None:
            mentioned |= dict.fromkeys(worker.holdings)
            for held_id in list(worker.holdings):
                worker.take(held_id)
            kinds = report.kinds
        elif worker.report is None or worker.report.number != report.since:
            return None
        else:
            kinds = worker.report.kinds
        for holding in report.holdings:
            worker.put(holding)
        for held_id in report.gone:
            worker.take(held_id)
        self._enter_lanes(worker, replace(report, kinds=kinds, holdings=(), gone=()))
        return list(mentioned)

    def choose(self, spec: ThingSpec, excluded: Collection[WorkerId]) -> WorkerId | None:
        """Who should hold a thing that is not pinned; the same one as long as it is there."""
        lane = self._lanes.get((spec.tenant, spec.kind)) or self._lanes.get((_CREW_TENANT, spec.kind))
        return None if lane is None else lane.choose(spec.group_id, excluded)

    def members(self) -> Iterator[tuple[tuple[str, HeldKind], WorkerId]]:
        """Who is in which lane: for invariants."""
        for key, lane in self._lanes.items():
            for worker_id in self._workers:
                if worker_id in lane:
                    yield key, worker_id

    def _enter_lanes(self, worker: Worker, report: Report) -> None:
        before, worker_id = worker.report, worker.worker_id
        if before is not None and (before.kinds, before.takes_more) == (report.kinds, report.takes_more):
            worker.report = report
            return
        self._leave_lanes(worker)
        worker.report = report
        if report.takes_more:
            for kind in sorted(report.kinds):
                self._lanes.setdefault((worker.tenant, kind), Rendezvous()).add(worker_id, 0)

    def _leave_lanes(self, worker: Worker) -> None:
        if worker.report is not None and worker.report.takes_more:
            for kind in worker.report.kinds:
                key = worker.tenant, kind
                lane = self._lanes[key]
                lane.remove(worker.worker_id)
                if not len(lane):
                    del self._lanes[key]
