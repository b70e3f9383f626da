"""Who is let in: by the name it asks for, the site it comes from, the token it shows and what it calls its body."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from quarterdeck.http.gate import Caller, Gate, GateRules, caller_of, named
from tests.http.asked import Answer, ask, ask_raw, respond

GOOD = "Bearer the-right-one"
Matches = Callable[[str | None], bool]


class Door:
    """The gate before an application, with who came through and how often it refused."""

    def __init__(
        self,
        matches: Matches | None = lambda header: header == GOOD,
        *,
        is_on_loopback: bool = True,
        names: tuple[str, ...] = (),
        origins: tuple[str, ...] = (),
        reading_needs_token: bool = False,
    ) -> None:
        self.refused = 0
        self.callers: list[Caller] = []
        rules = GateRules(
            matches,
            is_on_loopback,
            reading_needs_token=reading_needs_token,
            names=named(names),
            origins=frozenset(origins),
            reading_prefixes=("/api/v1/",),
        )
        self.app = Gate(self.answer, rules, self.refuse)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.callers.append(caller_of(scope))
        await respond(send, b"aye")

    def refuse(self) -> None:
        self.refused += 1

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return asyncio.run(ask(self.app, path, method, **headers))


# The token


def test_who_has_the_token_is_let_in() -> None:
    door = Door()
    assert door.ask("/works", authorization=GOOD).body == b"aye"
    assert door.refused == 0


@pytest.mark.parametrize("is_on_loopback", [True, False])
@pytest.mark.parametrize("path", ["/health", "/ready", "/-/healthy", "/-/ready"])
def test_probes_need_none(path: str, is_on_loopback: bool) -> None:
    door = Door(is_on_loopback=is_on_loopback)
    assert door.ask(path).body == b"aye"
    assert door.ask(path, authorization="Bearer wrong").body == b"aye"
    assert door.refused == 0


@pytest.mark.parametrize(
    "path",
    ["/v1/crew", "/v1/scan", "/recruiter/register", "/artifacts/x", "/health/", "/healthy", "//health", "/Ready"],
)
def test_everything_else_needs_it_on_loopback_too(path: str) -> None:
    door = Door()
    answer = door.ask(path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="quarterdeck"'
    assert answer.json["error"]["why"] == "it has no token, or more than one"
    assert "quarterdeck token" in answer.json["error"]["next_step"]
    assert b"aye" not in answer.body
    assert door.refused == 1


READING = ["/api/v1/query", "/api/v1/status/buildinfo", "/metrics", "/monitor/scaling", "/openapi.json"]


@pytest.mark.parametrize("path", READING)
def test_what_only_reads_is_open_on_loopback_and_nowhere_else(path: str) -> None:
    assert Door().ask(path).body == b"aye"
    assert Door(is_on_loopback=False).ask(path).status == 401
    assert Door(reading_needs_token=True).ask(path).status == 401
    assert Door(is_on_loopback=False).ask(path, authorization=GOOD).body == b"aye"


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_that_are_the_same_for_every_crew_are_open_so_that_a_browser_can_be_given_the_token(path: str) -> None:
    for door in (Door(), Door(is_on_loopback=False), Door(reading_needs_token=True)):
        assert door.ask(path).body == b"aye"
        assert door.ask(path, origin="https://evil.example", host="127.0.0.1").status == 403
    assert Door().ask(path, host="evil.example").status == 421


@pytest.mark.parametrize("path", ["/api/v1", "/api/v10/query", "/api/v1x", "/metricsx"])
def test_what_only_looks_like_it_is_not(path: str) -> None:
    assert Door().ask(path).status == 401


def test_a_wrong_token_is_told_from_none() -> None:
    answer = Door().ask("/v1/crew", authorization="Bearer wrong")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="quarterdeck", error="invalid_token"'
    assert answer.json["error"]["why"] == "its token is not the one of this crew"
    assert b"wrong" not in answer.body


def test_two_tokens_are_none() -> None:
    door = Door()
    twice = [(b"authorization", GOOD.encode()), (b"authorization", GOOD.encode())]
    assert asyncio.run(ask_raw(door.app, "/v1/crew", "GET", twice)).status == 401
    assert door.refused == 1


def test_bytes_that_are_no_text_reach_the_comparison() -> None:
    seen: list[str | None] = []

    def matches(header: str | None) -> bool:
        seen.append(header)
        return False

    door = Door(matches)
    assert asyncio.run(ask_raw(door.app, "/v1/crew", "GET", [(b"authorization", b"Bearer \xff")])).status == 401
    assert seen == ["Bearer \xff"]


def test_without_a_token_to_ask_for_everything_is_open() -> None:
    door = Door(None, is_on_loopback=False)
    assert door.ask("/v1/crew").body == b"aye"
    assert door.callers == [Caller(is_this_user=False)]


def test_who_shows_the_token_on_loopback_is_this_user_and_nobody_else_is() -> None:
    door = Door()
    door.ask("/v1/scan", authorization=GOOD)
    door.ask("/api/v1/query")
    assert door.callers == [Caller(is_this_user=True), Caller(is_this_user=False)]
    off = Door(is_on_loopback=False)
    off.ask("/v1/scan", authorization=GOOD)
    assert off.callers == [Caller(is_this_user=False)]


@pytest.mark.parametrize("header", ["forwarded", "x_forwarded_for", "x_forwarded_host", "x_real_ip", "via"])
def test_who_asks_through_a_proxy_may_be_anywhere(header: str) -> None:
    door = Door()
    assert door.ask("/v1/scan", authorization=GOOD, **{header: "10.0.0.7"}).body == b"aye"
    assert door.callers == [Caller(is_this_user=False)]


# The name


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:7070", "127.0.0.1:7070", "127.3.2.1", "[::1]:7070", "localhost."]
)
def test_loopback_goes_by_its_names(host: str) -> None:
    assert Door().ask("/api/v1/query", host=host).body == b"aye"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7070", "localhost.evil.example", "10.0.0.7:7070", "127.0.0.1.evil.example", ""],
)
@pytest.mark.parametrize("authorization", [None, GOOD])
def test_a_page_that_was_made_to_point_here_is_refused(host: str, authorization: str | None) -> None:
    door = Door()
    shown = {} if authorization is None else {"authorization": authorization}
    answer = door.ask("/api/v1/query", host=host, **shown)
    assert answer.status == 421
    assert "http_names" in answer.json["error"]["next_step"]
    assert (door.refused, door.callers) == (1, [])


def test_names_that_were_configured_are_taken() -> None:
    door = Door(names=("Quarterdeck.example",))
    assert door.ask("/api/v1/query", host="quarterdeck.example:443").body == b"aye"
    assert door.ask("/api/v1/query", host="other.example").status == 421


def test_two_hosts_are_none() -> None:
    twice = [(b"host", b"localhost"), (b"host", b"evil.example")]
    answer = asyncio.run(ask_raw(Door().app, "/api/v1/query", "GET", twice))
    assert answer.status == 421
    assert answer.json["error"]["why"] == "it is for several hosts: it has more than one Host"


def test_off_loopback_the_token_says_enough_and_without_one_names_of_strangers_are_refused() -> None:
    assert Door(is_on_loopback=False).ask("/v1/crew", host="crew.example", authorization=GOOD).body == b"aye"
    open_door = Door(None, is_on_loopback=False)
    for host in ("10.0.0.7:7070", "coordinator:7070", "localhost"):
        assert open_door.ask("/v1/crew", host=host).body == b"aye"
    assert open_door.ask("/v1/crew", host="evil.example").status == 421


# The site


@pytest.mark.parametrize("path", ["/v1/scan", "/recruiter/register", "/api/v1/query", "/metrics"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:3000",
        "http://127.0.0.1:7071",
        "http://[",
        "://",
        "",
        "http://127.0.0.1:7070/x",
        "http://evil.example@127.0.0.1:7070",
        "\xff",
    ],
)
def test_another_sites_page_is_refused(path: str, origin: str) -> None:
    door = Door()
    answer = door.ask(path, "POST", host="127.0.0.1:7070", origin=origin, authorization=GOOD)
    assert answer.status == 403
    assert "http_origins" in answer.json["error"]["next_step"]
    assert (door.refused, door.callers) == (1, [])


def test_own_pages_and_those_of_sites_on_the_list_may_ask() -> None:
    door = Door(origins=("https://tools.example",))
    assert door.ask("/api/v1/query", "POST", host="127.0.0.1:7070", origin="http://127.0.0.1:7070").body == b"aye"
    assert door.ask("/api/v1/query", "POST", host="127.0.0.1:7070", origin="https://tools.example").body == b"aye"


TOOLS = "https://tools.example"
PREFLIGHT = {"host": "127.0.0.1:7070", "access_control_request_method": "POST"}


def test_a_page_of_a_site_on_the_list_sees_the_answer_whatever_it_is() -> None:
    door = Door(origins=(TOOLS,))
    for path, status in (("/api/v1/query", 200), ("/v1/crew", 401)):
        answer = door.ask(path, host="127.0.0.1:7070", origin=TOOLS)
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == TOOLS
        assert answer.headers["vary"] == "origin"
    own = door.ask("/api/v1/query", host="127.0.0.1:7070", origin="http://127.0.0.1:7070")
    assert "access-control-allow-origin" not in own.headers


def test_a_browser_is_told_what_such_a_page_may_send_before_it_shows_a_token() -> None:
    door = Door(origins=(TOOLS,))
    answer = door.ask("/v1/search", "OPTIONS", origin=TOOLS, **PREFLIGHT)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == TOOLS
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert (door.callers, door.refused) == ([], 0)


def test_it_may_ask_as_of_prometheus_and_see_what_an_answer_says_besides() -> None:
    door = Door(origins=(TOOLS,))
    told = door.ask("/api/v1/query", "OPTIONS", origin=TOOLS, **PREFLIGHT).headers
    assert set(told["access-control-allow-methods"].split(", ")) == {"GET", "POST", "OPTIONS"}
    sent = {"accept", "authorization", "content-type", "origin", "x-scope-orgid"}
    assert set(told["access-control-allow-headers"].split(", ")) == sent
    assert told["vary"] == "origin"
    seen = door.ask("/api/v1/query", origin=TOOLS, host="127.0.0.1:7070").headers["access-control-expose-headers"]
    assert set(seen.split(", ")) == {"date", "retry-after", "x-query-id"}


def test_a_cache_is_told_that_answers_depend_on_the_site_also_when_there_is_none() -> None:
    door = Door(origins=(TOOLS,))
    for asked in ({}, {"origin": "https://evil.example"}, {"origin": TOOLS}):
        assert door.ask("/api/v1/query", host="127.0.0.1:7070", **asked).headers["vary"] == "origin"
    assert "vary" not in Door().ask("/api/v1/query").headers, "without a list they do not"


def test_a_page_of_the_internet_on_the_list_may_reach_a_private_address_when_its_browser_asks() -> None:
    door = Door(origins=(TOOLS,))
    asked = {**PREFLIGHT, "access_control_request_private_network": "true"}
    told = door.ask("/api/v1/query", "OPTIONS", origin=TOOLS, **asked).headers
    assert told["access-control-allow-private-network"] == "true"
    told = door.ask("/api/v1/query", "OPTIONS", origin=TOOLS, **PREFLIGHT).headers
    assert "access-control-allow-private-network" not in told


@pytest.mark.parametrize(
    "listed, good, bad",
    [
        (
            "https://*.example",
            ["https://a.example", "https://A.b.example"],
            [
                "https://example",
                "https://a.example.evil",
                "http://a.example",
                "https://evil@a.example",
                "https://.example",
            ],
        ),
        ("http://localhost:*", ["http://localhost:3000"], ["http://localhost", "http://localhost:3000.evil", "null"]),
        ("*", ["https://any.example", "http://127.0.0.1:1", "null"], []),
        ("https://a.example", ["https://a.example"], ["https://aXexample", "https://a.example:8443"]),
    ],
)
def test_a_star_stands_for_a_part_of_a_name_or_for_every_site(listed: str, good: list[str], bad: list[str]) -> None:
    door = Door(origins=(listed,))
    for origin in good:
        answer = door.ask("/api/v1/query", origin=origin, host="127.0.0.1:7070")
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)
    for origin in bad:
        answer = door.ask("/api/v1/query", origin=origin, host="127.0.0.1:7070")
        assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False)


def test_nobody_else_is_told_anything() -> None:
    door = Door(origins=(TOOLS,))
    for origin in ("https://evil.example", "null", f"{TOOLS}.evil.example", "http://tools.example"):
        for path in ("/v1/search", "/api/v1/query"):
            answer = door.ask(path, "OPTIONS", origin=origin, **PREFLIGHT)
            assert answer.status == 403
            assert "access-control-allow-origin" not in answer.headers
    assert door.ask("/v1/search", "OPTIONS", origin=TOOLS, **{**PREFLIGHT, "host": "evil.example"}).status == 421
    assert Door().ask("/v1/search", "OPTIONS", **PREFLIGHT).status == 401
    assert door.ask("/v1/search", "OPTIONS", origin="http://127.0.0.1:7070", **PREFLIGHT).status == 401


def test_a_picture_on_another_site_that_is_a_query_is_refused() -> None:
    headers = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "host": "localhost:7070"}
    assert Door().ask("/api/v1/query", **headers).status == 403
    assert Door().ask("/api/v1/query", **{**headers, "sec_fetch_site": "same-site"}).status == 403
    assert Door().ask("/api/v1/query", **{**headers, "sec_fetch_site": "same-origin"}).body == b"aye"
    assert Door().ask("/api/v1/query", **{**headers, "sec_fetch_site": "none"}).body == b"aye"


def test_a_person_may_follow_a_link_to_a_page_but_not_to_a_query() -> None:
    headers = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "host": "localhost:7070"}
    assert Door().ask("/docs", **headers).body == b"aye"
    assert Door().ask("/docs", "POST", **headers).status == 403
    assert Door().ask("/api/v1/query", **headers).status == 403


# The body


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
def test_a_body_that_is_not_called_json_is_refused(kind: str) -> None:
    door = Door()
    answer = door.ask("/recruiter/register", "POST", authorization=GOOD, content_length="2", content_type=kind)
    assert answer.status == 415
    assert (door.refused, door.callers) == (1, [])


def test_a_body_that_is_not_called_anything_is_refused() -> None:
    assert Door().ask("/v1/scan", "POST", authorization=GOOD, content_length="2").status == 415
    assert Door().ask("/v1/scan", "POST", authorization=GOOD, transfer_encoding="chunked").status == 415


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken(kind: str) -> None:
    assert Door().ask("/v1/scan", "POST", authorization=GOOD, content_length="2", content_type=kind).body == b"aye"


def test_no_body_needs_no_name() -> None:
    assert Door().ask("/worker/release", "POST", authorization=GOOD).body == b"aye"
    assert Door().ask("/worker/release", "POST", authorization=GOOD, content_length="0").body == b"aye"


def test_what_only_reads_takes_forms() -> None:
    form = {"content_length": "9", "content_type": "application/x-www-form-urlencoded"}
    assert Door().ask("/api/v1/query", "POST", **form).body == b"aye"


# What is no request


def test_a_socket_is_closed() -> None:
    async def test() -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            raise AssertionError("nobody asks")

        async def send(message: Message) -> None:
            sent.append(message)

        door = Door()
        await door.app({"type": "websocket", "path": "/v1", "headers": []}, receive, send)
        assert door.refused == 1
        return sent

    assert asyncio.run(test()) == [{"type": "websocket.close", "code": 1008, "reason": "not let in"}]


def test_the_start_of_an_application_is_no_request() -> None:
    passed: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    door = Gate(app, GateRules(lambda header: False, is_on_loopback=True), lambda: None)

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nobody asks")

    asyncio.run(door({"type": "lifespan"}, nothing, nothing))
    assert passed == ["lifespan"]
