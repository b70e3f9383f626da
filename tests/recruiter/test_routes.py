"""`/recruiter/…` over real connections: documents in both spellings, refusals that help, and polls that are held."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvloop

from quarterdeck.crew.clocks import MonotonicClock, RandomIds
from quarterdeck.crew.process.pages import application
from quarterdeck.http.body_limit import LIMIT_BYTES
from quarterdeck.http.gate import GateRules
from quarterdeck.http.monitor import MonitorSources
from quarterdeck.http.server import HttpServer
from quarterdeck.recruiter.routes import RecruiterRoute, recruiter_router
from quarterdeck.recruiter.service import RecruiterService
from quarterdeck.security.tokens import SharedToken
from tests.http.asked import Answer, Client, Run, connected, served, until

TOKEN = "correct-horse-battery"
JSON = "Host: here\r\nContent-Type: application/json\r\n"
OPEN = GateRules(None, is_on_loopback=True, names=frozenset({"here"}))
GUARDED = GateRules(SharedToken.from_text(TOKEN).matches, is_on_loopback=False)
WORKER = {"addr": "10.0.0.7:4000", "node_name": "rack1", "timeout": 60_000}


@pytest.fixture(scope="module", params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    request.param(asyncio.sleep(0))  # uvloop makes a pipe, once, and keeps it
    return request.param


class Scene:
    """A recruiter behind a server, and clients of it."""

    def __init__(self, stack: AsyncExitStack, service: RecruiterService, server: HttpServer) -> None:
        self._stack = stack
        self.service = service
        self.server = server

    async def client(self) -> Client:
        return await self._stack.enter_async_context(connected(self.server))

    async def post(self, path: str, document: object, **headers: str) -> Client:
        """Sends it; the answer is the client's to wait for."""
        client = await self.client()
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: here",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        client.send("\r\n".join([*lines, "", ""]).encode() + body)
        return client

    async def register(self, document: object = WORKER, **headers: str) -> Client:
        """A poll that is held."""
        before = self.service.figures().registrations
        client = await self.post("/recruiter/register", document, **headers)
        await until(lambda: self.service.figures().registrations == before + 1)
        return client

    async def recruit(self, document: object, **headers: str) -> Answer:
        return await (await self.post("/recruiter/recruit", document, **headers)).answer()

    async def get(self, path: str, *headers: str) -> Answer:
        client = await self.client()
        client.get(path, *headers)
        return await client.answer()


@asynccontextmanager
async def recruiting(guard: GateRules = OPEN, *, raw: bool = True) -> AsyncGenerator[Scene]:
    service = RecruiterService(MonotonicClock(), RandomIds())
    route = RecruiterRoute(service)
    sources = MonitorSources({}, lambda: (), lambda accept: (b"", "text/plain"), dict)
    app = application(
        "A test",
        sources,
        guard,
        routers=[recruiter_router(service, route)],
        raw=route.by_path() if raw else None,
        on_rejected=lambda: None,
    )
    async with served(app) as server, AsyncExitStack() as stack:
        try:
            yield Scene(stack, service, server)
        finally:
            service.close()


@pytest.mark.parametrize("raw", [True, False])
def test_a_registration_is_held_until_its_worker_is_recruited(run: Run, raw: bool) -> None:
    async def test() -> None:
        async with recruiting(raw=raw) as scene:
            worker = await scene.register()
            recruited = await scene.recruit({"number_requested": 3, "label": "nightly"})
            assert recruited.status == 200
            (given,) = recruited.json["workers"]
            reservation = given.pop("reservation")
            assert given == {"addr": "10.0.0.7:4000", "node": "rack1", "node_name": "rack1", "slots": 1}
            assert reservation
            answer = await worker.answer()
            assert answer.status == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.json == {
                "directive": "reserved",
                "reservation": reservation,
                "label": "nightly",
                "tenant": "default",
            }

    run(test())


def test_the_other_spellings_are_understood(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            await scene.register({"addr": "a:1", "node": "n1", "labels": ["x"], "label": "y", "slots": 4})
            await scene.register({"addr": "b:1", "node": "n1", "node_name": "n1", "label": ""})
            listed = (await scene.get("/recruiter/listfree")).json["workers"]
            assert [(one["labels"], one["slots"]) for one in listed] == [(["x", "y"], 4), ([], 1)]
            assert (await scene.recruit({"N": 1, "number_requested": 1, "label": "y"})).json["workers"][0]["slots"] == 4
            assert [one["addr"] for one in (await scene.recruit({"N": 2})).json["workers"]] == ["b:1"]

    run(test())


def test_a_poll_whose_time_is_over_is_told_to_register_again_and_can_do_so_on_its_connection(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            body = json.dumps({**WORKER, "timeout": 1}).encode()
            head = f"POST /recruiter/register HTTP/1.1\r\n{JSON}Content-Length: {len(body)}\r\n\r\n".encode()
            client = await scene.client()
            for _ in range(3):
                client.send(head + body)
                answer = await client.answer()
                assert (answer.status, answer.json) == (200, {"directive": "reregister"})
            assert scene.service.figures().free == 0

    run(test())


def test_a_recruit_in_the_moment_after_the_registration_gets_the_worker(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            for _ in range(20):
                worker = await scene.post("/recruiter/register", WORKER)
                while not (await scene.recruit({"N": 1})).json["workers"]:  # as soon as it can be
                    pass
                assert (await worker.answer()).json["directive"] == "reserved"

    run(test())


def test_a_worker_that_hangs_up_is_out_of_the_pool(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            worker = await scene.register()
            await worker.close()
            await until(lambda: scene.service.figures().free == 0)
            assert (await scene.recruit({"N": 1})).json == {"workers": []}
            again = await scene.register()
            assert len((await scene.recruit({"N": 1})).json["workers"]) == 1
            assert (await again.answer()).json["directive"] == "reserved"

    run(test())


def test_the_older_poll_of_an_address_is_refused_and_the_newer_is_held(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            older = await scene.register()
            newer = await scene.register()
            refused = await older.answer()
            assert refused.status == 409
            assert "10.0.0.7:4000 has registered again since" in refused.json["error"]["why"]
            assert len((await scene.recruit({"N": 5})).json["workers"]) == 1
            assert (await newer.answer()).status == 200

    run(test())


def test_polls_are_answered_at_once_when_the_recruiter_closes_and_new_ones_refused(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            workers = [await scene.register({**WORKER, "addr": f"w{index}:1"}) for index in range(5)]
            scene.service.close()
            for worker in workers:
                assert (await worker.answer()).json == {"directive": "reregister"}
            refused = await (await scene.post("/recruiter/register", WORKER)).answer()
            assert (refused.status, refused.json["error"]["retryable"]) == (503, True)
            assert (await scene.recruit({"N": 1})).status == 503

    run(test())


def test_a_poll_that_the_server_cuts_off_is_out_of_the_pool(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            await scene.register()
            assert await scene.server.stop(0.01) == 1
            assert scene.service.figures().free == 0

    run(test())


BAD_REGISTRATIONS: list[tuple[object, str]] = [
    (b"", "Invalid JSON"),
    (b"{", "Invalid JSON"),
    (b"\xff\xfe", "Invalid JSON"),
    ([], "should be an object"),
    ({**WORKER, "addr": "10.0.0.7"}, "HOST:PORT"),
    ({**WORKER, "addr": ":4000"}, "HOST:PORT"),
    ({**WORKER, "addr": "10.0.0.7:"}, "HOST:PORT"),
    ({**WORKER, "addr": "10.0.0.7:0"}, "HOST:PORT"),
    ({**WORKER, "addr": "10.0.0.7:65536"}, "HOST:PORT"),
    ({**WORKER, "addr": "10.0.0.7:http"}, "HOST:PORT"),
    ({**WORKER, "addr": "::1:80"}, "HOST:PORT"),
    ({**WORKER, "addr": "user@host:80"}, "HOST:PORT"),
    ({**WORKER, "addr": "host/path:80"}, "HOST:PORT"),
    ({**WORKER, "addr": 4000}, "addr is 4000"),
    ({"node": "n1"}, "addr: Field required"),
    ({"addr": "a:1"}, "neither node_name nor node"),
    ({"addr": "a:1", "node": ""}, "node is ''"),
    ({"addr": "a:1", "node": "line\nbreak"}, "can be printed"),
    ({"addr": "a:1", "node": "n1", "node_name": "n2"}, "node_name is 'n2' and node is 'n1'"),
    ({**WORKER, "timeout": 0}, "timeout is 0"),
    ({**WORKER, "timeout": -5}, "timeout is -5"),
    ({**WORKER, "timeout": 3_600_001}, "timeout is 3600001"),
    ({**WORKER, "timeout": "30s"}, "timeout is '30s'"),
    ({**WORKER, "timeout": True}, "timeout is True"),
    ({**WORKER, "slots": 0}, "slots is 0"),
    ({**WORKER, "labels": "x"}, "labels is 'x'"),
    ({**WORKER, "labels": [""]}, "labels.0 is ''"),
    ({**WORKER, "labels": ["x"] * 65}, "at most 64"),
    ({**WORKER, "lables": ["x"]}, "lables is ['x']"),
]
BAD_RECRUITS: list[tuple[object, str]] = [
    (b"", "Invalid JSON"),
    ({}, "neither number_requested nor N"),
    ({"N": 0}, "N is 0"),
    ({"number_requested": -1}, "number_requested is -1"),
    ({"N": 1, "number_requested": 2}, "number_requested is 2 and N is 1"),
    ({"N": "3"}, "N is '3'"),
    ({"N": 1.5}, "N is 1.5"),
    ({"N": 10**30}, "N is 1000"),
    ({"N": 1, "label": 3}, "label is 3"),
    ({"N": 1, "lable": "x"}, "lable is 'x'"),
]


def test_bad_requests_are_refused_with_a_reason_and_change_nothing() -> None:
    async def test() -> None:
        async with recruiting() as scene:
            cases = [("/recruiter/register", case) for case in BAD_REGISTRATIONS]
            cases += [("/recruiter/recruit", case) for case in BAD_RECRUITS]
            for path, (document, reason) in cases:
                answer = await (await scene.post(path, document)).answer()
                assert answer.status == 400, document
                assert reason in answer.json["error"]["why"], document
            figures = scene.service.figures()
            assert (figures.registrations, figures.recruits) == (0, 0)

    asyncio.run(test())


def test_an_address_is_brought_into_one_form(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            for addr in ("[::1]:080", "worker-1.example:80"):
                await scene.register({**WORKER, "addr": addr})
            listed = (await scene.get("/recruiter/listfree")).json["workers"]
            assert [one["addr"] for one in listed] == ["[::1]:80", "worker-1.example:80"]

    run(test())


def test_another_method_or_path_is_refused_in_our_form(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            for path in ("/recruiter/register", "/recruiter/recruit"):
                wrong = await scene.get(path)
                assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
            for path in ("/recruiter/registers", "/recruiter/recruit/", "/recruiter/other"):
                missing = await scene.get(path)
                assert (missing.status, missing.json["error"]["code"]) == (404, "not_found")

    run(test())


def test_a_body_that_is_too_large_is_refused(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            client = await scene.client()
            client.send(
                f"POST /recruiter/register HTTP/1.1\r\n{JSON}Content-Length: {LIMIT_BYTES + 1}\r\n\r\n".encode()
            )
            assert (await client.answer()).status == 413

    run(test())


def test_a_client_that_goes_before_its_body_is_whole_has_registered_nothing(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            client = await scene.client()
            client.send(f"POST /recruiter/register HTTP/1.1\r\n{JSON}Content-Length: 50\r\n\r\n{{".encode())
            await client.close()
            assert (await scene.get("/recruiter/stats")).json["registered"] == 0

    run(test())


def test_a_token_is_needed_where_there_is_one(run: Run) -> None:
    async def test() -> None:
        async with recruiting(GUARDED) as scene:
            for path, document in (("/recruiter/register", WORKER), ("/recruiter/recruit", {"N": 1})):
                assert (await (await scene.post(path, document)).answer()).status == 401
            for path in ("/recruiter/stats", "/recruiter/listfree"):
                assert (await scene.get(path)).status == 401
            assert scene.service.figures().registrations == 0
            allowed = await scene.post("/recruiter/recruit", {"N": 1}, Authorization=f"Bearer {TOKEN}")
            assert (await allowed.answer()).json == {"workers": []}

    run(test())


def test_stats_and_free_workers_are_told(run: Run) -> None:
    async def test() -> None:
        async with recruiting() as scene:
            workers = [
                await scene.register({"addr": f"w{index}:1", "node": f"n{index % 2}", "label": "x"})
                for index in range(3)
            ]
            assert (await scene.recruit({"N": 5, "label": "other"})).json == {"workers": []}
            (given,) = (await scene.recruit({"N": 1})).json["workers"]
            assert (await scene.get("/recruiter/stats")).json == {
                "len_free_pool": 2,
                "len_node_pool": 2,
                "reserved": 1,
                "registered": 3,
                "asked": 6,
                "granted": 1,
                "by_node": {"n0": {"free": 1, "granted": 1}, "n1": {"free": 1, "granted": 0}},
            }
            listed: list[dict[str, Any]] = (await scene.get("/recruiter/listfree")).json["workers"]
            assert len(listed) == 2
            assert given["addr"] not in {one["addr"] for one in listed}
            assert all(one.pop("waiting_s") >= 0 for one in listed)
            assert listed[0] == {"addr": "w1:1", "node": "n1", "node_name": "n1", "slots": 1, "labels": ["x"]}
            assert (await workers[0].answer()).status == 200

    run(test())


def test_each_path_is_for_one_tenant_and_lists_are_for_all_without_one(run: Run) -> None:
    theirs, others = {"X-Scope-OrgID": "acme"}, {"X-Scope-OrgID": "other"}

    async def test() -> None:
        async with recruiting() as scene:
            worker = await scene.register({**WORKER, "addr": "a:1", "node_name": "rack-a"}, **theirs)
            await scene.register({**WORKER, "addr": "o:1", "node_name": "rack-o"}, **others)
            for header, addr in (("acme", "a:1"), ("other", "o:1")):
                (free,) = (await scene.get("/recruiter/listfree", f"X-Scope-OrgID: {header}")).json["workers"]
                assert free["addr"] == addr
                stats = (await scene.get("/recruiter/stats", f"X-Scope-OrgID: {header}")).json
                assert (stats["len_free_pool"], stats["registered"], len(stats["by_node"])) == (1, 1, 1)
            assert len((await scene.get("/recruiter/listfree")).json["workers"]) == 2
            assert (await scene.get("/recruiter/stats")).json["len_free_pool"] == 2
            assert [one["addr"] for one in (await scene.recruit({"N": 5}, **theirs)).json["workers"]] == ["a:1"]
            assert (await worker.answer()).json["tenant"] == "acme"
            assert (await scene.get("/recruiter/stats", "X-Scope-OrgID: other")).json["asked"] == 0

    run(test())


@pytest.mark.parametrize("raw", [True, False])
def test_a_header_that_names_no_tenant_is_refused_on_each_path(run: Run, raw: bool) -> None:
    async def test() -> None:
        async with recruiting(raw=raw) as scene:
            nobody = {"X-Scope-OrgID": "x" * 151}
            answers = [
                await scene.recruit({"N": 1}, **nobody),
                await (await scene.post("/recruiter/register", WORKER, **nobody)).answer(),
                *[
                    await scene.get(f"/recruiter/{path}", "X-Scope-OrgID: " + "x" * 151)
                    for path in ("stats", "listfree")
                ],
            ]
            assert [(one.status, one.json["error"]["code"]) for one in answers] == [(400, "invalid_argument")] * 4
            assert scene.service.figures().registrations == 0

    run(test())


def test_all_paths_are_in_the_documentation_with_what_they_take_and_answer() -> None:
    async def test() -> None:
        async with recruiting() as scene:
            document = (await scene.get("/openapi.json")).json
        register = document["paths"]["/recruiter/register"]["post"]
        taken = register["requestBody"]["content"]["application/json"]["schema"]["properties"]
        assert {"addr", "node", "node_name", "timeout", "labels", "slots"} <= set(taken)
        assert {"200", "400", "409", "503"} <= set(register["responses"])
        recruit = document["paths"]["/recruiter/recruit"]["post"]
        assert "number_requested" in recruit["requestBody"]["content"]["application/json"]["schema"]["properties"]
        assert recruit["responses"]["200"]["content"]["application/json"]["schema"]
        assert {"/recruiter/stats", "/recruiter/listfree"} <= set(document["paths"])

    asyncio.run(test())
