"""`/docs`: a page of HTML out of the OpenAPI document, which needs no network and no script."""

import asyncio
import re
import shlex
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, FastAPI, Header
from pydantic import BaseModel, Field

from quarterdeck.web.front import address_of
from quarterdeck.web.reference import reference_page, reference_router
from quarterdeck.web.samples import curl_of, resolved, sample_of, shown_json, type_of
from tests.http.asked import Answer, ask

URL = "http://here:7070"


class Inner(BaseModel):
    deep: int = Field(ge=3)


class Body(BaseModel):
    """A body."""

    sql: str = Field(description="One `SELECT` <here>.")
    sources: list[str] = Field(max_length=5)
    inner: Inner
    rows: int | None = None


def application() -> FastAPI:
    app = FastAPI(title="A <title>", version="1", docs_url=None)
    router = APIRouter(tags=["things"])

    @router.post("/v1/things/{name}")
    async def post_thing(name: str, body: Body, tenant: Annotated[str, Header(description="Who.")] = "x") -> Inner:
        """Make a <thing>.

        A second `paragraph`:

        * one
        * two
        """
        raise NotImplementedError

    @router.get("/v1/things")
    async def things(q: str, limit: int = 5) -> list[Inner]:
        """List `things`."""
        raise NotImplementedError

    @app.get("/health")
    async def health() -> None:
        """Alive."""

    _ = (post_thing, things, health)
    app.include_router(router)
    app.include_router(reference_router(address_of))
    return app


def get(path: str = "/docs", **headers: str) -> Answer:
    return asyncio.run(ask(application(), path, **{"host": "here:7070", **headers}))


def operation(path: str, method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    document = application().openapi()
    return document, document["paths"][path][method]


def test_the_page_has_every_path_and_needs_nothing_else() -> None:
    answer = get()
    page = answer.body.decode()
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for path in ("/v1/things", "/v1/things/{name}", "/health"):
        assert f"<code>{path}</code>" in page
    assert "<script" not in page
    assert "script-src 'none'" in answer.headers["content-security-policy"]
    assert set(re.findall(r"https?://[^/\s)<]+", page)) == {URL}, "no address but that of this server"


def test_texts_are_escaped_and_written_as_they_are_meant() -> None:
    page = get().body.decode()
    assert "A &lt;title&gt; 1" in page
    assert '<span class="dim">Make a &lt;thing&gt;.</span>' in page
    assert "<p>A second <code>paragraph</code>:</p><ul><li>one</li><li>two</li></ul>" in page
    assert "One <code>SELECT</code> &lt;here&gt;." in page


def test_each_client_is_told_its_own_address_and_no_strange_one() -> None:
    assert "http://other:1/v1/things" in get(host="other:1").body.decode()
    assert "<script>" not in get(host="<script>").body.decode()


def test_a_command_has_what_must_be_there() -> None:
    document, told = operation("/v1/things/{name}", "post")
    words = shlex.split(curl_of(document, URL, "/v1/things/{name}", "post", told).replace("\\\n", ""))
    assert words[:3] == ["curl", "-H", f"Authorization: Bearer $(quarterdeck token --url {URL})"]
    assert words[-1] == f"{URL}/v1/things/…"
    assert words[words.index("-d") + 1] == '{"sql": "…", "sources": ["…"], "inner": {"deep": 3}}'
    document, told = operation("/v1/things", "get")
    assert curl_of(document, URL, "/v1/things", "get", told).endswith(
        f"-G \\\n  --data-urlencode 'q=…' \\\n  {URL}/v1/things"
    )
    document, told = operation("/health", "get")
    assert curl_of(document, URL, "/health", "get", told) == f"curl {URL}/health", "a prober has no token"


def test_a_form_is_sent_as_one_and_a_post_without_a_body_is_a_post() -> None:
    form = {"schema": {"properties": {"q": {"type": "string", "example": "a b"}}, "required": ["q"]}}
    asked = {"requestBody": {"content": {"application/x-www-form-urlencoded": form}}}
    assert "--data-urlencode 'q=a b'" in curl_of({}, URL, "/x", "post", asked)
    assert "-X POST" in curl_of({}, URL, "/x", "post", {})


@pytest.mark.parametrize(
    "schema, kind, sample",
    [
        ({"type": "string"}, "string", "…"),
        ({"type": "string", "example": "x"}, "string", "x"),
        ({"enum": ["a", "b"]}, "a | b", "a"),
        ({"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 2}]}, "integer", 2),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "string | number", "…"),
        ({"type": "array", "items": {"type": "boolean"}}, "list of boolean", [True]),
        ({"$ref": "#/components/schemas/A"}, "object", {"again": {"again": None}}),
        ({}, "any", None),
    ],
)
def test_a_schema_is_told_in_a_word_and_by_an_example(schema: dict[str, Any], kind: str, sample: object) -> None:
    again = {"type": "object", "required": ["again"], "properties": {"again": {"$ref": "#/components/schemas/A"}}}
    document = {"components": {"schemas": {"A": again}}}
    assert type_of(document, schema) == kind
    shown = sample_of(document, schema)
    if kind == "object":
        assert str(shown).startswith("{'again': {'again': "), "however deep it goes, it ends"
    else:
        assert shown == sample
    assert resolved(document, schema) == resolved(document, resolved(document, schema))


def test_an_answer_is_shown_by_its_example() -> None:
    assert shown_json({}, {"example": "data: 1"}) == "data: 1"
    assert shown_json({}, {"example": {"a": 1}}) == '{\n  "a": 1\n}'
    assert shown_json({}, {"schema": {}}) == ""


def test_the_page_is_made_once() -> None:
    app, made = application(), list[int]()
    plain = app.openapi
    app.openapi = lambda: made.append(1) or plain()  # type: ignore[method-assign]

    async def play() -> None:
        for _ in range(3):
            await ask(app, "/docs", host="here")

    asyncio.run(play())
    assert made == [1]
    assert reference_page(plain()).startswith("<!doctype html>")
