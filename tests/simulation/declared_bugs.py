"""Bugs put in on purpose into declared things: each is a mistake that somebody could make. They must be found."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import Connection

from quarterdeck.core.ids import Fence
from quarterdeck.core.reconcile.changes import changed
from quarterdeck.core.reconcile.holder.machine import HolderMachine
from quarterdeck.core.reconcile.leader.commands import Commands
from quarterdeck.core.reconcile.leader.deaths import Deaths
from quarterdeck.core.reconcile.leader.declared import Declared
from quarterdeck.core.reconcile.leader.effects import Commit
from quarterdeck.core.reconcile.leader.machine import LeaderMachine
from quarterdeck.core.reconcile.leader.proposals import Proposals
from quarterdeck.core.reconcile.leader.questions import Questions
from quarterdeck.core.reconcile.leader.workers import Worker, Workers
from quarterdeck.core.reconcile.model import Revision
from quarterdeck.core.reconcile.tables import HoldingState
from quarterdeck.crew.declared import database_store
from quarterdeck.crew.declared.database_store import DatabaseStore
from quarterdeck.crew.declared.holder import HolderDriver
from quarterdeck.simulation.declared.faults import FAULTS

Method = Callable[..., Any]


@contextmanager
def _changed(owner: Any, name: str, change: Callable[[Method], Method]) -> Generator[None]:
    """Replaces a method by what `change` makes of it."""
    with patch.object(owner, name, change(getattr(owner, name))):
        yield


def _always(*, value: object) -> Callable[[Method], Method]:
    """A change into a method that answers always the same."""

    def change(_: Method) -> Method:
        def answer(*_: object) -> object:
            return value

        return answer

    return change


def sent_before_it_is_stored() -> AbstractContextManager[None]:
    """The leader acts on what it proposes as if it were committed."""

    def change(step: Method) -> Method:
        def changed_step(machine: Any, event: Any, now: float) -> Any:
            effects = step(machine, event, now)
            for question in [effect for effect in effects if isinstance(effect, Commit)]:
                for move in question.changes:
                    revision = Revision(machine._questions._since + 1000)
                    after = changed(machine.declared.get(move.thing_id), move, revision)
                    if after is not None:
                        machine._put(after)
            return effects

        return changed_step

    return _changed(LeaderMachine, "step", change)


def fences_are_not_looked_at_by_workers() -> AbstractContextManager[None]:
    def change(_: Method) -> Method:
        def obeys(machine: Any, session_id: Any, fence: Fence) -> bool:
            del session_id
            machine._fence = fence
            return True

        return obeys

    return _changed(HolderMachine, "_obeys", change)


def fences_are_not_looked_at_by_the_store() -> AbstractContextManager[None]:
    def change(_: Method) -> Method:
        apply: Any = vars(database_store)["_commit"]

        async def commit(store: Any, fence: Fence, changes: Any) -> Any:
            def unfenced(connection: Connection) -> Any:
                return apply(connection, fence, changes)

            return await store._database.run(unfenced)

        return commit

    return _changed(DatabaseStore, "commit", change)


def a_command_is_said_once() -> AbstractContextManager[None]:
    """A failure is not tried again."""

    def change(_: Method) -> Method:
        def tell_again(commands: Any, worker: Any, held_id: Any) -> None:
            commands._done(worker, held_id)

        return tell_again

    return _changed(Commands, "tell_again", change)


def zombies_live() -> AbstractContextManager[None]:
    """What nobody wants is not told to go."""

    def change(tell: Method) -> Method:
        def changed_tell(commands: Any, worker: Any, held_id: Any, *, hold: bool) -> None:
            thing = commands._declared.get(held_id.thing_id)
            if hold or (thing is not None and thing.held_id == held_id):
                tell(commands, worker, held_id, hold=hold)

        return changed_tell

    return _changed(Commands, "_tell", change)


def an_unknown_commit_counts_as_refused() -> AbstractContextManager[None]:
    """The answer of the store was lost, and nothing is read anew."""

    def change(_: Method) -> Method:
        def read_anew(questions: Any, number: int) -> bool:
            return questions.answered(number) is not None

        return read_anew

    return _changed(Questions, "read_anew", change)


def siblings_are_not_rolled_back() -> AbstractContextManager[None]:
    def change(change_of: Method) -> Method:
        def changed_of(proposals: Any, thing: Any) -> Any:
            with patch.object(Declared, "failure_of", _always(value=None)(str)):
                return change_of(proposals, thing)

        return changed_of

    return _changed(Proposals, "_change_of", change)


def gone_without_asking_the_worker() -> AbstractContextManager[None]:
    """A thing ends when it is told to, not when it has."""
    return _changed(Proposals, "_is_gone", _always(value=True))


def a_command_on_the_way_is_forgotten() -> AbstractContextManager[None]:
    """Only what was reported counts as there."""

    def change(_: Method) -> Method:
        def may_have(worker: Any, held_id: Any) -> bool:
            return held_id in worker.holdings

        return may_have

    return _changed(Worker, "may_have", change)


def a_new_generation_beside_the_old_one() -> AbstractContextManager[None]:
    """Neither leader nor worker waits for the older generation to go."""

    def change(hold: Method) -> Method:
        def changed_hold(machine: Any, held_id: Any, spec: Any) -> None:
            machine._generation.pop(held_id.thing_id, None)
            hold(machine, held_id, spec)

        return changed_hold

    @contextmanager
    def both() -> Generator[None]:
        with (
            _changed(HolderMachine, "_hold", change),
            _changed(HolderMachine, "check_invariants", _always(value=None)),
            _changed(Worker, "has_other", _always(value=False)),
        ):
            yield

    return both()


def a_session_ends_what_is_held() -> AbstractContextManager[None]:
    """The reports of a session that is gone stay believed."""

    def change(_: Method) -> Method:
        def close(workers: Any, worker: Any) -> None:
            del workers._by_session[worker.session_id]
            workers._leave_lanes(worker)
            worker.session_id = None

        return close

    @contextmanager
    def both() -> Generator[None]:
        with (
            _changed(Workers, "close", change),
            _changed(LeaderMachine, "check_invariants", _always(value=None)),
        ):
            yield

    return both()


def hints_are_relied_upon() -> AbstractContextManager[None]:
    """The store is looked at only when somebody says so."""

    def change(fired: Method) -> Method:
        def changed_fired(machine: Any, timer: Any) -> None:
            if type(timer).__name__ != "StoreTimer" or machine._questions._rests:
                fired(machine, timer)

        return changed_fired

    return _changed(LeaderMachine, "_timer_fired", change)


def a_lost_report_is_not_missed() -> AbstractContextManager[None]:
    """A report counts whatever came before it, and a full one only adds."""

    def change(take: Method) -> Method:
        def changed_take(workers: Any, worker: Any, report: Any) -> Any:
            if report.since is None and worker.report is None:
                report = replace(report, holdings=())
            return take(workers, worker, report)

        return changed_take

    return _changed(Workers, "take_report", change)


def a_worker_that_holds_something_has_no_room() -> AbstractContextManager[None]:
    """Commands that wait for others to be answered wait for ever."""

    def change(_: Method) -> Method:
        def hears_less_than(worker: Any, *_: int) -> bool:
            return not worker.steadiness

        return hears_less_than

    return _changed(Worker, "hears_less_than", change)


def what_failed_to_be_acquired_stays() -> AbstractContextManager[None]:
    """A release that fails counts as one that did not."""

    def change(_: Method) -> Method:
        async def tried(driver: Any, held: Any) -> None:
            try:
                await driver._let_go(held)
            except OSError:
                return

        return tried

    return _changed(HolderDriver, "_tried_to_let_go", change)


def a_breakdown_is_not_noticed() -> AbstractContextManager[None]:
    """What is said to be held stays so, whatever its worker reports."""

    def change(take: Method) -> Method:
        def put(worker: Any, holding: Any) -> None:
            before = worker.holdings.get(holding.held_id)
            if before is not None and before.state is HoldingState.HELD and holding.state is HoldingState.FAILED:
                return
            take(worker, holding)

        return put

    return _changed(Worker, "put", change)


def every_candidate_is_counted() -> AbstractContextManager[None]:
    """Whatever was on its way when a worker died counts as the cause, and nothing is tried apart from others."""

    def change(died: Method) -> Method:
        def changed_died(deaths: Any, life: Any, candidates: Any, wanted: Any) -> None:
            for thing_id in wanted:
                died(deaths, life, replace(candidates, things=(thing_id,)), [thing_id])

        return changed_died

    def forget(deaths: Any, thing_id: Any) -> None:
        deaths._cases.pop(thing_id, None)

    @contextmanager
    def both() -> Generator[None]:
        with (
            _changed(Deaths, "died", change),
            _changed(Deaths, "forget", lambda _: forget),
            _changed(Deaths, "probation", _always(value=None)),
        ):
            yield

    return both()


def what_ends_its_worker_is_told_for_ever() -> AbstractContextManager[None]:
    return _changed(Deaths, "verdict", _always(value=None))


def what_is_in_line_is_never_told() -> AbstractContextManager[None]:
    """Nobody's turn comes."""
    return _changed(Worker, "begin_trials", lambda _: lambda *_, **__: False)


@dataclass(frozen=True, slots=True)
class Bug:
    make: Callable[[], AbstractContextManager[None]]
    words: tuple[str, ...]
    """One of these stands in the violation."""
    first: int = 0
    """A seed at or before the first that shows it."""
    kinds: tuple[str, ...] = tuple(FAULTS)

    @property
    def name(self) -> str:
        return self.make.__name__


REST = "after everything healed"

BUGS = (
    Bug(sent_before_it_is_stored, ("which is not committed", "is there and not wanted", REST)),
    Bug(fences_are_not_looked_at_by_workers, ("obeys fence", "has ended, and"), first=70),
    Bug(fences_are_not_looked_at_by_the_store, ("by an earlier leader",), first=140),
    Bug(a_command_is_said_once, (REST,)),
    Bug(zombies_live, (REST, "has ended, and")),
    Bug(an_unknown_commit_counts_as_refused, (REST,)),
    Bug(siblings_are_not_rolled_back, (REST,)),
    Bug(gone_without_asking_the_worker, ("has ended, and",)),
    Bug(
        a_command_on_the_way_is_forgotten, ("has ended, and", "which it does not have"), first=60, kinds=("slow-peer",)
    ),
    Bug(a_new_generation_beside_the_old_one, ("acquires", "unhandled")),
    Bug(a_session_ends_what_is_held, (REST, "has ended, and")),
    Bug(hints_are_relied_upon, (REST,)),
    Bug(a_lost_report_is_not_missed, (REST, "has ended, and")),
    Bug(a_worker_that_holds_something_has_no_room, (REST, "nothing is on its way")),
    Bug(what_failed_to_be_acquired_stays, (REST, "has ended, and", "and has")),
    Bug(a_breakdown_is_not_noticed, (REST,)),
    Bug(every_candidate_is_counted, ("and it is harmless",), first=20),
    Bug(what_ends_its_worker_is_told_for_ever, (REST,), first=5),
    Bug(what_is_in_line_is_never_told, (REST,), first=5),
)
