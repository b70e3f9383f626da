"""The crew as a coordinator sees it, for people: who is there, in which state, with how much to do."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId, WorkerId
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine
from quarterdeck.core.workcoord.coordinator.records import Session
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.observers.metering import oldest_wait_s
from quarterdeck.crew.observers.summaries import Summaries
from quarterdeck.crew.ports import Clock


def status_router(driver: CoordinatorDriver[Any], summaries: Summaries, clock: Clock, name: str) -> APIRouter:
    """`/v1/crew`, `/v1/queries` and what can be asked of single ones."""
    router = APIRouter(prefix="/v1", tags=["crew"])

    @router.get("/crew")
    async def crew() -> dict[str, object]:
        """The coordinator, its workers and what is waiting."""
        return crew_document(driver.machine, clock.now(), name)

    @router.post("/crew/{worker_id}/drain", status_code=202)
    async def drain(worker_id: str) -> dict[str, str]:
        """Asks a worker to take nothing new, finish what it runs, and stop."""
        if driver.machine.roster.of_worker(WorkerId(worker_id)) is None:
            raise QuarterdeckError(
                ErrorCode.NOT_FOUND,
                f"there is no worker {worker_id}",
                "it has no session with this coordinator",
                "see GET /v1/crew for those that have",
            )
        driver.drain_worker(WorkerId(worker_id))
        return {"draining": worker_id}

    @router.get("/queries")
    async def queries() -> list[dict[str, object]]:
        """Queries that run, and the last that ended."""
        return [summary.document() for summary in summaries]

    @router.get("/queries/{query_id}")
    async def query(query_id: str) -> dict[str, object]:
        """What became of one query."""
        summary = summaries.find(QueryId(query_id))
        if summary is None:
            raise QuarterdeckError(
                ErrorCode.NOT_FOUND,
                f"query {query_id} is not known",
                "this coordinator did not run it, or ran it too long ago",
                "see GET /v1/queries for those it knows",
            )
        return summary.document()

    _ = (crew, drain, queries, query)
    return router


def crew_document(machine: CoordinatorMachine, now: float, name: str) -> dict[str, object]:
    return {
        "coordinator": {
            "name": name,
            "queue_depth": machine.pending,
            "oldest_age_s": round(oldest_wait_s(machine, now), 3),
            "queries": sum(1 for _ in machine.ledger.queries()),
        },
        "workers": [_worker_document(session, now) for session in machine.roster.sessions()],
    }


def _worker_document(session: Session, now: float) -> dict[str, object]:
    worker = session.worker
    return {
        "worker_id": worker.worker_id,
        "incarnation": worker.incarnation,
        "state": session.state.value,
        "node": worker.node,
        "tenant": worker.tenant,
        "kinds": sorted(worker.kinds),
        "address": worker.address,
        "slots": worker.slots,
        "in_flight": session.outstanding,
        "credit": session.credit,
        "heard_s_ago": round(max(0.0, now - session.watch.last_heard), 3),
        "disk": None if session.disk is None else asdict(session.disk),
    }
