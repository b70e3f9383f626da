"""What people see of the crew and its queries over HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from fastapi import FastAPI

from quarterdeck.core.ids import CandidateId, CoordinatorId, Fence, QueryId
from quarterdeck.core.leadership.model import LeaderRow
from quarterdeck.core.workcoord.coordinator import CoordinatorConfig, CoordinatorMachine
from quarterdeck.core.workcoord.messages import AssignWork, DiskReported, DrainRequest, Register, WorkAccepted
from quarterdeck.core.workcoord.model import DiskUse, WorkerStatus
from quarterdeck.crew.coordinator import CoordinatorDriver
from quarterdeck.crew.leadership import Leadership
from quarterdeck.crew.observers.summaries import Summaries
from quarterdeck.crew.process.status import queries_router, status_router
from quarterdeck.crew.query_log import QueryKind, QueryLog
from quarterdeck.http.errors import add_error_handlers
from tests.crew.played import (
    CountedIds,
    LoopClock,
    PlayedFetcher,
    PlayedLink,
    leaf,
    played,
    register_with,
    settle,
    worker_info,
)
from tests.http.asked import Answer, ask


class Shore:
    """A coordinator that runs, with its page."""

    def __init__(self) -> None:
        clock = LoopClock()
        summaries = Summaries(clock)
        self.machine = CoordinatorMachine(CoordinatorConfig(CoordinatorId("c0")))
        self.driver: CoordinatorDriver[str] = CoordinatorDriver(
            self.machine, clock=clock, ids=CountedIds(), fetcher=PlayedFetcher(), observer=summaries
        )
        self.app = FastAPI()
        self.log = QueryLog(clock, summaries.find)
        self.app.include_router(status_router(self.driver, clock, "c0"))
        self.app.include_router(queries_router(self.log))
        add_error_handlers(self.app)

    async def get(self, path: str) -> Answer:
        return await ask(self.app, path)

    async def post(self, path: str) -> Answer:
        return await ask(self.app, path, "POST")


@asynccontextmanager
async def shore_with_worker(name: str = "w0", credit: int = 1) -> AsyncGenerator[tuple[Shore, PlayedLink]]:
    shore, link = Shore(), PlayedLink(name)
    tasks = [asyncio.create_task(shore.driver.run()), asyncio.create_task(shore.driver.serve(link))]
    await register_with(link, name, credit)
    await settle()
    yield shore, link
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@played
async def test_the_crew_is_shown_with_the_state_and_the_load_of_each_worker() -> None:
    async with shore_with_worker() as (shore, link):
        handle = shore.driver.open_query(QueryId("q"), None)
        handle.submit(leaf("a"))
        handle.submit(leaf("b"))
        link.say(DiskReported(DiskUse(artifact_bytes=1, cache_bytes=2, free_bytes=3)))
        await asyncio.sleep(0.5)
        answer = await shore.get("/v1/crew")
    assert answer.status == 200
    assert "leader" not in answer.json, "none is elected"
    coordinator, (worker,) = answer.json["coordinator"], answer.json["workers"]
    assert 0.4 < coordinator.pop("oldest_age_s") < 0.6
    assert coordinator == {"name": "c0", "queue_depth": 1, "queries": 1}
    assert 0.4 < worker.pop("heard_s_ago") < 0.6
    assert worker == {
        "worker_id": "w0",
        "incarnation": 1,
        "state": "accepting",
        "node": "",
        "tenant": "default",
        "kinds": ["leaf", "scan"],
        "address": "",
        "slots": 1,
        "in_flight": 1,
        "credit": 1,
        "disk": {"artifact_bytes": 1, "cache_bytes": 2, "free_bytes": 3},
    }


@played
async def test_a_worker_that_has_not_told_of_its_disk_has_none_to_show() -> None:
    async with shore_with_worker() as (shore, _):
        (worker,) = (await shore.get("/v1/crew")).json["workers"]
    assert worker["disk"] is None


@played
async def test_what_waits_grows_older_although_there_is_no_worker_and_nothing_happens() -> None:
    shore = Shore()
    await asyncio.sleep(1.0)
    assert (await shore.get("/v1/crew")).json["coordinator"]["oldest_age_s"] == 0
    for name, wait_s in (("young", 2.0), ("younger", 3.0)):
        shore.driver.open_query(QueryId(name), None).submit(leaf("a", QueryId(name)))
        await asyncio.sleep(wait_s)
    answer = await shore.get("/v1/crew")
    assert answer.json["coordinator"] == {"name": "c0", "queue_depth": 2, "oldest_age_s": 5.0, "queries": 2}
    assert answer.json["workers"] == []


@played
async def test_a_worker_is_asked_to_drain() -> None:
    async with shore_with_worker() as (shore, link):
        answer = await shore.post("/v1/crew/w0/drain")
        assert (answer.status, answer.json) == (202, {"draining": "w0"})
        assert await link.hear_a(DrainRequest) == DrainRequest()


@played
async def test_to_drain_a_worker_that_is_not_there_is_an_error_that_says_where_to_look() -> None:
    shore = Shore()
    answer = await shore.post("/v1/crew/w9/drain")
    assert answer.status == 404
    error = answer.json["error"]
    assert (error["code"], error["what"]) == ("not_found", "there is no worker w9")
    assert "/v1/crew" in error["next_step"]


@played
async def test_queries_are_shown_while_they_run_and_after() -> None:
    async with shore_with_worker() as (shore, link):
        with shore.log.asked(QueryId("ended"), QueryKind("scan"), "select 1", "default"):
            shore.driver.open_query(QueryId("ended"), None).seal()
        shore.log.asked(QueryId("running"), QueryKind("metrics"), "up", "acme").begin()
        running = shore.driver.open_query(QueryId("running"), None)
        running.submit(leaf("a", QueryId("running")))
        assignment: AssignWork = await link.hear_a(AssignWork)
        link.say(WorkAccepted(assignment.attempt))
        await settle()
        all_of_them, one = await shore.get("/v1/queries"), await shore.get("/v1/queries/running")
    assert [(each["query_id"], each["state"]) for each in all_of_them.json] == [
        ("running", "running"),
        ("ended", "succeeded"),
    ]
    assert {**one.json, "age_s": 0} == {**all_of_them.json[0], "age_s": 0}
    assert (one.json["works"], one.json["attempts"], one.json["delivered"]) == (1, 1, 0)
    assert [(each["kind"], each["text"], each["tenant"]) for each in all_of_them.json] == [
        ("metrics", "up", "acme"),
        ("scan", "select 1", "default"),
    ]


@played
async def test_a_tenant_sees_its_own_queries_and_whoever_names_none_sees_all() -> None:
    shore = Shore()
    for tenant in ("acme", "default"):
        shore.log.asked(QueryId(tenant), QueryKind("search"), "error", tenant).end(None)

    async def seen(**headers: str) -> list[str]:
        return [each["query_id"] for each in (await ask(shore.app, "/v1/queries", **headers)).json]

    assert await seen() == ["default", "acme"]
    assert await seen(x_scope_orgid="acme") == ["acme"]
    assert (await ask(shore.app, "/v1/queries/acme", x_scope_orgid="acme")).status == 200
    assert (await ask(shore.app, "/v1/queries/acme", x_scope_orgid="default")).status == 404


@played
async def test_no_more_queries_are_told_than_are_asked_for() -> None:
    shore = Shore()
    for number in range(120):
        shore.log.asked(QueryId(str(number)), QueryKind("scan"), "select 1", "default").end(None)
    assert len((await shore.get("/v1/queries")).json) == 100
    assert [each["query_id"] for each in (await shore.get("/v1/queries?limit=2")).json] == ["119", "118"]
    assert (await shore.get("/v1/queries?limit=1001")).status == 400


@played
async def test_a_query_that_nobody_knows_is_not_found() -> None:
    answer = await Shore().get("/v1/queries/q9")
    assert answer.status == 404
    assert answer.json["error"]["what"] == "query q9 is not known"


@played
async def test_one_tenant_sees_the_workers_that_serve_it_and_their_works() -> None:
    async with shore_with_worker("common") as (shore, _):
        link = PlayedLink("theirs")
        serving = asyncio.create_task(shore.driver.serve(link))
        info = replace(worker_info("theirs"), tenant="acme")
        link.say(Register(info, WorkerStatus(accepting_work=True)))
        await settle()
        handle = shore.driver.open_query(QueryId("q"), None)
        handle.submit(replace(leaf("a"), tenant="acme"))
        await asyncio.sleep(0.5)

        async def seen(tenant: str) -> tuple[list[str], dict[str, object]]:
            told = (await ask(shore.app, "/v1/crew", x_scope_orgid=tenant)).json
            return [worker["worker_id"] for worker in told["workers"]], told["coordinator"]

        workers, coordinator = await seen("acme")
        assert workers == ["theirs"]
        assert (coordinator["queries"], coordinator["queue_depth"], coordinator["oldest_age_s"] != 0) == (1, 1, True)
        for tenant in ("default", "nobody"):  # who has no workers is served by the default tenant's
            workers, coordinator = await seen(tenant)
            assert workers == ["common"]
            assert coordinator == {"name": "c0", "queries": 0, "queue_depth": 0, "oldest_age_s": 0.0}
        serving.cancel()
        await asyncio.wait([serving])


class Election(Leadership):
    """One of which the test says how it stands."""

    def __init__(self) -> None:
        self.row: LeaderRow | None = None
        self.own: Fence | None = None

    @property
    def leader(self) -> LeaderRow | None:
        return self.row

    @property
    def fence(self) -> Fence | None:
        return self.own


@played
async def test_where_a_leader_is_elected_the_page_tells_which() -> None:
    shore, election = Shore(), Election()
    app = FastAPI()
    app.include_router(status_router(shore.driver, LoopClock(), "c0", election))
    assert (await ask(app, "/v1/crew")).json["leader"] is None
    election.row = LeaderRow(CandidateId("x"), "c1", Fence(4), beat=9, lease_s=10.0)
    assert (await ask(app, "/v1/crew")).json["leader"] == {"name": "c1", "fence": 4, "is_this_one": False}
    election.own = Fence(4)
    assert (await ask(app, "/v1/crew")).json["leader"]["is_this_one"] is True
