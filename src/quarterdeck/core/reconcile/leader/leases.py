"""The leases: how long things wait for a worker that is away, and when its record is forgotten.

It owns the timers of leases, and whether one is over. It knows neither commands nor proposals: what follows from a
lease that is over is found when its things are looked at.
"""

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.desk import LeaderDesk
from quarterdeck.core.reconcile.leader.timers import LeaseTimer
from quarterdeck.core.reconcile.leader.workers import Worker, Workers


class Leases:
    """Call `begin` when a worker goes, `end` when it has said what it holds, and `run_out` when its timer fires."""

    def __init__(self, desk: LeaderDesk, declared: Declared, workers: Workers) -> None:
        self._desk = desk
        self._declared = declared
        self._workers = workers

    def worker(self, worker_id: WorkerId) -> Worker:
        """Its record. One that has to come first has as long as workers have to find a new leader."""
        worker = self._workers.known(worker_id)
        if worker.report is None and not worker.lease_over and LeaseTimer(worker_id) not in self._desk.deadlines:
            self.adopt(worker)
        return worker

    def adopt(self, worker: Worker) -> None:
        """Gives one that is away the time to find a new leader."""
        if worker.report is None:
            worker.lease_over = False
            self._desk.deadlines.set(LeaseTimer(worker.worker_id), self._desk.now + self._desk.config.adopt_s)

    def begin(self, worker: Worker) -> None:
        """It goes. One that never said what it holds has no longer than it had."""
        timer = LeaseTimer(worker.worker_id)
        if worker.report is not None or timer not in self._desk.deadlines:
            self._desk.deadlines.set(timer, self._desk.now + self._desk.config.lease_s)

    def end(self, worker: Worker) -> None:
        """It is back."""
        worker.lease_over = False
        self._desk.deadlines.cancel(LeaseTimer(worker.worker_id))

    def run_out(self, worker: Worker) -> None:
        """Others may take what it holds."""
        worker.lease_over = True
        for thing in self._declared.at(worker.worker_id):
            self._desk.dirty[thing.spec.thing_id] = None
        self.forget_if_nothing(worker)

    def forget_if_nothing(self, worker: Worker) -> None:
        """One that is away, and that nothing waits for."""
        if worker.session_id is None and worker.lease_over and not self._declared.has_at(worker.worker_id):
            self._workers.forget(worker)
