"""The commands: what each worker is told to hold and to drop, until it is so.

It compares what is committed with what a worker reports, one thing at a time. It owns what the worker is told: what was
said, what waits for room and what is said again. It commands only workers that obey our fence. It proposes nothing, and
does not judge what ended a worker: what is on probation is told when the trials let it.
"""

from quarterdeck.core.reconcile.changes import is_wanted
from quarterdeck.core.reconcile.leader.deaths import Deaths
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.desk import LeaderDesk
from quarterdeck.core.reconcile.leader.effects import ReportRetry
from quarterdeck.core.reconcile.leader.timers import CommandTimer
from quarterdeck.core.reconcile.leader.trials import Trials
from quarterdeck.core.reconcile.leader.workers import Said, Steadiness, Told, Worker
from quarterdeck.core.reconcile.messages import DropThing, HoldThing
from quarterdeck.core.reconcile.model import HeldId, Holding, Thing
from quarterdeck.core.reconcile.tables import HoldingState, ThingState


class Commands:
    """Call `settle` when a thing is committed anew, `look` when its worker has spoken about it, and `go_on` when that
    has made room."""

    def __init__(self, desk: LeaderDesk, declared: Declared, deaths: Deaths, trials: Trials) -> None:
        self._desk = desk
        self._declared = declared
        self._deaths = deaths
        self._trials = trials

    # What is to be done

    def look_at_all(self, worker: Worker) -> None:
        """At everything that it holds or should hold."""
        for held_id in list(worker.holdings):
            self.look(worker, held_id)
        for thing in list(self._declared.at(worker.worker_id)):
            self.look(worker, thing.held_id)

    def look(self, worker: Worker, held_id: HeldId) -> None:
        self.settle(worker, held_id)
        thing = self._declared.get(held_id.thing_id)
        if thing is not None and thing.worker_id == worker.worker_id:
            self._desk.dirty[held_id.thing_id] = None
            if thing.held_id != held_id:
                self.settle(worker, thing.held_id)

    def settle(self, worker: Worker, held_id: HeldId) -> None:
        """Tells the worker what to do about it, if anything."""
        if not (self._desk.leads and self._desk.knows and worker.obeys(self._desk.leading)):
            return
        thing = self._declared.get(held_id.thing_id)
        is_its = thing is not None and (thing.worker_id, thing.held_id) == (worker.worker_id, held_id)
        holding = worker.holdings.get(held_id)
        if thing is not None and is_its and is_wanted(thing):
            self._settle_wanted(worker, thing, holding)
            return
        worker.steadiness.pop(held_id, None)
        self._trials.abandon(worker, held_id)
        if holding is not None and holding.state is HoldingState.RELEASING:
            self._wait(worker, held_id)
        elif worker.may_have(held_id):
            self._tell(worker, held_id, hold=False)
        else:
            self._done(worker, held_id)

    # Saying it

    def tell_again(self, worker: Worker, held_id: HeldId) -> None:
        if self._trials.let_in(worker, held_id):
            self.go_on(worker)
            return
        told = worker.told[held_id]
        told.times += 1
        command = "hold" if told.hold else "drop"
        self._desk.do(ReportRetry(worker.worker_id, held_id, command, told.times))
        said = worker.said.get(held_id)
        if said is not None and self._desk.now - said.at < self._desk.config.hear_s:
            self._send_command(worker, held_id, told)
        else:
            self._say(worker, held_id)

    def go_on(self, worker: Worker) -> None:
        """Says what waits, as far as there is room."""
        self._trials.begin(worker)
        while worker.waiting and worker.hears_less_than(self._desk.config.max_said, self._desk.config.max_said_bytes):
            held_id = next(iter(worker.waiting))
            del worker.waiting[held_id]
            size_bytes = self._send_command(worker, held_id, worker.told[held_id])
            worker.sent(held_id, Said(self._desk.now, size_bytes))

    def stop_telling(self, worker: Worker) -> None:
        """All that was told is forgotten, and found anew if it is still to be done."""
        self._trials.stop(worker)
        for held_id in worker.told:
            self._hush(worker, held_id)
        worker.told.clear()
        worker.steadiness.clear()

    # Inside

    def _settle_wanted(self, worker: Worker, thing: Thing, holding: Holding | None) -> None:
        held_id = thing.held_id
        state = None if holding is None else holding.state
        if state is not HoldingState.HELD:
            self._trials.interrupt(held_id.thing_id)
        match state:
            case HoldingState.HELD:
                if held_id in worker.told:
                    worker.steadiness.setdefault(held_id, Steadiness(self._desk.now)).since = self._desk.now
                self._trials.withstands(worker, held_id)
                self._done(worker, held_id)
            case HoldingState.ACQUIRING | HoldingState.RELEASING:
                self._wait(worker, held_id)
            case _:
                if holding is not None:
                    self._trials.end(worker, held_id)
                # That it is missing is committed before it is asked for again; another generation goes first.
                is_hopeless = holding is not None and holding.error is not None and not holding.error.retryable
                # Who serves another tenant now is not told what this one wants, if others may hold it.
                is_foreign = thing.spec.pinned_to is None and not worker.serves(thing.spec)
                is_given_up = self._deaths.verdict(held_id.thing_id) is not None
                is_missed = thing.state is ThingState.HELD
                if is_missed or worker.has_other(held_id) or is_hopeless or is_foreign or is_given_up:
                    self._trials.abandon(worker, held_id)
                    self._done(worker, held_id)
                else:
                    self._tell(worker, held_id, hold=True)

    def _tell(self, worker: Worker, held_id: HeldId, *, hold: bool) -> None:
        told = worker.told.get(held_id)
        timer = CommandTimer(worker.worker_id, held_id)
        if told is None or told.hold is not hold:
            breaks = self._breaks(worker, held_id) if hold else 0
            worker.told[held_id] = told = Told(hold, times=max(1, breaks))
            self._trials.leave_line(worker, held_id)
            if hold and self._deaths.probation(held_id.thing_id) is not None:
                if self._trials.enter(worker, held_id):
                    self.go_on(worker)
            elif breaks > 1:
                self._desk.deadlines.set(timer, self._desk.again_at(breaks - 1))
            else:
                self._say(worker, held_id)
        elif timer not in self._desk.deadlines and held_id not in worker.waiting and held_id not in worker.in_line:
            # it had begun, and failed
            self._desk.deadlines.set(timer, self._desk.again_at(told.times))

    def _breaks(self, worker: Worker, held_id: HeldId) -> int:
        """How often in a row it broke soon after the worker had it."""
        steadiness = worker.steadiness.get(held_id)
        if steadiness is None:
            return 0
        is_soon = self._desk.now - steadiness.since < self._desk.config.steady_s
        steadiness.breaks = steadiness.breaks + 1 if is_soon else 0
        return steadiness.breaks

    def _say(self, worker: Worker, held_id: HeldId) -> None:
        """Now, or when the worker has heard what it was told before."""
        worker.unsaid(held_id)
        worker.waiting.setdefault(held_id)
        self._desk.deadlines.cancel(CommandTimer(worker.worker_id, held_id))
        self.go_on(worker)

    def _send_command(self, worker: Worker, held_id: HeldId, told: Told) -> int:
        """How long its payload is."""
        self._desk.deadlines.set(CommandTimer(worker.worker_id, held_id), self._desk.again_at(told.times))
        if not told.hold:
            self._desk.send(worker, DropThing(self._desk.leading, held_id))
            return 0
        thing = self._declared.get(held_id.thing_id)
        assert thing is not None
        worker.asked[held_id] = None
        self._desk.send(worker, HoldThing(self._desk.leading, held_id, thing.spec))
        return len(thing.spec.payload)

    def _wait(self, worker: Worker, held_id: HeldId) -> None:
        """It is on its way: nothing is said again, and how often it was said is not forgotten."""
        self._hush(worker, held_id)
        self.go_on(worker)

    def _done(self, worker: Worker, held_id: HeldId) -> None:
        worker.told.pop(held_id, None)
        self._hush(worker, held_id)
        self.go_on(worker)

    def _hush(self, worker: Worker, held_id: HeldId) -> None:
        worker.unsaid(held_id)
        worker.waiting.pop(held_id, None)
        self._trials.leave_line(worker, held_id)
        self._desk.deadlines.cancel(CommandTimer(worker.worker_id, held_id))
