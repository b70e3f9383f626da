"""The worker's driver: sessions with coordinators, executions, and the artifacts they leave.

It executes what the machine decides and decides nothing itself. Everything it talks to is given to it.
"""

import asyncio
from collections.abc import Iterable
from typing import assert_never

from quarterdeck.control.conversation import Conversation
from quarterdeck.control.link import Link, LinkClosedError, Message, ProtocolError
from quarterdeck.control.sessions import Sessions
from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import CoordinatorMessage, Refused, Registered, WorkEnded, WorkReady
from quarterdeck.core.workcoord.model import Artifact, AttemptId, Ended, WorkError, WorkSpec
from quarterdeck.core.workcoord.worker import WorkerMachine
from quarterdeck.core.workcoord.worker import effects as ef
from quarterdeck.core.workcoord.worker import events as ev
from quarterdeck.crew.driver import Observer, Stepper, Trouble, cancel_all, company, ignore_trouble
from quarterdeck.crew.guests import SessionGuest
from quarterdeck.crew.ports import Clock, ExecutionFailedError, Executor

_WELCOME_S = 5.0
"""How long a coordinator may take to answer a registration."""


class WorkerDriver:
    """Run it with `run`; give it connections with `serve`, whoever dialled them."""

    def __init__(
        self,
        machine: WorkerMachine,
        *,
        clock: Clock,
        executor: Executor,
        observer: Observer[ev.Event, ef.Effect] | None = None,
        on_trouble: Trouble = ignore_trouble,
    ) -> None:
        self.machine = machine
        self._on_trouble = on_trouble
        self._executor = executor
        self._stepper: Stepper[ev.Event, ef.Effect] = Stepper(machine, clock, self._execute, ev.TimePassed(), observer)
        self._guests: list[SessionGuest[Registered]] = []
        self._sessions = Sessions()
        self._uncleared: dict[str, dict[SessionId, asyncio.Event]] = {}
        """The sessions with each peer for which something may still run; set when nothing does."""
        self._with_peer: dict[str, Conversation] = {}
        """The newest connection with each peer; older ones are on their way out."""
        self._turns: dict[str, asyncio.Lock] = {}
        self._executions: dict[AttemptId, asyncio.Task[Artifact | Ended | WorkError]] = {}
        self._stopping: set[AttemptId] = set()
        self._drops: set[asyncio.Task[None]] = set()
        self._drained = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        """Lives until it is drained, or canceled; executions do not outlive it."""
        try:
            await self._drained.wait()
            await self._sessions.wait_none()
            while left := [*self._executions.values(), *self._drops]:
                await asyncio.wait(left)
        finally:
            self._over = True
            self._stepper.stop()
            self._sessions.cut()
            await cancel_all([*self._executions.values(), *self._drops])

    def drain(self) -> None:
        """Takes nothing new and ends `run` when what runs has finished."""
        self.apply(ev.DrainRequested())

    def apply(self, event: ev.Event) -> None:
        """Tells the machine; after the end of `run` there is nobody to tell."""
        if not self._over:
            self._stepper.apply(event)

    def invite(self, guest: SessionGuest[Registered]) -> None:
        """Who talks on the sessions beside the machine, from the next one on."""
        self._guests.append(guest)

    def say(self, session_id: SessionId, message: Message) -> None:
        """For guests."""
        self._sessions.send(session_id, message)

    # Sessions

    async def serve(self, link: Link) -> bool:
        """One connection with a coordinator, whoever dialled it, to its end; whether it came to a session.

        There is one at a time with each peer. A newer one ends the older: the peer has given that up. The worker
        registers on it when nothing runs for the older one any more.
        """
        if self._drained.is_set():
            link.close()
            return False
        conversation = Conversation(link)
        older = self._with_peer.get(link.peer)
        self._with_peer[link.peer] = conversation
        if older is not None:
            older.link.close()
        turn = self._turns.setdefault(link.peer, asyncio.Lock())
        try:
            async with turn:
                return self._with_peer.get(link.peer) is conversation and await self._converse(conversation)
        finally:
            link.close()
            if self._with_peer.get(link.peer) is conversation:
                del self._with_peer[link.peer]
            # The newest may be canceled while it waits: the turn stays for as long as somebody has it.
            if link.peer not in self._with_peer and not turn.locked():
                self._turns.pop(link.peer, None)

    async def _converse(self, conversation: Conversation) -> bool:
        peer = conversation.link.peer
        for cleared in list(self._uncleared.get(peer, {}).values()):
            await cleared.wait()
        try:
            async with asyncio.timeout(_WELCOME_S):
                await conversation.say(self.machine.registration())
                registered = await self._hear_welcome(conversation)
        except (TimeoutError, LinkClosedError, ProtocolError) as error:
            self.machine.counters["registrations_failed"] += 1
            self._on_trouble(peer, f"we could not register: {error or 'it took too long'}")
            return False
        session_id = registered.session_id
        self._uncleared.setdefault(peer, {})[session_id] = asyncio.Event()
        with self._sessions.held_open(session_id, conversation):
            try:
                self.apply(ev.SessionOpened(registered))
                for guest in self._guests:
                    guest.opened(session_id, registered)
                reason = await conversation.talk(lambda messages: self._take(session_id, messages))
                if not conversation.finishing:
                    self._on_trouble(peer, f"the session has ended: {reason}")
            finally:
                self.apply(ev.SessionLost(session_id, conversation.loss))
                for guest in self._guests:
                    guest.closed(session_id)
        return True

    async def _hear_welcome(self, conversation: Conversation) -> Registered:
        """The answer to our registration. It may come with first words, which are kept for later."""
        match await conversation.hear():
            case (Registered(session_id), *_) if session_id in self._sessions:
                raise ProtocolError(f"the coordinator gave us session {session_id}, which is another's")
            case (Registered() as registered, *rest):
                conversation.session_id = registered.session_id
                conversation.unread = rest
                return registered
            case (Refused(reason), *_):
                raise ProtocolError(f"the coordinator refused us: {reason}")
            case _:
                raise ProtocolError("the coordinator did not answer the registration")

    def _take(self, session_id: SessionId, messages: Iterable[Message]) -> None:
        for message in messages:
            if isinstance(message, CoordinatorMessage):
                self.apply(ev.MessageReceived(session_id, message))
            elif not any(guest.take(session_id, message) for guest in self._guests):
                raise ProtocolError(f"a coordinator sent {type(message).__name__}")

    # Effects

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendToCoordinator(session_id, message):
                self._sessions.send(session_id, message, self._company(session_id, message))
            case ef.CloseSession(session_id):
                self._sessions.finish(session_id)
            case ef.ClearSession(session_id):
                self._cleared(session_id)
            case ef.StartExecution(attempt, spec):
                self._start_execution(attempt, spec)
            case ef.StopExecution(attempt):
                self._stopping.add(attempt)
                self._executions[attempt].cancel()
            case ef.ReleaseResult(attempt):
                self._executor.release(attempt)
            case ef.DropResult(attempt):
                self._drop_result(attempt)
            case ef.FinishDrain():
                self._drained.set()
            case _:
                assert_never(effect)

    def _company(self, session_id: SessionId, message: Message) -> int:
        """A result among many that are under way waits for others to go with."""
        session = self.machine.session(session_id) if type(message) in (WorkReady, WorkEnded) else None
        return 0 if session is None else company(session.outstanding, self.machine.config.info.slots)

    def _cleared(self, session_id: SessionId) -> None:
        for peer, sessions in self._uncleared.items():
            if session_id in sessions:
                sessions.pop(session_id).set()
                if not sessions:
                    del self._uncleared[peer]
                return

    def _start_execution(self, attempt: AttemptId, spec: WorkSpec) -> None:
        task = asyncio.create_task(self._run_execution(attempt, spec), name=f"execute {attempt}")
        self._executions[attempt] = task
        task.add_done_callback(lambda done: self._execution_done(attempt, done))

    async def _run_execution(self, attempt: AttemptId, spec: WorkSpec) -> Artifact | Ended | WorkError:
        def progress(fraction: float) -> None:
            self.apply(ev.ExecutionProgressed(attempt, fraction))

        try:
            return await self._executor.execute(attempt, spec, progress)
        except ExecutionFailedError as failed:
            return failed.error
        except asyncio.CancelledError:
            if self._over or attempt in self._stopping:
                raise
            return WorkError(ErrorCode.INTERNAL, "the executor canceled itself")
        except Exception as error:  # noqa: BLE001 - whatever an executor does wrong is that work's failure, not ours
            return WorkError(ErrorCode.INTERNAL, f"the executor broke: {error!r}")

    def _drop_result(self, attempt: AttemptId) -> None:
        try:
            if self._executor.forget(attempt):
                return
        except Exception as error:  # noqa: BLE001 - as below; and perhaps it can still be dropped
            self._drop_failed(attempt, error)
        task = asyncio.create_task(self._drop(attempt), name=f"drop {attempt}")
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)

    async def _drop(self, attempt: AttemptId) -> None:
        try:
            await self._executor.drop(attempt)
        except Exception as error:  # noqa: BLE001 - what cannot be deleted now is found at the next start
            self._drop_failed(attempt, error)

    def _drop_failed(self, attempt: AttemptId, error: Exception) -> None:
        self.machine.counters["drops_failed"] += 1
        self._on_trouble("", f"the result of {attempt} could not be deleted: {error!r}")

    def _execution_done(self, attempt: AttemptId, task: "asyncio.Task[Artifact | Ended | WorkError]") -> None:
        del self._executions[attempt]
        self._stopping.discard(attempt)
        if self._over:
            return
        if task.cancelled():
            self.apply(ev.ExecutionStopped(attempt))
            return
        result = task.result()
        if isinstance(result, WorkError):
            self.apply(ev.ExecutionFailed(attempt, result))
        elif isinstance(result, Ended):
            self.apply(ev.ExecutionEnded(attempt))
        else:
            self.apply(ev.ExecutionSucceeded(attempt, result))
