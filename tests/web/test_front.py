"""The page at `/`: the same for everybody, whole in itself, and safe whatever a stranger calls this server."""

import asyncio
import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from fastapi import FastAPI

from quarterdeck import __version__
from quarterdeck.search.asks import ASKS
from quarterdeck.search.process import FRONT as RECRUITER_FRONT
from quarterdeck.web import fronts
from quarterdeck.web.front import Ask, Front, Panel, front_router
from quarterdeck.web.page import FRONT_SCRIPT
from tests.http.asked import Answer, ask

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CURL = Ask("PromQL with curl", "curl -G {url}/api/v1/query --data-urlencode 'query=up'")
COORDINATOR = fronts.coordinator([CURL, *ASKS])
ALL = [COORDINATOR, RECRUITER_FRONT, fronts.WORKER]
STRANGE = Front("<role>", 'about "it" & <more>', (Ask("<ask>", "<b>{url}</b>"),), (Panel("crew", 'v1"><x', "<panel>"),))


def get(front: Front = COORDINATOR, lacks: list[str] | None = None, **headers: str) -> Answer:
    app = FastAPI()
    app.include_router(front_router(front, lambda: lacks or []))
    return asyncio.run(ask(app, "/", **{"host": "127.0.0.1:7070", **headers}))


class Read(HTMLParser):
    """What a page consists of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._tag = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._tag = tag

    def handle_data(self, data: str) -> None:
        self.texts[self._tag] = self.texts.get(self._tag, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""


def policy_of(answer: Answer) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in answer.headers["content-security-policy"].split(";"))
    return {name: value for name, _, value in parts}


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("front", ALL)
def test_a_browser_gets_a_page_that_loads_nothing_from_anywhere(front: Front) -> None:
    answer = get(front, accept=BROWSER)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    read = Read(answer.body.decode())
    addresses = [value for _, named in read.tags for name, value in named.items() if name in ("href", "src", "action")]
    assert "docs" in addresses
    assert all(value and not re.match(r"(?!data:)[a-z]+:|/", value) for value in addresses), (
        "also behind a proxy's path"
    )
    assert not [name for _, named in read.tags for name in named if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("front", ALL)
def test_the_browser_is_told_to_run_and_draw_nothing_but_what_stands_there(front: Front) -> None:
    answer = get(front, accept=BROWSER)
    policy, read = policy_of(answer), Read(answer.body.decode())
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == digest(read.texts["script"])
    assert policy["style-src"] == digest(read.texts["style"])
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_the_script_writes_texts_only_and_keeps_the_token_for_this_tab() -> None:
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "cookie"):
        assert unsafe not in FRONT_SCRIPT
    assert "</script" not in FRONT_SCRIPT


def test_a_long_name_is_cut_and_leaves_the_text_of_a_query_its_room() -> None:
    style = Read(get(accept=BROWSER).body.decode()).texts["style"]
    for drawn in ("name(one.tenant)", "name(one.worker_id)", "name(one.node)"):
        assert drawn in FRONT_SCRIPT
    assert re.search(r"td\.name \{[^}]*max-width: [^}]*text-overflow: ellipsis", style)
    assert re.search(r"td\.text \{[^}]*min-width: ", style)


def test_that_there_is_no_answer_is_told_where_it_can_be_seen() -> None:
    told = FRONT_SCRIPT.index("No answer")
    then = FRONT_SCRIPT[told : told + 250]
    assert "live.hidden = false;" in then
    assert 'ready.textContent, ready.className] = ["no answer", "late"]' in then


def test_what_is_not_ours_is_escaped() -> None:
    body = get(STRANGE, ["<why>"], accept=BROWSER).body.decode()
    for text in ("<role>", "<more>", "<ask>", "<x", "<panel>", "<why>", "<b>"):
        assert text not in body
    assert "not ready: &lt;why&gt;" in body
    assert "&lt;b&gt;http://127.0.0.1:7070&lt;/b&gt;" in body


@pytest.mark.parametrize("host", ["a;rm -rf x", "$(id)", "<script>", "a b", "x" * 300, "[::1", "", "a:b"])
def test_a_host_that_is_none_is_not_put_into_commands(host: str) -> None:
    for accept in (BROWSER, "*/*", "application/json"):
        body = get(accept=accept, host=host).body.decode()
        assert "curl -G http://localhost/api/v1/query" in body
        assert not host or host not in body.replace("<script>", "", 1)


@pytest.mark.parametrize("host", ["crew.example", "10.0.0.7:7070", "[::1]:7070"])
def test_commands_name_the_server_as_it_was_asked_for(host: str) -> None:
    assert f"curl -G http://{host}/api/v1/query" in get(host=host).body.decode()


def test_who_is_no_browser_gets_text_or_json() -> None:
    text = get(accept="*/*")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.body.decode().startswith(f"Quarterdeck coordinator {__version__}, ready.\n")
    told = get(accept="application/json", lacks=["no worker accepts work"]).json
    assert (told["name"], told["role"], told["ready"]) == ("Quarterdeck", "coordinator", False)
    assert told["missing"] == ["no worker accepts work"]
    assert told["links"]["docs"] == "http://127.0.0.1:7070/docs"
    assert get().headers["vary"] == "Accept"


def test_every_command_is_one() -> None:
    for front in ALL:
        for one in front.asks:
            told = one.at("http://h:1")
            assert "{url}" not in told
            body = re.search(r"-d '(.*)'$", told)
            assert body is None or json.loads(body[1])
