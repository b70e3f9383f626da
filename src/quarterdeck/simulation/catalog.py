"""The leader's durable catalog, which outlives it: which durable works there are, and where each was left."""

from dataclasses import dataclass, replace

from quarterdeck.core.ids import LeafId, QueryId, WorkerId, WorkId
from quarterdeck.core.workcoord import policies
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.tables import WorkState
from quarterdeck.core.workcoord.messages import AssignWork
from quarterdeck.core.workcoord.model import WorkKey, WorkKind, WorkSpec
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.simulation.scenario import Scenario

_LEASE_S = 3.0
"""Shorter than the trouble lasts, so that leases end."""
DURABLE_QUERY = QueryId("durable")


@dataclass(slots=True)
class Row:
    spec: WorkSpec
    number: int = 0
    worker_id: WorkerId | None = None


class Catalog:
    def __init__(self, scenario: Scenario) -> None:
        self.rows: dict[WorkKey, Row] = {}
        for number in range(scenario.fragments):
            worker = WorkerId(scenario.worker_hosts[number % scenario.workers])
            self._add(f"fragment{number}", WorkKind.FRAGMENT, pinned_to=worker)
        for number in range(scenario.epoch_replicas):
            self._add(f"epoch{number}", WorkKind.EPOCH, group="epoch")
        self.endless = {key for key in self.rows if key.work_id != "fragment1"}
        """Works that do not end by themselves; the second fragment does."""

    def _add(self, name: str, kind: WorkKind, *, pinned_to: WorkerId | None = None, group: str | None = None) -> None:
        key = WorkKey(DURABLE_QUERY, LeafId("-"), WorkId(name))
        policy = policies.POLICY_OF_KIND[kind]
        if policy.lease_s is not None:
            policy = replace(policy, lease_s=_LEASE_S)
        self.rows[key] = Row(WorkSpec(key, kind, policy, affinity_key=name, pinned_to=pinned_to, group=group))

    def restore(self, driver: CoordinatorDriver[WorkKey]) -> None:
        """A new leader takes everything up before it listens."""
        if self.rows:
            driver.open_query(DURABLE_QUERY, None)
        for row in self.rows.values():
            driver.apply(ev.WorkRestored(row.spec, row.worker_id, row.number))

    def drop_one(self) -> WorkKey | None:
        """The owner no longer wants one of them. It is gone from here first: a new leader does not take it up."""
        key = next(iter(self.rows), None)
        if key is not None:
            del self.rows[key]
        return key

    def refuse(self, effects: list[ef.Effect]) -> None:
        """A leader that was replaced cannot write here; so what it would send after writing is not sent."""
        effects[:] = [effect for effect in effects if not _assigns_durable(effect)]

    def note(self, effects: list[ef.Effect]) -> None:
        """Written down before anything else is done with the step: its effects have not been executed yet."""
        for effect in effects:
            if isinstance(effect, ef.ReportDurable) and effect.attempt.key in self.rows:
                row = self.rows[effect.attempt.key]
                if effect.state is WorkState.DONE:
                    del self.rows[effect.attempt.key]
                row.number = effect.attempt.number
                row.worker_id = None if effect.state is WorkState.PENDING else effect.worker_id


def _assigns_durable(effect: ef.Effect) -> bool:
    match effect:
        case ef.SendToWorker(_, AssignWork(spec)):
            return spec.key.query_id == DURABLE_QUERY
        case _:
            return False
