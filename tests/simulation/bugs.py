"""Bugs put in on purpose: each changes a method of a machine or driver as a mistake would. They must be found."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from quarterdeck.core.deadlines import Deadlines
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.workcoord.coordinator.blame import Losses, Suspects
from quarterdeck.core.workcoord.coordinator.desk import Desk
from quarterdeck.core.workcoord.coordinator.dispatch import Dispatcher
from quarterdeck.core.workcoord.coordinator.effects import DeliverEnd, DeliverResult
from quarterdeck.core.workcoord.coordinator.ledger import Ledger
from quarterdeck.core.workcoord.coordinator.roster import Roster
from quarterdeck.core.workcoord.coordinator.tables import WorkerState, WorkState, WorkTrigger
from quarterdeck.core.workcoord.coordinator.timers import WaitTimer
from quarterdeck.core.workcoord.load import Load
from quarterdeck.core.workcoord.messages import CancelQuery, RecallWork, WorkEnded, WorkReturned
from quarterdeck.core.workcoord.model import WorkError
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.core.workcoord.worker import events as wev
from quarterdeck.core.workcoord.worker.places import Places
from quarterdeck.core.workcoord.worker.tables import AttemptState
from quarterdeck.core.workcoord.worker.timers import ArtifactTimer
from quarterdeck.crew.worker import WorkerDriver
from quarterdeck.simulation.faults import FAULTS

Method = Callable[..., Any]


@contextmanager
def _changed(owner: type, name: str, change: Callable[[Method], Method]) -> Generator[None]:
    """Replaces a method by what `change` makes of it."""
    with patch.object(owner, name, change(getattr(owner, name))):
        yield


def ready_is_the_end() -> AbstractContextManager[None]:
    """A work that is ready counts as done, whatever becomes of its worker or of the fetch."""

    def change(retry: Method) -> Method:
        def changed(ledger: Any, attempt: Any, trigger: WorkTrigger, error: Any) -> None:
            work = attempt.work
            if work.state is not WorkState.READY:
                retry(ledger, attempt, trigger, error)
                return
            work.state = WorkState.DONE
            ledger._cancel_fetches(work)
            if work.current is attempt:
                ledger._unbind(attempt)
            work.query.unfinished -= 1
            ledger._end_if_finished(work.query)

        return changed

    return _changed(Ledger, "_retry", change)


def a_work_that_leaves_nothing_is_done_with_its_worker() -> AbstractContextManager[None]:
    """The coordinator takes the loss of a worker for the end of a work that leaves nothing anyway."""

    def change(retry: Method) -> Method:
        def changed(ledger: Any, attempt: Any, trigger: WorkTrigger, error: Any) -> None:
            work = attempt.work
            if not (work.spec.leaves_nothing and trigger is WorkTrigger.LOSE and work.state is WorkState.ACCEPTED):
                retry(ledger, attempt, trigger, error)
                return
            work.state = WorkState.DONE
            ledger._unbind(attempt)
            ledger._desk.do(DeliverEnd(attempt.attempt_id, attempt.worker_id))
            ledger._finished(work)

        return changed

    return _changed(Ledger, "_retry", change)


def a_failure_that_leaves_nothing_is_told_as_an_end() -> AbstractContextManager[None]:
    """The worker looks at what is left, and not at how it came to that."""

    def change(leave: Method) -> Method:
        def changed(machine: Any, attempt: Any, trigger: Any, end: Any) -> None:
            if attempt.spec.leaves_nothing:
                end = WorkEnded(attempt.attempt_id)
            leave(machine, attempt, trigger, end)

        return changed

    return _changed(WorkerMachine, "_leave", change)


def an_ended_work_keeps_its_credit() -> AbstractContextManager[None]:
    """The coordinator waits for somebody to acknowledge what is never fetched."""

    def change(_: Method) -> Method:
        def changed(ledger: Any, session: Any, attempt_id: Any, trigger: Any) -> Any:
            return ledger._heard(session, attempt_id, trigger)

        return changed

    return _changed(Ledger, "_heard_end", change)


def credit_is_kept() -> AbstractContextManager[None]:
    """The credit of an attempt that was canceled never comes back."""

    def change(_: Method) -> Method:
        def changed(ledger: Any, session: Any, attempt_id: Any) -> None:
            session.closing.pop(attempt_id)

        return changed

    return _changed(Ledger, "_forget_closing", change)


@contextmanager
def a_second_result_is_delivered() -> Generator[None]:
    """Once a work is done, fetches of its other attempts go on, and what they bring is delivered too."""

    def keep_fetches(cancel_fetches: Method) -> Method:
        def changed(ledger: Any, work: Any) -> None:
            if work.state is not WorkState.DONE:
                cancel_fetches(ledger, work)

        return changed

    def is_of_a_done_work(ledger: Any, attempt_id: Any) -> bool:
        query = ledger.query(attempt_id.key.query_id)
        return query is not None and attempt_id.key in query.finished and query.fetches.pop(attempt_id, 0) is None

    def deliver_again(fetch_succeeded: Method) -> Method:
        def changed(ledger: Any, attempt_id: Any) -> None:
            if is_of_a_done_work(ledger, attempt_id):
                ledger._desk.do(DeliverResult(attempt_id))
            else:
                fetch_succeeded(ledger, attempt_id)

        return changed

    def ignore(fetch_failed: Method) -> Method:
        def changed(ledger: Any, attempt_id: Any, error: Any) -> None:
            if not is_of_a_done_work(ledger, attempt_id):
                fetch_failed(ledger, attempt_id, error)

        return changed

    with (
        _changed(Ledger, "_cancel_fetches", keep_fetches),
        _changed(Ledger, "fetch_succeeded", deliver_again),
        _changed(Ledger, "fetch_failed", ignore),
    ):
        yield


def orphans_run_on() -> AbstractContextManager[None]:
    """What runs for a session that is lost is not stopped."""

    def change(orphan: Method) -> Method:
        def changed(machine: Any, attempt: Any) -> None:
            if attempt.state is not AttemptState.RUNNING:
                orphan(machine, attempt)

        return changed

    return _changed(WorkerMachine, "_orphan", change)


@contextmanager
def a_draining_worker_keeps_its_line() -> Generator[None]:
    """What waits for a slot when a worker is told to drain is neither handed back nor run."""

    def hide_line(drain: Method) -> Method:
        def changed(machine: Any) -> None:
            places, machine._places = machine._places, Places(machine.config.info.slots)
            drain(machine)
            machine._places = places

        return changed

    def start_nothing(start_next: Method) -> Method:
        def changed(machine: Any) -> None:
            if not machine.status.draining:
                start_next(machine)

        return changed

    with _changed(WorkerMachine, "_drain", hide_line), _changed(WorkerMachine, "_start_next", start_nothing):
        yield


def _never_canceled(timer: type) -> AbstractContextManager[None]:
    def change(cancel: Method) -> Method:
        def changed(deadlines: Any, key: object) -> None:
            if not isinstance(key, timer):
                cancel(deadlines, key)

        return changed

    return _changed(Deadlines, "cancel", change)


def artifact_timer_stays() -> AbstractContextManager[None]:
    """The timer of an artifact that is gone is not canceled."""
    return _never_canceled(ArtifactTimer)


def wait_timer_stays() -> AbstractContextManager[None]:
    """The wait for a worker goes on when there is one; it ends a query that has one, or finds one that has ended."""

    def change(join: Method) -> Method:
        def changed(dispatcher: Any, session: Any) -> None:
            with _never_canceled(WaitTimer):
                join(dispatcher, session)

        return changed

    return _changed(Dispatcher, "join", change)


def a_lost_worker_stays_in_rotation() -> AbstractContextManager[None]:
    """A worker whose session is lost may still be given work."""

    def change(leave: Method) -> Method:
        def changed(dispatcher: Any, session: Any) -> None:
            if session.state is not WorkerState.ABSENT:
                leave(dispatcher, session)

        return changed

    return _changed(Dispatcher, "leave", change)


def results_are_not_acknowledged() -> AbstractContextManager[None]:
    """The worker is never told that its artifact has arrived."""

    def change(_: Method) -> Method:
        def changed(ledger: Any, attempt: Any) -> None:
            pass

        return changed

    return _changed(Ledger, "_acknowledge", change)


def registers_too_early() -> AbstractContextManager[None]:
    """The worker's driver does not wait until what an old session owned has stopped."""

    def change(apply: Method) -> Method:
        def changed(driver: Any, event: wev.Event) -> None:
            apply(driver, event)
            if isinstance(event, wev.SessionLost):
                driver._cleared(event.session_id)

        return changed

    return _changed(WorkerDriver, "apply", change)


def a_rejecting_worker_stays_in_rotation() -> AbstractContextManager[None]:
    """A worker that accepts nothing goes on being given work, which goes to and fro."""

    def change(apply_status: Method) -> Method:
        def changed(roster: Any, session: Any, status: Any) -> None:
            if status.accepting_work or status.draining:
                apply_status(roster, session, status)

        return changed

    return _changed(Roster, "_apply_status", change)


def a_canceled_query_is_not_told() -> AbstractContextManager[None]:
    """The end of a query does not reach the workers that have a part of it."""

    def change(send: Method) -> Method:
        def changed(desk: Any, session: Any, message: Any) -> None:
            if not isinstance(message, CancelQuery):
                send(desk, session, message)

        return changed

    return _changed(Desk, "send", change)


def a_recalled_work_runs_on() -> AbstractContextManager[None]:
    """A worker hands back what it was asked for although it has begun it, and goes on with it."""

    def change(recalled: Method) -> Method:
        def changed(machine: Any, session: Any, attempt_id: Any) -> None:
            attempt = session.attempts.get(attempt_id)
            if attempt is not None and attempt.state is AttemptState.RUNNING:
                machine._send(session, WorkReturned(attempt_id))
            else:
                recalled(machine, session, attempt_id)

        return changed

    return _changed(WorkerMachine, "_recalled", change)


def a_recalled_work_is_given_away_before_it_is_handed_back() -> AbstractContextManager[None]:
    """The coordinator takes its own word for the end of an attempt that it has recalled."""

    def change(send: Method) -> Method:
        def changed(desk: Any, session: Any, message: Any) -> None:
            send(desk, session, message)
            if isinstance(message, RecallWork):
                del session.attempts[message.attempt]

        return changed

    return _changed(Desk, "send", change)


def a_kind_takes_the_last_place() -> AbstractContextManager[None]:
    """A worker runs as many as it has slots, of whichever kind."""

    def change(_: Method) -> Method:
        def changed(load: Any, kind: Any, limit: int) -> bool:
            return load.total < limit

        return changed

    return _changed(Load, "has_room", change)


def suspects_are_put_together() -> AbstractContextManager[None]:
    """A suspect goes to any worker with credit, also where another one is."""

    def change(_: Method) -> Method:
        def changed(dispatcher: Any, session: Any, lane: Any) -> bool:
            return session.has_credit(lane.kind)

        return changed

    return _changed(Dispatcher, "_is_quiet", change)


def nobody_pays_for_a_lost_worker() -> AbstractContextManager[None]:
    """The loss of a worker is nobody's fault, whatever it ran."""

    def change(_: Method) -> Method:
        def changed(ledger: Any, attempt: Any, *_: Any, **__: Any) -> None:
            return None

        return changed

    return _both(
        _changed(Ledger, "_suspect", change),
        _changed(Suspects, "has_to_pay", lambda _: _never),
    )


def a_work_is_quarantined_at_the_first_death() -> AbstractContextManager[None]:
    """Whoever was with a worker that is lost is not tried again, whether it ran there or not."""

    def condemn(work: Any, error: Any) -> WorkError:
        return WorkError(ErrorCode.QUARANTINED, error.message, retryable=False)

    return _both(patch("quarterdeck.core.workcoord.coordinator.ledger.quarantined", condemn))


def a_work_is_quarantined_at_the_second_death() -> AbstractContextManager[None]:
    """Two workers that ran a work are enough, whatever ended them."""
    return _both(
        patch("quarterdeck.core.workcoord.coordinator.blame._QUARANTINED_AFTER", 2),
        _changed(Losses, "were_without", lambda _: _never),
    )


def an_acquitted_query_is_not_resumed() -> AbstractContextManager[None]:
    """The works of a query that waited for an accused one are not looked at again when that is acquitted."""
    return _changed(Dispatcher, "resume", lambda _: _never)


def _never(*_: object) -> bool:
    return False


@contextmanager
def _both(*changes: AbstractContextManager[Any]) -> Generator[None]:
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


@dataclass(frozen=True, slots=True)
class Bug:
    make: Callable[[], AbstractContextManager[None]]
    words: tuple[str, ...]
    """What the message about it may contain: one of these."""
    setting: Callable[[], AbstractContextManager[None]] = nullcontext
    """What the bug needs to show soon; without the bug it does no harm."""
    kinds: tuple[str, ...] = tuple(FAULTS)
    """The faults to look with; fewer only to save time."""
    first: int = 0
    """The seed to begin with, only to save time: at or before the first that shows it."""

    @property
    def name(self) -> str:
        return self.make.__name__


BUGS = (
    Bug(ready_is_the_end, ("succeeded without",)),
    Bug(a_work_that_leaves_nothing_is_done_with_its_worker, ("and it was not done",)),
    Bug(a_failure_that_leaves_nothing_is_told_as_an_end, ("and it was not done",)),
    Bug(an_ended_work_keeps_its_credit, ("still has", "counts", "accused of breaking", "on a session or not")),
    Bug(credit_is_kept, ("counts",)),
    Bug(a_second_result_is_delivered, ("delivered twice",), first=250),
    Bug(orphans_run_on, ("for a session that is gone",)),
    Bug(a_draining_worker_keeps_its_line, ("drains and keeps",), first=40),
    Bug(artifact_timer_stays, ("KeyError(AttemptId",)),
    Bug(wait_timer_stays, ("failed for want of a worker", "KeyError('q"), kinds=("not-accepting",)),
    Bug(a_lost_worker_stays_in_rotation, ("which take none", "already there", "a session that is gone")),
    Bug(results_are_not_acknowledged, ("accused of breaking the protocol", "still has")),
    Bug(registers_too_early, ("still runs",), first=120),
    Bug(a_rejecting_worker_stays_in_rotation, ("goes to and fro",), first=20),
    Bug(a_canceled_query_is_not_told, ("its worker not told",)),
    Bug(a_recalled_work_runs_on, ("while it runs on", "accused of breaking the protocol")),
    Bug(a_recalled_work_is_given_away_before_it_is_handed_back, ("on a session that does not know it", "counts")),
    Bug(a_kind_takes_the_last_place, ("waits, and no",)),
    Bug(suspects_are_put_together, ("suspects side by side",)),
    Bug(nobody_pays_for_a_lost_worker, ("has ended 9 workers",), kinds=("poison",)),
    Bug(a_work_is_quarantined_at_the_first_death, ("no worker ever began", "is innocent and was quarantined")),
    Bug(
        a_work_is_quarantined_at_the_second_death, ("is innocent and was quarantined after 2",), kinds=("crash", "cut")
    ),
    Bug(an_acquitted_query_is_not_resumed, ("has not ended",), first=50, kinds=("pause", "poison")),
)
