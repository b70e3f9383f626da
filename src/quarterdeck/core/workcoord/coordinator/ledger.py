"""The ledger: queries, their works, and every attempt at them, from submission to the one delivered result.

It keeps the work table. It does not know when a worker is alive or in rotation: the roster tells it when a session is
gone, and the dispatcher decides who gets what.
"""

from collections.abc import Callable, Iterator

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import Incarnation, QueryId, WorkerId
from quarterdeck.core.workcoord.coordinator.blame import ACCUSED_AFTER, Losses, Suspects, quarantined
from quarterdeck.core.workcoord.coordinator.desk import Desk
from quarterdeck.core.workcoord.coordinator.dispatch import Dispatcher
from quarterdeck.core.workcoord.coordinator.effects import (
    CancelFetch,
    DeliverEnd,
    DeliverResult,
    DropResult,
    EndQuery,
    FetchArtifact,
    Outcome,
    RefuseWork,
    ReportProgress,
    ReportReassignment,
)
from quarterdeck.core.workcoord.coordinator.lane import LaneKey
from quarterdeck.core.workcoord.coordinator.records import Attempt, Death, Loss, Query, Session, Work
from quarterdeck.core.workcoord.coordinator.tables import REASSIGNMENTS, WORK_TABLE, WorkState, WorkTrigger
from quarterdeck.core.workcoord.messages import ArtifactAck, AssignWork, CancelQuery, CancelWork
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError, WorkKey, WorkSpec
from quarterdeck.core.workcoord.peer import PeerError

_LEAVES_NOTHING = {WorkTrigger.READY: False, WorkTrigger.END: True}
"""The ways in which a work is done, and whether there is nothing to fetch then. A work says which one is its."""
_OTHERWISE = {WorkTrigger.READY: "leave nothing", WorkTrigger.END: "leave an artifact"}


class Ledger:
    def __init__(self, desk: Desk, spill_after_s: float, max_failures: int) -> None:
        self._desk = desk
        self._max_failures = max_failures
        self._queries: dict[QueryId, Query] = {}
        self._losses = Losses()
        self.dispatch = Dispatcher(self._assign, desk, spill_after_s)

    def queries(self) -> Iterator[Query]:
        return iter(self._queries.values())

    def query(self, query_id: QueryId) -> Query | None:
        return self._queries.get(query_id)

    # Whoever asks

    def open_query(self, query_id: QueryId, wait_limit_s: float | None) -> None:
        if query_id in self._queries:
            raise ValueError(f"query {query_id} is open already; a query id is used once")
        self._queries[query_id] = Query(query_id, wait_limit_s)

    def submit(self, spec: WorkSpec) -> None:
        work = self._enter(spec)
        if work is not None:
            self.dispatch.place(work)

    def seal(self, query_id: QueryId) -> None:
        query = self._queries.get(query_id)
        if query is not None:
            query.sealed = True
            self._end_if_finished(query)

    def cancel_query(self, query_id: QueryId, reason: str) -> None:
        """Cancels a query as somebody asked; one that has ended already is fine."""
        self._cancel(query_id, WorkError(ErrorCode.CANCELED, reason, retryable=False))

    def abandon_query(self, query_id: QueryId, reason: str) -> None:
        """Cancels a query that nobody asked to cancel: elsewhere, or later, it can be done."""
        self._cancel(query_id, WorkError(ErrorCode.UNAVAILABLE, reason))

    def _cancel(self, query_id: QueryId, error: WorkError) -> None:
        query = self._queries.get(query_id)
        if query is not None:
            self._end(query, Outcome.CANCELED, error)

    def cancel_work(self, key: WorkKey) -> None:
        """Cancels one work; one that has ended already is fine."""
        query = self._queries.get(key.query_id)
        work = query.works.get(key) if query is not None else None
        if query is None or work is None or work.state in WORK_TABLE.terminal:
            return
        if work.state is WorkState.PENDING:
            self.dispatch.withdraw(work)
        self._move(work, WorkTrigger.CANCEL)
        self._cancel_fetches(work)
        if work.current is not None:
            self._close(work.current)
        self._finished(work)

    def wait_ended(self, lane: LaneKey, query_id: QueryId, who_is_there: str) -> None:
        """No worker came in the time that the query gave."""
        query = self._queries[query_id]
        tenant, kind = lane
        message = (
            f"no worker takes {kind} work of tenant {tenant!r}, waited {query.wait_limit_s:g} s; {who_is_there}; "
            "start a worker that takes it, or ask again later"
        )
        self._end(query, Outcome.FAILED, WorkError(ErrorCode.NO_WORKER, message))

    # What workers say of attempts

    def accepted(self, session: Session, attempt_id: AttemptId) -> None:
        attempt = self._heard(session, attempt_id, WorkTrigger.ACCEPT)
        if attempt is not None:
            self._desk.counters["accepted"] += 1
            self._move(attempt.work, WorkTrigger.ACCEPT)
            attempt.work.lane.waiting.pop(attempt, None)

    def progressed(self, session: Session, attempt_id: AttemptId, fraction: float) -> None:
        if attempt_id in session.attempts:
            self._desk.do(ReportProgress(attempt_id, fraction))
        elif attempt_id not in session.closing:
            raise PeerError(f"progress of {attempt_id}, which is not on this session")

    def ready(self, session: Session, attempt_id: AttemptId, artifact: Artifact) -> None:
        attempt = self._heard(session, attempt_id, WorkTrigger.READY)
        if attempt is None:
            return
        self._move(attempt.work, WorkTrigger.READY)
        self._acquit(attempt.work, session)
        attempt.work.query.fetches[attempt_id] = None
        self._desk.do(FetchArtifact(attempt_id, attempt.worker_id, artifact))

    def ended(self, session: Session, attempt_id: AttemptId) -> None:
        """A work that leaves nothing is done: nothing is fetched, and nothing acknowledged."""
        attempt = self._heard_end(session, attempt_id, WorkTrigger.END)
        if attempt is not None:
            self._move(attempt.work, WorkTrigger.END)
            self._acquit(attempt.work, session)
            self._unbind(attempt)
            self._desk.do(DeliverEnd(attempt_id, session.worker_id))
            self._finished(attempt.work)
        self.dispatch.credit_changed(session)

    def rejected(self, session: Session, attempt_id: AttemptId) -> None:
        attempt = self._heard_end(session, attempt_id, WorkTrigger.REJECT)
        if attempt is not None:
            self._desk.counters["rejected"] += 1
            self._retry(attempt, WorkTrigger.REJECT, None)
        self.dispatch.credit_changed(session)

    def returned(self, session: Session, attempt_id: AttemptId) -> None:
        returned = session.attempts.get(attempt_id)
        is_recalled = returned is not None and returned.is_recalled
        trigger = WorkTrigger.RECALL if is_recalled else WorkTrigger.RETURN
        attempt = self._heard_end(session, attempt_id, trigger)
        if attempt is not None:
            attempt.work.is_recalled = is_recalled
            self._retry(attempt, trigger, None)
        self.dispatch.credit_changed(session)

    def failed(self, session: Session, attempt_id: AttemptId, error: WorkError) -> None:
        attempt = self._heard_end(session, attempt_id, WorkTrigger.FAIL)
        if attempt is not None:
            if error.culprit:
                death = Death(session.worker_id, session.worker.incarnation, True, True, of_engine=True)
                self._suspect(attempt.work, (*attempt.work.deaths, death))
                error = quarantined(attempt.work, error) or error
            self._retry(attempt, WorkTrigger.FAIL, error)
        self.dispatch.credit_changed(session)

    def canceled(self, session: Session, attempt_id: AttemptId) -> None:
        if attempt_id not in session.closing:
            raise PeerError(f"{attempt_id} was canceled, which nobody asked for")
        self._forget_closing(session, attempt_id)
        self.dispatch.credit_changed(session)

    def artifact_lost(self, session: Session, attempt_id: AttemptId, reason: str) -> None:
        """An unacknowledged result is gone. It may cross our acknowledgement, so an unknown one is fine."""
        if attempt_id not in session.attempts and attempt_id not in session.closing:
            self._desk.counters["artifact_lost_late"] += 1
            return
        attempt = self._heard_end(session, attempt_id, WorkTrigger.ARTIFACT_LOST)
        if attempt is not None:
            error = WorkError(ErrorCode.UNAVAILABLE, f"worker {session.worker_id} lost the result: {reason}")
            self._retry(attempt, WorkTrigger.ARTIFACT_LOST, error)
        self.dispatch.credit_changed(session)

    # What fetches say

    def fetch_succeeded(self, attempt_id: AttemptId) -> None:
        """The first verified result of a work is committed; any other is dropped."""
        query = self._queries.get(attempt_id.key.query_id)
        if query is None or attempt_id not in query.fetches:
            self._desk.counters["results_dropped"] += 1
            self._desk.do(DropResult(attempt_id))
            return
        del query.fetches[attempt_id]
        self._commit(query.works[attempt_id.key], attempt_id)

    def fetch_failed(self, attempt_id: AttemptId, error: WorkError) -> None:
        query = self._queries.get(attempt_id.key.query_id)
        if query is None or attempt_id not in query.fetches:
            return
        del query.fetches[attempt_id]
        work = query.works[attempt_id.key]
        attempt = work.current
        if attempt is None or attempt.attempt_id != attempt_id or work.state is not WorkState.READY:
            return
        self._close(attempt)
        self._retry(attempt, WorkTrigger.FETCH_FAIL, error)

    # What the roster says

    def session_lost(
        self, session: Session, reason: str, loss: Loss, is_here: Callable[[WorkerId, Incarnation], bool]
    ) -> None:
        """The session is gone, and out of rotation already. Its work moves to others.

        What may have been running pays for it with a failure, or is blamed; what only waited there pays nothing.
        """
        suspects = Suspects.of(session, loss, is_here)
        if loss is not Loss.ORDERLY:
            self._losses.add(suspects.running, self._desk.now)
        attempts = list(session.attempts.values())
        session.attempts.clear()
        session.closing.clear()
        session.load.clear()
        session.suspect = None
        lost = WorkError(ErrorCode.UNAVAILABLE, f"worker {session.worker_id} was lost: {reason}")
        for attempt in attempts:
            if attempt.work.query.ended:
                continue
            attempt.work.losses += 1
            error = lost if suspects.has_to_pay(attempt) else None
            if attempt in suspects.earlier:
                had_begun = attempt.work.state is WorkState.ACCEPTED
                death = Death(session.worker_id, session.worker.incarnation, loss is Loss.DEATH, had_begun)
                self._suspect(attempt.work, (*suspects.earlier[attempt], death))
            if attempt in suspects.blamed and suspects.are_of_one_query:
                others_die = self._losses.were_without(attempt.work, self._desk.now)
                error = (None if others_die else quarantined(attempt.work, lost)) or lost
            self._retry(attempt, WorkTrigger.LOSE, error)

    # Inside: attempts

    def _enter(self, spec: WorkSpec) -> Work | None:
        query = self._queries.get(spec.key.query_id)
        if query is None:
            self._desk.do(RefuseWork(spec.key, "its query has ended"))
        elif query.sealed:
            self._desk.do(RefuseWork(spec.key, "its query was sealed"))
        elif spec.key in query.works or spec.key in query.finished:
            self._desk.do(RefuseWork(spec.key, "it was submitted before"))
        else:
            work = query.works[spec.key] = Work(spec, query, self.dispatch.lane_for(spec))
            query.unfinished += 1
            return work
        return None

    def _assign(self, work: Work, session: Session) -> None:
        """The dispatcher found a worker with credit for a pending work."""
        self.dispatch.withdraw(work)
        self._move(work, WorkTrigger.ASSIGN)
        work.number += 1
        attempt = Attempt(work.current_id, work, session, self._desk.now)
        work.current = work.query.live[attempt.attempt_id] = session.attempts[attempt.attempt_id] = attempt
        session.load.add(work.spec.kind)
        if work.deaths:
            session.suspect = attempt
        work.lane.waiting[attempt] = None
        self._desk.send(session, AssignWork(work.spec, work.number))

    def _unbind(self, attempt: Attempt) -> None:
        """The attempt is no longer its work's current one."""
        attempt.work.current = None
        del attempt.work.query.live[attempt.attempt_id]
        self.dispatch.unbound(attempt)

    def _close(self, attempt: Attempt) -> None:
        """Gives up a current attempt: the worker is told, and its end is awaited."""
        self._unbind(attempt)
        self._await_end(attempt)
        self._desk.send(attempt.session, CancelWork(attempt.attempt_id))

    def _await_end(self, attempt: Attempt) -> None:
        self._take_off(attempt)
        attempt.session.closing[attempt.attempt_id] = attempt.work.spec.kind

    def _take_off(self, attempt: Attempt) -> None:
        session = attempt.session
        del session.attempts[attempt.attempt_id]
        if session.suspect is attempt:
            session.suspect = None

    def _forget_attempt(self, attempt: Attempt) -> None:
        """Its end was heard, or said by us: it keeps no credit and no record."""
        attempt.session.load.remove(attempt.work.spec.kind)
        self._take_off(attempt)

    def _forget_closing(self, session: Session, attempt_id: AttemptId) -> None:
        session.load.remove(session.closing.pop(attempt_id))

    def _heard(self, session: Session, attempt_id: AttemptId, trigger: WorkTrigger) -> Attempt | None:
        """The attempt a message is about; None if we have given it up and the message no longer matters."""
        if attempt_id in session.closing:
            return None
        attempt = session.attempts.get(attempt_id)
        if attempt is None:
            raise PeerError(f"{trigger} of {attempt_id}, which is not on this session")
        if not WORK_TABLE.allows(attempt.work.state, trigger):
            raise PeerError(f"{trigger} of {attempt_id}, which is {attempt.work.state}")
        if trigger in _LEAVES_NOTHING and attempt.work.spec.leaves_nothing is not _LEAVES_NOTHING[trigger]:
            raise PeerError(f"{trigger} of {attempt_id}, which was to {_OTHERWISE[trigger]}")
        return attempt

    def _heard_end(self, session: Session, attempt_id: AttemptId, trigger: WorkTrigger) -> Attempt | None:
        """The same for a message that is the attempt's end."""
        attempt = self._heard(session, attempt_id, trigger)
        if attempt is None:
            self._forget_closing(session, attempt_id)
        else:
            self._forget_attempt(attempt)
        return attempt

    def _retry(self, attempt: Attempt, trigger: WorkTrigger, error: WorkError | None) -> None:
        """The work is pending again and goes to another worker at once, or its query has failed.

        Without an error it was nobody's failure, and does not count as one.
        """
        work = attempt.work
        self._move(work, trigger)
        if work.current is attempt:
            self._unbind(attempt)
        if error is not None:
            work.failures += 1
            others = (worker_id for worker_id in work.avoid if worker_id != attempt.worker_id)
            work.avoid = (*others, attempt.worker_id)
        if error is not None and not error.retryable:
            self._give_up(work, error)
        elif error is not None and work.failures >= self._max_failures:
            message = f"work {work.key.work_id} failed {work.failures} times, the last time: {error.message}"
            self._give_up(work, WorkError(ErrorCode.ATTEMPTS_EXHAUSTED, message))
        else:
            self._desk.do(ReportReassignment(attempt.attempt_id, REASSIGNMENTS[trigger]))
            self.dispatch.place(work)

    def _suspect(self, work: Work, deaths: tuple[Death, ...]) -> None:
        """What ran it has died."""
        self._desk.counters["suspected"] += 1
        work.deaths = deaths
        query = work.query
        if not query.has_result:
            query.is_suspect = True
            if len(deaths) >= ACCUSED_AFTER and query.accused is None:
                query.accused = work

    def _acquit(self, work: Work, session: Session) -> None:
        """It came to its end, and whatever ran it lives."""
        if work.deaths:
            work.deaths = ()
            session.suspect = None
        work.query.has_result = True
        work.query.is_suspect = False
        self._drop_charge(work.query)

    def _drop_charge(self, query: Query) -> None:
        """Its works wait no longer for the one that was accused."""
        if query.accused is not None:
            query.accused = None
            self.dispatch.resume(query)

    def _give_up(self, work: Work, error: WorkError) -> None:
        self._move(work, WorkTrigger.GIVE_UP)
        self._end(work.query, Outcome.FAILED, error)

    def _move(self, work: Work, trigger: WorkTrigger) -> None:
        self._desk.moves[work.state, trigger] += 1
        work.state = WORK_TABLE.next(work.state, trigger)

    # Inside: results

    def _commit(self, work: Work, attempt_id: AttemptId) -> None:
        if work.state is WorkState.PENDING:
            self.dispatch.withdraw(work)
        self._move(work, WorkTrigger.COMMIT)
        self._desk.do(DeliverResult(attempt_id))
        self._cancel_fetches(work)
        attempt = work.current
        if attempt is not None:
            if attempt.attempt_id == attempt_id:
                self._unbind(attempt)
                self._acknowledge(attempt)
                self._forget_attempt(attempt)
                self.dispatch.credit_changed(attempt.session)
            else:
                self._close(attempt)
        self._finished(work)

    def _acknowledge(self, attempt: Attempt) -> None:
        self._desk.send(attempt.session, ArtifactAck(attempt.attempt_id))

    def _cancel_fetches(self, work: Work) -> None:
        for number in range(1, work.number + 1):
            attempt_id = AttemptId(work.key, number)
            if work.query.fetches.pop(attempt_id, attempt_id) is None:
                self._desk.do(CancelFetch(attempt_id))

    # Inside: queries

    def _finished(self, work: Work) -> None:
        """A work has come to its end. Its query may live long, and keeps nothing of it but its name."""
        query = work.query
        query.unfinished -= 1
        del query.works[work.key]
        if query.accused is work:
            self._drop_charge(query)
        query.finished.add(work.key)
        self._end_if_finished(query)

    def _end_if_finished(self, query: Query) -> None:
        if query.sealed and not query.unfinished and not query.ended:
            self._end(query, Outcome.SUCCEEDED, None)

    def _end(self, query: Query, outcome: Outcome, error: WorkError | None) -> None:
        query.ended = True
        del self._queries[query.query_id]
        self.dispatch.forget(query)
        sessions: dict[Session, None] = {}
        live, query.live = query.live, {}
        for attempt in live.values():
            self._move(attempt.work, WorkTrigger.CANCEL)
            attempt.work.current = None
            self.dispatch.unbound(attempt)
            if attempt.attempt_id in attempt.session.attempts:  # else its session is being lost just now
                sessions[attempt.session] = None
                self._await_end(attempt)
        for session in sessions:
            self._desk.send(session, CancelQuery(query.query_id))
        for attempt_id in query.fetches:
            self._desk.do(CancelFetch(attempt_id))
        query.fetches.clear()
        self._desk.counters[f"queries {outcome}"] += 1
        self._desk.do(EndQuery(query.query_id, outcome, error))
