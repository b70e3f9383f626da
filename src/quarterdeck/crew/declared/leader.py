"""The leader's driver: what is declared, the store that commits it, and the workers that hold it.

It runs on every coordinator and does nothing until it is told that this one leads. It executes what the machine
decides: a proposal goes to the store, and what the machine says when it is committed goes to workers. So the order
"commit, then send" is not kept by care; there is nothing to send before.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from quarterdeck.control.link import Message
from quarterdeck.core.ids import Fence, SessionId
from quarterdeck.core.reconcile.leader import LeaderMachine
from quarterdeck.core.reconcile.leader import effects as ef
from quarterdeck.core.reconcile.leader import events as ev
from quarterdeck.core.reconcile.messages import HolderMessage
from quarterdeck.core.workcoord.messages import Register
from quarterdeck.crew.declared.port import ConflictError, DeclaredStore
from quarterdeck.crew.driver import Observer, cancel_all
from quarterdeck.crew.guests import MachineGuest
from quarterdeck.crew.ports import Clock
from quarterdeck.stores.database.fences.checked import DeposedError
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

_ANSWER_MAX_S: Final = 30.0
"""How long the store may take. After that nobody knows whether it has committed, and everything is read anew."""


class LeaderDriver(MachineGuest[ev.Event, ef.Effect]):
    """Run it with `run`; it is a guest on the sessions of the coordinator, and follows whoever elects by `lead`."""

    def __init__(
        self,
        machine: LeaderMachine,
        store: DeclaredStore,
        *,
        clock: Clock,
        send: Callable[[SessionId, Message], None],
        on_doubt: Callable[[Fence], None],
        observer: Observer[ev.Event, ef.Effect] | None = None,
    ) -> None:
        """`on_doubt` is told of a fence that somebody has seen, and that is higher than this one's."""
        super().__init__(machine, clock, ev.TimePassed(), observer)
        self.machine: Final = machine
        self.store: Final = store
        self._send: Final = send
        self._on_doubt: Final = on_doubt
        self._asking: set[asyncio.Task[ev.Event]] = set()

    def lead(self, fence: Fence | None) -> None:
        """This process leads from now on, under a fence; or no longer."""
        self._apply(ev.LeadershipLost() if fence is None else ev.LeadershipGained(fence))

    def look(self) -> None:
        """Something was declared or withdrawn."""
        self._apply(ev.DeclarationsChanged())

    # As a guest

    def opened(self, session_id: SessionId, about: Register) -> None:
        worker = about.worker
        self._apply(ev.SessionOpened(session_id, worker.worker_id, worker.incarnation, worker.tenant))

    def closed(self, session_id: SessionId) -> None:
        self._apply(ev.SessionLost(session_id))

    def take(self, session_id: SessionId, message: Message) -> bool:
        if not isinstance(message, HolderMessage):
            return False
        self._apply(ev.MessageReceived(session_id, message))
        return True

    # Inside

    async def _end(self) -> None:
        """What the store was asked goes on to its end or not: nobody waits for it."""
        await cancel_all(tuple(self._asking))

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendToWorker(session_id, message):
                self._send(session_id, message)
            case ef.Load() | ef.Commit():
                self._ask(effect)
            case ef.DoubtLeadership(fence, seen):
                _log.warning("another coordinator leads: nothing is commanded any more", fence=fence, seen=seen)
                self._on_doubt(seen)
            case ef.ReportRetry(worker_id, held_id, command, attempt):
                _log.info("told again", worker_id=worker_id, thing=str(held_id), command=command, attempt=attempt)
            case _:
                assert_never(effect)

    def _ask(self, question: ef.Load | ef.Commit) -> None:
        task = asyncio.create_task(self._answer(question), name=f"declared {question.number}")
        self._asking.add(task)
        task.add_done_callback(partial(self._answered, question.number))

    async def _answer(self, question: ef.Load | ef.Commit) -> ev.Event:
        number = question.number
        try:
            async with asyncio.timeout(_ANSWER_MAX_S):
                match question:
                    case ef.Load(_, fence, since):
                        loaded = await self.store.load(fence, since)
                        return ev.DeclaredLoaded(number, loaded.revision, loaded.things)
                    case ef.Commit(_, fence, changes):
                        committed = await self.store.commit(fence, changes)
                        return ev.ChangesCommitted(number, committed.things, committed.gone)
        except DeposedError as error:
            return ev.StoreDeposedUs(number, error.highest)
        except ConflictError:
            return ev.ChangesRefused(number)
        except Exception as error:  # noqa: BLE001 - whatever a store may say, it is asked again
            _log.warning("the store of declared things cannot be asked", error=str(error) or "it took too long")
            return ev.StoreFailed(number)

    def _answered(self, number: int, task: asyncio.Task[ev.Event]) -> None:
        """Each question has an answer: without it the machine would ask nothing else any more."""
        self._asking.discard(task)
        has_ended = not task.cancelled() and task.exception() is None
        self._apply(task.result() if has_ended else ev.StoreFailed(number))
