"""The workers as the leader's machine knows them: who is there, what each reports, and who could hold a thing.

Every coordinator keeps these, leader or not, so that whoever gains leadership knows what is held.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from quarterdeck.core.ids import Fence, Incarnation, SessionId, WorkerId
from quarterdeck.core.placement import Rendezvous
from quarterdeck.core.reconcile.model import HeldId, HeldKind, Holding, Report, ThingId, ThingSpec
from quarterdeck.core.reconcile.tables import HoldingState

_CREW_TENANT: Final = "default"
"""Whose workers hold the things of tenants that have no workers of their own."""
MAX_HOLDINGS: Final = 10_000
"""What one worker is believed to have: as much as fits into one report, and more than a worker ever has."""


@dataclass(slots=True, eq=False)
class Told:
    """What a worker is told about one thing, until it is so."""

    hold: bool
    """Else to drop it."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Said:
    """A command on its way."""

    at: float
    size_bytes: int
    """Of its payload."""


@dataclass(slots=True, eq=False)
class Steadiness:
    """How well a worker holds a thing that it was told to hold."""

    since: float
    """When it said that it holds it."""
    breaks: int = 0
    """How often it broke soon after that, in a row."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may have ended the process of a worker, if it is that which ended its session."""

    things: tuple[ThingId, ...] = ()
    were_held: bool = False
    """And not on their way."""


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
    moving: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """What it said last that it acquires or releases."""
    asked: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """What it was told to hold in this session and has not mentioned since: it may have it."""
    told: dict[HeldId, Told] = field(default_factory=dict[HeldId, Told])
    """What it was told in this session, or is to be told, and has not done yet."""
    said: dict[HeldId, Said] = field(default_factory=dict[HeldId, Said])
    """Commands that it is not known to have heard, in the order in which they were first said."""
    said_bytes: int = 0
    waiting: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """Commands that wait until it has answered others."""
    in_line: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """What it is to be told when nothing else is on its way to it, because such a thing may have ended it before."""
    kept_away: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """What it is not told yet, to see whether it lives without it."""
    on_trial: dict[HeldId, None] = field(default_factory=dict[HeldId, None])
    """What it was told, or is about to be told, of what was in line, and has not withstood yet."""
    trial_size: int = 0
    """How many may be on trial beside each other."""
    candidates: Candidates | None = None
    """For the end of its process, if that is what ended its last session; None when nothing is known."""
    steadiness: dict[HeldId, Steadiness] = field(default_factory=dict[HeldId, Steadiness])
    """Of what it was told to hold in this session, and held."""
    believed_at: float | None = None
    """When it last said of a higher fence than ours, and was believed."""
    lease_over: bool = False
    """Away for so long that others may take what it holds."""

    def obeys(self, fence: Fence) -> bool:
        """Whether it is there, has said what it holds, and refuses all leaders before us."""
        return self.report is not None and self.report.fence == fence

    def serves(self, spec: ThingSpec) -> bool:
        """Whether it may hold things of that tenant and kind."""
        holds_kind = self.report is not None and spec.kind in self.report.kinds
        return holds_kind and self.tenant in (spec.tenant, _CREW_TENANT)

    def hears_less_than(self, most: int, most_bytes: int) -> bool:
        """Whether fewer commands, and smaller ones, are on their way to it."""
        return len(self.said) < most and self.said_bytes < most_bytes

    def sent(self, held_id: HeldId, said: Said) -> None:
        self.said[held_id] = said
        self.said_bytes += said.size_bytes

    def answered(self, held_id: HeldId) -> None:
        """It has spoken about it: so it has heard all that was said before, too."""
        while held_id in self.said:
            self.unsaid(next(iter(self.said)))

    def unsaid(self, held_id: HeldId) -> None:
        """It has had time to hear it, or it does not matter any more."""
        said = self.said.pop(held_id, None)
        if said is not None:
            self.said_bytes -= said.size_bytes

    def may_have(self, held_id: HeldId) -> bool:
        return held_id in self.holdings or held_id in self.asked

    def has_other(self, held_id: HeldId) -> bool:
        """Another generation of the same thing."""
        return any(other != held_id for other in self.of_thing.get(held_id.thing_id, ()))

    def is_too_much(self, report: Report, mentioned: Collection[HeldId]) -> bool:
        """Whether it would have more with that than a worker can have."""
        known = sum(held_id in self.holdings for held_id in mentioned)
        return len(self.holdings) - known + len(report.holdings) > MAX_HOLDINGS

    def begin_trials(self, size_of: Callable[[HeldId], int], *, is_urgent: bool) -> bool:
        """Lets begin what is in line, as far as it may now; whether anything did. The first waits until nothing else is
        on its way, unless that takes too long."""
        before = len(self.in_line)
        while self.in_line and (is_urgent or self.on_trial or not (self.asked or self.moving)):
            held_id = next(iter(self.in_line))
            size = min(size_of(held_id), self.trial_size) if self.on_trial else size_of(held_id)
            if len(self.on_trial) >= size:
                break
            del self.in_line[held_id]
            self.on_trial[held_id], self.trial_size = None, size
            self.waiting[held_id] = None
        return len(self.in_line) < before

    def candidates_at(self, now: float, steady_s: float) -> Candidates | None:
        """What may have ended its process, if it has ended now. One that drains ends by itself."""
        if self.report is None or not self.report.takes_more:
            return None
        on_the_way = dict.fromkeys(held_id.thing_id for held_id in (*self.asked, *self.moving, *self.said))
        if on_the_way:
            return Candidates(tuple(on_the_way))
        fresh = (held_id for held_id, steadiness in self.steadiness.items() if now - steadiness.since < steady_s)
        return Candidates(tuple(held_id.thing_id for held_id in fresh if self.holds(held_id)), were_held=True)

    def holds(self, held_id: HeldId) -> bool:
        holding = self.holdings.get(held_id)
        return holding is not None and holding.state is HoldingState.HELD

    def put(self, holding: Holding) -> None:
        self.holdings[holding.held_id] = holding
        self.moving.pop(holding.held_id, None)
        if holding.state in (HoldingState.ACQUIRING, HoldingState.RELEASING):
            self.moving[holding.held_id] = None
        self.of_thing.setdefault(holding.held_id.thing_id, {})[holding.held_id] = None
        self.asked.pop(holding.held_id, None)

    def take(self, held_id: HeldId) -> None:
        self.asked.pop(held_id, None)
        self.moving.pop(held_id, None)
        if self.holdings.pop(held_id, None) is not None:
            generations = self.of_thing[held_id.thing_id]
            del generations[held_id]
            if not generations:
                del self.of_thing[held_id.thing_id]

    def forget_session(self) -> None:
        self.session_id, self.report = None, None
        self.holdings.clear()
        self.of_thing.clear()
        self.moving.clear()
        self.asked.clear()
        self.told.clear()
        self.said.clear()
        self.said_bytes = 0
        self.waiting.clear()
        self.steadiness.clear()


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
        """A worker has a session; its older one is closed, and was not of a newer process of it."""
        worker = self.known(worker_id)
        worker.session_id, worker.incarnation, worker.tenant = session_id, incarnation, tenant
        self._by_session[session_id] = worker

    def close(self, worker: Worker) -> None:
        """Its session is over."""
        assert worker.session_id is not None
        self._leave_lanes(worker)
        del self._by_session[worker.session_id]
        worker.forget_session()

    def take_report(self, worker: Worker, report: Report) -> list[HeldId] | None:
        """The things it is about; None when a report before it is missing, or it adds up to more than a worker can
        have, and all of it is to be said again."""
        mentioned = dict.fromkeys((*(holding.held_id for holding in report.holdings), *report.gone))
        if report.since is None:
            mentioned |= dict.fromkeys(worker.holdings)
            for held_id in list(worker.holdings):
                worker.take(held_id)
            kinds = report.kinds
        elif worker.report is None or worker.report.number != report.since or worker.is_too_much(report, mentioned):
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
