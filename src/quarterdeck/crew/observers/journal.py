"""What the machines did, as log lines: sessions and queries at `info`, trouble at `warning`, single works at `debug`
while all goes well, and at `info` when one takes a detour.

Every line about a query has its `query_id`, every line about a work its `work_id` too. Both journals are observers:
they see every step and change nothing.
"""

from collections.abc import Collection

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.workcoord import messages as m
from quarterdeck.core.workcoord.coordinator import effects as cef
from quarterdeck.core.workcoord.coordinator import events as cev
from quarterdeck.core.workcoord.coordinator.tables import ReassignmentReason
from quarterdeck.core.workcoord.model import AttemptId, WorkKey
from quarterdeck.core.workcoord.peer import CloseReason
from quarterdeck.core.workcoord.worker import effects as wef
from quarterdeck.core.workcoord.worker import events as wev
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)


def _of(attempt: AttemptId) -> dict[str, object]:
    return {"query_id": attempt.key.query_id, "work_id": attempt.key.work_id, "attempt": attempt.number}


def _recalled(attempt: AttemptId) -> cef.Effect:
    return cef.ReportReassignment(attempt, ReassignmentReason.RECALLED)


def log_trouble(peer: str, what: str) -> None:
    """For the drivers' `on_trouble`."""
    _log.warning("trouble with a peer", peer=peer, what=what)


class CoordinatorJournal:
    def stepped(self, event: cev.Event, effects: list[cef.Effect]) -> None:
        moved: Collection[WorkKey] = ()
        match event:
            case cev.MessageReceived(session_id, m.WorkReturned(attempt)) if _recalled(attempt) in effects:
                moved = (attempt.key,)
                _log.debug("work comes back that was recalled", **_of(attempt), session_id=session_id)
            case cev.MessageReceived(session_id, message):
                self._heard(session_id, message)
            case cev.SessionOpened(session_id, register):
                worker = register.worker
                _log.info(
                    "worker registers",
                    worker_id=worker.worker_id,
                    incarnation=worker.incarnation,
                    session_id=session_id,
                    slots=worker.slots,
                    address=worker.address,
                )
            case cev.SessionLost(session_id, _, detail):
                _log.info("session ended", session_id=session_id, reason=detail)
            case cev.QueryOpened(query_id):
                _log.info("query opened", query_id=query_id)
            case cev.WorkSubmitted(spec):
                _log.debug("work submitted", query_id=spec.key.query_id, work_id=spec.key.work_id, kind=spec.kind)
            case cev.FetchFailed(attempt, error):
                _log.warning("fetch failed", **_of(attempt), code=error.code, reason=error.message)
            case _:
                pass
        for effect in effects:
            self._done(effect, moved)

    def _heard(self, session_id: str, message: m.WorkerMessage) -> None:
        match message:
            case m.WorkAccepted(attempt):
                _log.debug("work accepted", **_of(attempt), session_id=session_id)
            case m.WorkReady(attempt, artifact):
                _log.debug(
                    "work ready",
                    **_of(attempt),
                    rows=artifact.row_count,
                    size_bytes=artifact.size_bytes,
                    url=artifact.url,
                )
            case m.WorkEnded(attempt):
                _log.debug("work ended, it leaves nothing", **_of(attempt), session_id=session_id)
            case m.WorkFailed(attempt, error):
                _log.warning(
                    "work failed", **_of(attempt), session_id=session_id, code=error.code, reason=error.message
                )
            case m.ArtifactLost(attempt, reason):
                _log.warning("result lost", **_of(attempt), session_id=session_id, reason=reason)
            case m.WorkRejected(attempt, reason):
                _log.info("work rejected", **_of(attempt), session_id=session_id, reason=reason)
            case m.WorkReturned(attempt):
                _log.info("work handed back", **_of(attempt), session_id=session_id)
            case m.Throttled(for_s):
                _log.info("worker asks to be spared", session_id=session_id, for_s=for_s)
            case m.Goodbye(reason):
                _log.info("worker says goodbye", session_id=session_id, reason=reason)
            case _:
                pass

    def _done(self, effect: cef.Effect, moved: Collection[WorkKey]) -> None:
        match effect:
            case cef.SendToWorker(session_id, m.AssignWork() as assignment):
                again = assignment.number > 1 and assignment.spec.key not in moved
                (_log.info if again else _log.debug)(
                    "work assigned again" if again else "work assigned",
                    **_of(assignment.attempt),
                    session_id=session_id,
                )
            case cef.SendToWorker(session_id, m.RecallWork(attempt)):
                _log.debug("work recalled: another worker could begin it", **_of(attempt), session_id=session_id)
            case cef.DeliverResult(attempt):
                _log.debug("result delivered", **_of(attempt))
            case cef.WarnOfSilence(session_id, worker_id, silent_s):
                _log.warning(
                    "worker is silent", worker_id=worker_id, session_id=session_id, silent_s=round(silent_s, 3)
                )
            case cef.CloseSession(session_id, reason, detail):
                _log.info("session closed", session_id=session_id, reason=reason, detail=detail)
            case cef.EndQuery(query_id, outcome, error):
                why = {} if error is None else {"code": error.code, "reason": error.message}
                alarming = error is not None and error.code == ErrorCode.QUARANTINED
                (_log.warning if alarming else _log.info)("query ended", query_id=query_id, outcome=outcome, **why)
            case cef.RefuseWork(key, reason):
                _log.warning("work refused", query_id=key.query_id, work_id=key.work_id, reason=reason)
            case _:
                pass


class WorkerJournal:
    def __init__(self) -> None:
        self._told_to_stop: set[AttemptId] = set()

    def stepped(self, event: wev.Event, effects: list[wef.Effect]) -> None:
        match event:
            case wev.SessionOpened(registered):
                _log.info(
                    "joined a coordinator", coordinator_id=registered.coordinator_id, session_id=registered.session_id
                )
            case wev.SessionLost(session_id):
                _log.info("session ended", session_id=session_id)
            case wev.ExecutionFailed(attempt) | wev.ExecutionEnded(attempt) | wev.ExecutionSucceeded(attempt) if (
                attempt in self._told_to_stop
            ):
                self._stopped(attempt)  # however it ended: nobody waits for it
            case wev.ExecutionEnded(attempt):
                _log.debug("work done, it leaves nothing", **_of(attempt))
            case wev.ExecutionFailed(attempt, error):
                _log.warning("work failed", **_of(attempt), code=error.code, reason=error.message)
            case wev.ExecutionSucceeded(attempt, artifact):
                _log.debug("work done", **_of(attempt), rows=artifact.row_count, size_bytes=artifact.size_bytes)
            case wev.ExecutionStopped(attempt):
                self._stopped(attempt)
            case wev.ResultEvicted(attempt):
                _log.debug("result evicted, the disk is needed", **_of(attempt))
            case wev.DrainRequested():
                _log.info("draining: nothing new is taken, what runs is finished")
            case wev.MessageReceived(session_id, m.DrainRequest()):
                _log.info("draining, as a coordinator asked", session_id=session_id)
            case _:
                pass
        for effect in effects:
            self._done(effect)

    def _done(self, effect: wef.Effect) -> None:
        match effect:
            case wef.StartExecution(attempt, spec):
                _log.debug("work starts", **_of(attempt), kind=spec.kind)
            case wef.StopExecution(attempt):
                self._told_to_stop.add(attempt)
                _log.debug("work is told to stop", **_of(attempt))
            case wef.SendToCoordinator(session_id, m.ArtifactLost(attempt, reason)):
                _log.warning("result lost", **_of(attempt), session_id=session_id, reason=reason)
            case wef.CloseSession(session_id, reason, detail):
                orderly = reason is CloseReason.GOODBYE
                (_log.info if orderly else _log.warning)("session closed", session_id=session_id, detail=detail)
            case wef.FinishDrain(clean):
                _log.info("drained" if clean else "the time for draining ran out")
            case _:
                pass

    def _stopped(self, attempt: AttemptId) -> None:
        self._told_to_stop.discard(attempt)
        _log.info("work stopped", **_of(attempt))
