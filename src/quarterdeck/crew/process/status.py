"""The crew as a coordinator sees it, for people: who is there, in which state, with how much to do."""

from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId, WorkerId
from quarterdeck.core.tenants import serving_tenant
from quarterdeck.core.workcoord.coordinator import CoordinatorMachine, records
from quarterdeck.core.workcoord.coordinator.records import Session
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.leadership import Leadership
from quarterdeck.crew.observers.metering import oldest_wait_s
from quarterdeck.crew.ports import Clock
from quarterdeck.crew.query_log import QueryLog
from quarterdeck.http.tenants import LookingTenant

_TOLD: Final = 100
_MOST_TOLD: Final = 1000
_NO_STORE: Final = {"Cache-Control": "no-store"}
_EXAMPLE: Final[dict[str, object]] = {
    "works": 12,
    "delivered": 3,
    "attempts": 4,
    "by_worker": {"worker-1": 3},
    "rows": 1500,
    "artifact_bytes": 40960,
    "first_result_s": 0.25,
    "query_id": "0d768d58a1b24c6f8f3f7a3f3d5c9e10",
    "kind": "sql",
    "text": "select count(*) from files",
    "tenant": "default",
    "state": "failed",
    "asked_at_s": 1763500000.123,
    "age_s": 42.5,
    "duration_s": 1.75,
    "error": {"code": "work_failed", "message": "there is no column x"},
}


def _answers(example: object) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": "What is known.", "content": {"application/json": {"example": example}}}}


def status_router(
    driver: CoordinatorDriver[Any], clock: Clock, name: str, leadership: Leadership | None = None
) -> APIRouter:
    """`/v1/crew`, and what can be asked of a single worker. Where leaders are elected, it tells who leads."""
    router = APIRouter(prefix="/v1", tags=["crew"])

    @router.get("/crew")
    async def crew(tenant: LookingTenant) -> dict[str, object]:
        """The coordinator, its workers and what is waiting; of one tenant, what serves it."""
        document = crew_document(driver.machine, clock.now(), name, tenant)
        return document if leadership is None else {**document, "leader": leader_document(leadership)}

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

    _ = (crew, drain)
    return router


def queries_router(log: QueryLog) -> APIRouter:
    """`/v1/queries`, and what can be asked of a single one."""
    router = APIRouter(prefix="/v1", tags=["queries"])

    @router.get("/queries", response_class=Response, responses=_answers([_EXAMPLE]))
    async def queries(
        tenant: LookingTenant,
        limit: Annotated[int, Query(ge=1, le=_MOST_TOLD, description="How many queries to list at most.")] = _TOLD,
    ) -> Response:
        """Queries of every kind: those that are running, those that wait, and the last that ended.

        Texts are cut after 1,000 characters. Values of secrets and control characters in them are replaced.
        """
        return JSONResponse(log.documents(limit, tenant), headers=_NO_STORE)

    @router.get("/queries/{query_id}", response_class=Response, responses=_answers(_EXAMPLE))
    async def query(query_id: str, tenant: LookingTenant) -> Response:
        """What became of one query. For a search, `/v1/searches/{query_id}` tells more."""
        found = log.find(QueryId(query_id), tenant)
        if found is None:
            raise QuarterdeckError(
                ErrorCode.NOT_FOUND,
                f"query {query_id} is not known",
                "this process did not run it, or ran it too long ago",
                "see GET /v1/queries for those it knows",
            )
        return JSONResponse(found.document(), headers=_NO_STORE)

    _ = (queries, query)
    return router


def crew_document(machine: CoordinatorMachine, now: float, name: str, tenant: str | None = None) -> dict[str, object]:
    sessions, queries = list(machine.roster.sessions()), list(machine.ledger.queries())
    depth = machine.pending
    if tenant is not None:
        serving = serving_tenant(tenant, {session.worker.tenant for session in sessions})
        sessions = [session for session in sessions if session.worker.tenant == serving]
        queries = [query for query in queries if _is_of(query, serving)]
        depth = sum(len(query.pending) for query in queries)
    return {
        "coordinator": {
            "name": name,
            "queue_depth": depth,
            "oldest_age_s": round(oldest_wait_s(queries, now), 3),
            "queries": len(queries),
        },
        "workers": [_worker_document(session, now) for session in sessions],
    }


def _is_of(query: records.Query, serving: str) -> bool:
    """Whether this tenant's workers do it: all works of a query are one tenant's."""
    return any(work.spec.tenant == serving for work in islice(query.works.values(), 1))


def leader_document(leadership: Leadership) -> dict[str, object] | None:
    """None when nobody leads, as far as this coordinator knows."""
    leader = leadership.leader
    if leader is None:
        return None
    return {"name": leader.name, "fence": leader.fence, "is_this_one": leadership.fence is not None}


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
