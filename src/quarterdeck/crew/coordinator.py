"""The coordinator's driver: sessions with workers, fetches of their results, and the queries of whoever asks.

It executes what the machine decides and decides nothing itself. Everything it talks to is given to it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Generic, assert_never

from quarterdeck.control.conversation import MAX_PAYLOAD_BYTES, Conversation
from quarterdeck.control.link import Link, LinkClosedError, Message, ProtocolError
from quarterdeck.control.sessions import Sessions
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId, SessionId, WorkerId
from quarterdeck.core.tenants import DEFAULT_TENANT, serving_tenant
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.coordinator.tables import WorkerState
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import AssignWork, Register, WorkerMessage
from quarterdeck.core.workcoord.model import ENDED, Artifact, AttemptId, Ended, WorkError, WorkKey, WorkSpec
from quarterdeck.core.workcoord.peer import LossReason
from quarterdeck.crew.driver import Observer, Stepper, Trouble, cancel_all, company, ignore_trouble
from quarterdeck.crew.guests import SessionGuest
from quarterdeck.crew.ports import Clock, Fetcher, FetchFailedError, Ids, ResultT
from quarterdeck.telemetry.traces import span

_HELLO_S = 5.0
"""How long a new connection may take to say who it is."""
_STOPPED = WorkError(ErrorCode.UNAVAILABLE, "the coordinator has stopped; ask another one")


class QueryHandle(Generic[ResultT]):
    """A query from the side of whoever asked: works go in, results come out in the order in which they were won.

    It holds what was won and not read, without a limit: whoever submits sees to it that not too much is under way
    (`Harvest` does).
    """

    def __init__(self, query_id: QueryId, driver: "CoordinatorDriver[ResultT]") -> None:
        self.query_id = query_id
        self.ended: ef.EndQuery | None = None
        self.refused: list[ef.RefuseWork] = []
        self._driver = driver
        self._results: deque[tuple[WorkKey, ResultT | Ended]] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def submit(self, spec: WorkSpec) -> None:
        """Adds a work; `refused` tells if it was not taken."""
        if len(spec.payload) > MAX_PAYLOAD_BYTES:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"work {spec.key} is too large",
                f"what it carries is {len(spec.payload):,} bytes, and {MAX_PAYLOAD_BYTES:,} are allowed",
                "break it into smaller works",
            )
        if self.ended is not None:
            self.refused.append(ef.RefuseWork(spec.key, "its query has ended"))
        else:
            self._driver.apply(ev.WorkSubmitted(spec))

    def seal(self) -> None:
        """No more works follow."""
        self._driver.apply(ev.QuerySealed(self.query_id))

    def cancel(self, reason: str) -> None:
        self._driver.apply(ev.QueryCancelRequested(self.query_id, reason))

    def cancel_work(self, key: WorkKey) -> None:
        self._driver.apply(ev.WorkCancelRequested(key))

    async def next_result(self) -> tuple[WorkKey, ResultT | Ended] | None:
        """The next result, or that a work which leaves nothing is done; None when the query has ended, and `ended` says
        how."""
        while not self._results:
            if self.ended is not None:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._results.popleft()

    def close(self, reason: str) -> None:
        """Nobody reads it any more: cancels what is left, and discards what was won and not read; again is fine."""
        self._closed = True
        if self.ended is None:
            self.cancel(reason)
        while self._results:
            self.discard(self._results.popleft()[1])

    def discard(self, result: ResultT | Ended) -> None:
        if not isinstance(result, Ended):
            self._driver.discard(result)

    def deliver(self, key: WorkKey, result: ResultT | Ended) -> None:
        if self._closed:
            self.discard(result)
            return
        self._results.append((key, result))
        self._changed.set()

    def end(self, ended: ef.EndQuery) -> None:
        self.ended = ended
        self._changed.set()


class CoordinatorDriver(Generic[ResultT]):
    """Run it with `run`; give it connections with `serve`; ask it with `open_query`."""

    def __init__(
        self,
        machine: CoordinatorMachine,
        *,
        clock: Clock,
        ids: Ids,
        fetcher: Fetcher[ResultT],
        observer: Observer[ev.Event, ef.Effect] | None = None,
        on_trouble: Trouble = ignore_trouble,
    ) -> None:
        self.machine = machine
        self._guests: list[SessionGuest[Register]] = []
        self._on_trouble = on_trouble
        self._ids = ids
        self._fetcher = fetcher
        self._stepper: Stepper[ev.Event, ef.Effect] = Stepper(machine, clock, self._execute, ev.TimePassed(), observer)
        self._sessions = Sessions()
        self._queries: dict[QueryId, QueryHandle[ResultT]] = {}
        self._fetches: dict[AttemptId, asyncio.Task[ResultT | WorkError]] = {}
        self._fetched: dict[AttemptId, ResultT] = {}
        self._stopped = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        """Lives until `stop`, or until it is canceled; fetches do not outlive it."""
        try:
            await self._stopped.wait()
            await self._sessions.wait_none()
        finally:
            self._over = True
            self._stepper.stop()
            self._sessions.cut()
            for query_id, handle in self._queries.items():
                handle.end(ef.EndQuery(query_id, ef.Outcome.CANCELED, _STOPPED))
            self._queries.clear()
            await cancel_all(list(self._fetches.values()))

    def stop(self, reason: str) -> None:
        """Cancels all queries, says goodbye to the workers, and lets `run` end."""
        self.apply(ev.ShutdownRequested(reason))
        self._stopped.set()

    def apply(self, event: ev.Event) -> None:
        """Tells the machine; after the end of `run` there is nobody to tell."""
        if not self._over:
            self._stepper.apply(event)

    def open_query(self, query_id: QueryId, wait_limit_s: float | None) -> QueryHandle[ResultT]:
        if query_id in self._queries:
            raise ValueError(f"query {query_id} is open already; a query id is used once")
        handle = QueryHandle(query_id, self)
        if self._over:
            handle.end(ef.EndQuery(query_id, ef.Outcome.CANCELED, _STOPPED))
        else:
            self._queries[query_id] = handle
            self.apply(ev.QueryOpened(query_id, wait_limit_s))
        return handle

    def invite(self, guest: SessionGuest[Register]) -> None:
        """Who talks on the sessions beside the machine, from the next one on."""
        self._guests.append(guest)

    def say(self, session_id: SessionId, message: Message) -> None:
        """For guests."""
        self._sessions.send(session_id, message)

    def discard(self, result: ResultT) -> None:
        """A result that was delivered and is not wanted."""
        self._fetcher.discard(result)

    def crew_of(self, tenant: str, kind: WorkKind) -> str:
        """Whose workers do what a tenant asks for: its own if any takes this kind, else those of the whole crew."""
        if tenant == DEFAULT_TENANT:
            return tenant
        with_workers = {
            session.worker.tenant
            for session in self.machine.roster.sessions()
            if kind in session.worker.kinds and session.state is not WorkerState.DRAINING
        }
        return serving_tenant(tenant, with_workers)

    def drain_worker(self, worker_id: WorkerId) -> None:
        self.apply(ev.DrainRequested(worker_id))

    def left_over(self) -> list[str]:
        """What there should be none of when no query is open: for tests, and to see a leak while it is small."""
        things = {"fetches": self._fetches, "results": self._fetched}
        return [f"{len(held)} {name}" for name, held in things.items() if held]

    # Sessions

    async def serve(self, link: Link) -> bool:
        """One connection with a worker, whoever dialled it, to its end; whether it came to a session."""
        try:
            return not self._over and await self._converse(Conversation(link))
        finally:
            link.close()

    async def _converse(self, conversation: Conversation) -> bool:
        try:
            async with asyncio.timeout(_HELLO_S):
                register = await self._hear_registration(conversation)
        except (TimeoutError, LinkClosedError, ProtocolError) as error:
            self.machine.counters["connections_without_registration"] += 1
            self._on_trouble(conversation.link.peer, f"it did not register: {error or 'it took too long'}")
            return False
        session_id = conversation.session_id = self._ids.session_id()
        detail = "the connection was given up"
        with self._sessions.held_open(session_id, conversation):
            try:
                self.apply(ev.SessionOpened(session_id, register))
                for guest in self._guests:
                    guest.opened(session_id, register)
                detail = await conversation.talk(lambda messages: self._take(session_id, messages))
            finally:
                if conversation.loss is LossReason.PROTOCOL:
                    self._on_trouble(conversation.link.peer, f"it broke the protocol: {detail}")
                self.apply(ev.SessionLost(session_id, conversation.loss, detail))
                for guest in self._guests:
                    guest.closed(session_id)
        return True

    async def _hear_registration(self, conversation: Conversation) -> Register:
        match await conversation.hear():
            case (Register() as register,):
                return register
            case _:
                raise ProtocolError("a connection did not begin with a registration")

    def _take(self, session_id: SessionId, messages: Iterable[Message]) -> None:
        for message in messages:
            if isinstance(message, WorkerMessage):
                self.apply(ev.MessageReceived(session_id, message))
            elif not any(guest.take(session_id, message) for guest in self._guests):
                raise ProtocolError(f"a worker sent {type(message).__name__}")

    # Effects

    def _execute(self, effect: ef.Effect) -> None:
        match effect:
            case ef.SendToWorker(session_id, message):
                self._sessions.send(session_id, message, self._company(session_id, message))
            case ef.CloseSession(session_id):
                self._sessions.finish(session_id)
            case ef.FetchArtifact(attempt, worker_id, artifact):
                self._start_fetch(attempt, worker_id, artifact)
            case ef.CancelFetch(attempt):
                task = self._fetches.pop(attempt, None)
                if task is not None:
                    task.cancel()
            case ef.DeliverResult(attempt):
                self._queries[attempt.key.query_id].deliver(attempt.key, self._fetched.pop(attempt))
            case ef.DeliverEnd(attempt):
                self._queries[attempt.key.query_id].deliver(attempt.key, ENDED)
            case ef.DropResult(attempt):
                self._fetcher.discard(self._fetched.pop(attempt))
            case ef.EndQuery(query_id):
                self._queries.pop(query_id).end(effect)
            case ef.RefuseWork(key):
                handle = self._queries.get(key.query_id)
                if handle is not None:
                    handle.refused.append(effect)
            case ef.WarnOfSilence() | ef.ReportRoundTrip() | ef.ReportProgress() | ef.ReportReassignment():
                pass  # for the observer
            case _:
                assert_never(effect)

    def _company(self, session_id: SessionId, message: Message) -> int:
        """A work that will stand in a long line waits for others to go with."""
        session = self.machine.roster.session(session_id) if type(message) is AssignWork else None
        return 0 if session is None else company(session.outstanding, session.worker.slots)

    def _start_fetch(self, attempt: AttemptId, worker_id: WorkerId, artifact: Artifact) -> None:
        task = asyncio.create_task(self._fetch(attempt, worker_id, artifact), name=f"fetch {attempt}")
        self._fetches[attempt] = task
        task.add_done_callback(lambda done: self._fetch_done(attempt, done))

    async def _fetch(self, attempt: AttemptId, worker_id: WorkerId, artifact: Artifact) -> ResultT | WorkError:
        try:
            with span("fetch", query_id=attempt.key.query_id, work_id=attempt.key.work_id, worker_id=worker_id):
                return await self._fetcher.fetch(worker_id, attempt, artifact)
        except FetchFailedError as failed:
            return failed.error
        except asyncio.CancelledError:
            if self._over or self._fetches.get(attempt) is not asyncio.current_task():
                raise
            return WorkError(ErrorCode.INTERNAL, "the fetcher canceled itself")
        except Exception as error:  # noqa: BLE001 - whatever a fetcher does wrong costs an attempt, not the query
            return WorkError(ErrorCode.INTERNAL, f"the fetch broke: {error!r}")

    def _fetch_done(self, attempt: AttemptId, task: "asyncio.Task[ResultT | WorkError]") -> None:
        is_late = self._fetches.get(attempt) is not task
        if not is_late:
            del self._fetches[attempt]
        if is_late or self._over:
            self._discard_late(task)
            return
        if task.cancelled():
            return
        result = task.result()
        if isinstance(result, WorkError):
            self.apply(ev.FetchFailed(attempt, result))
        else:
            self._fetched[attempt] = result
            self.apply(ev.FetchSucceeded(attempt))

    def _discard_late(self, task: "asyncio.Task[ResultT | WorkError]") -> None:
        """A fetch that was canceled may have finished in that moment."""
        if task.cancelled():
            return
        result = task.result()
        if not isinstance(result, WorkError):
            self._fetcher.discard(result)
