"""The trials: whose fault it is that a worker died, and by which turns it is told what may have been the cause.

It finds the candidates for each death, brings the deaths up to date, and owns what is in line, kept away and on trial.
It says nothing to a worker: what may be told now waits in the worker's record, and who called it goes on from there.
"""

from typing import Final

from quarterdeck.core.ids import Incarnation
from quarterdeck.core.reconcile.changes import is_wanted
from quarterdeck.core.reconcile.leader.deaths import Deaths, Life
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.desk import LeaderDesk
from quarterdeck.core.reconcile.leader.leases import Leases
from quarterdeck.core.reconcile.leader.timers import CommandTimer, SteadyTimer, TrialTimer
from quarterdeck.core.reconcile.leader.workers import Worker, Workers
from quarterdeck.core.reconcile.model import HeldId, Thing, ThingId

_TRIAL: Final = 2
"""So many times `steady_s` may one trial, or the wait for it, hold up those in line: as long as it takes to be held and
then to be held for long."""


class Trials:
    """Tell it who died and who lives, `enter` what is on probation, and `begin` what is in line when there is room."""

    def __init__(self, desk: LeaderDesk, declared: Declared, leases: Leases, deaths: Deaths) -> None:
        self._desk = desk
        self._declared = declared
        self._leases = leases
        self._deaths = deaths

    # Deaths

    def went(self, worker: Worker) -> None:
        """Its session ends, and maybe because its process has: notes what may have done it."""
        if not (self._desk.leads and self._desk.knows):
            worker.candidates = None
        elif worker.report is not None:
            worker.candidates = worker.candidates_at(self._desk.now, self._desk.config.steady_s)

    def stays_away(self, worker: Worker) -> None:
        """For so long that its process is believed to be gone."""
        if worker.session_id is None and worker.candidates is not None and worker.candidates.things:
            self.died(worker, worker.incarnation)

    def died(self, worker: Worker, incarnation: Incarnation) -> None:
        """A process of it is gone, or is believed to be."""
        candidates, worker.candidates = worker.candidates, None
        if candidates is None:
            return
        if not candidates.things:  # it dies without them, too
            for thing in self._declared.at(worker.worker_id):
                if self._deaths.has_deaths(thing.spec.thing_id):
                    self.acquit(thing.spec.thing_id)
            return
        there = [thing for thing in map(self._declared.get, candidates.things) if thing is not None]
        wanted = [thing.spec.thing_id for thing in there if is_wanted(thing)]
        self._deaths.died(Life(worker.worker_id, incarnation), candidates, wanted)
        for thing_id in wanted:
            self._desk.dirty[thing_id] = None
        if wanted and len(candidates.things) == 1:
            self._desk.counters["deaths_counted"] += 1

    def lives(self, worker: Worker) -> Thing | None:
        """This process of it is there, whatever was believed. The answer is a thing that may be told again."""
        thing_id = self._deaths.take_back(Life(worker.worker_id, worker.incarnation))
        thing = None if thing_id is None else self._declared.get(thing_id)
        if thing is not None:
            self._desk.dirty[thing.spec.thing_id] = None
        return thing

    def acquit(self, thing_id: ThingId) -> None:
        """It has not ended any worker, or nobody wants it any more."""
        self._deaths.forget(thing_id)
        self._desk.deadlines.cancel(SteadyTimer(thing_id))

    def clear(self, workers: Workers) -> None:
        """Somebody else leads: who leads next counts anew."""
        for worker in workers:
            worker.candidates = None
        for thing_id in self._deaths:
            self._desk.deadlines.cancel(SteadyTimer(thing_id))
        self._deaths.clear()

    # Turns

    def enter(self, worker: Worker, held_id: HeldId) -> bool:
        """To hold it may end the worker: it is told by turns. Whether it is in line, and not kept away first."""
        life = Life(worker.worker_id, worker.incarnation)
        since = self._deaths.kept_away_since(held_id.thing_id, life, self._desk.now)
        if since is None:
            self._line_up(worker, held_id)
            return True
        worker.kept_away[held_id] = None
        self._desk.deadlines.set(CommandTimer(worker.worker_id, held_id), since + self._desk.config.steady_s)
        return False

    def let_in(self, worker: Worker, held_id: HeldId) -> bool:
        """The worker has lived without it, if it was kept away, and it is in line now; whether it was."""
        if held_id not in worker.kept_away:
            return False
        del worker.kept_away[held_id]
        self._line_up(worker, held_id)
        return True

    def leave_line(self, worker: Worker, held_id: HeldId) -> None:
        worker.in_line.pop(held_id, None)
        worker.kept_away.pop(held_id, None)

    def abandon(self, worker: Worker, held_id: HeldId) -> None:
        """Its trial is over, and says nothing."""
        worker.on_trial.pop(held_id, None)

    def begin(self, worker: Worker, *, is_urgent: bool = False) -> None:
        """What is in line may be told, as far as its turn has come."""
        if worker.begin_trials(self._trial_size, is_urgent=is_urgent):
            self._be_patient(worker)

    def withstands(self, worker: Worker, held_id: HeldId) -> None:
        """The worker holds it, and lives."""
        thing_id = held_id.thing_id
        if thing_id not in self._deaths:
            return
        probation, timer = self._deaths.probation(thing_id), SteadyTimer(thing_id)
        if timer not in self._desk.deadlines:
            self._desk.deadlines.set(timer, self._desk.now + self._desk.config.steady_s)
        if probation is None or not probation.until_steady:
            self.end(worker, held_id)

    def end(self, worker: Worker, held_id: HeldId) -> None:
        """It has not ended the worker."""
        if held_id in worker.on_trial:
            del worker.on_trial[held_id]
            self._deaths.passed(held_id.thing_id)

    def interrupt(self, thing_id: ThingId) -> None:
        """It is not held, and so not for long."""
        self._desk.deadlines.cancel(SteadyTimer(thing_id))

    def stop(self, worker: Worker) -> None:
        """Nothing is told to it any more."""
        self._desk.deadlines.cancel(TrialTimer(worker.worker_id))
        worker.on_trial.clear()

    # Time

    def took_long(self, worker: Worker) -> bool:
        """Those in line do not wait any longer; whether there are any."""
        if not worker.in_line:
            return False
        worker.on_trial.clear()
        self.begin(worker, is_urgent=True)
        return True

    def held_for_long(self, thing_id: ThingId) -> Worker | None:
        """The worker that holds it, and may be told of the next one; None if none holds it."""
        thing = self._declared.get(thing_id)
        assert thing is not None  # with a thing its timer goes
        assert thing.worker_id is not None
        worker = self._leases.worker(thing.worker_id)
        if not worker.holds(thing.held_id):
            return None
        self.acquit(thing_id)
        self.abandon(worker, thing.held_id)
        return worker

    # Inside

    def _line_up(self, worker: Worker, held_id: HeldId) -> None:
        worker.in_line[held_id] = None
        if TrialTimer(worker.worker_id) not in self._desk.deadlines:
            self._be_patient(worker)

    def _be_patient(self, worker: Worker) -> None:
        self._desk.deadlines.set(TrialTimer(worker.worker_id), self._desk.now + _TRIAL * self._desk.config.steady_s)

    def _trial_size(self, held_id: HeldId) -> int:
        return self._deaths.at_once(held_id.thing_id)
