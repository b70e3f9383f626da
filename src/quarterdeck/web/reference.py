"""`GET /docs`: every path of a process on one page, made from its OpenAPI document. It needs no script, and loads
nothing, so it works without a network.

The document is ours and includes texts of docstrings. Still, everything is escaped.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, cast

from fastapi import APIRouter, FastAPI, Request, Response

from quarterdeck.stores.threads import in_thread
from quarterdeck.web.page import escape, page, page_headers
from quarterdeck.web.samples import curl_of, properties_of, resolved, shown_json, type_of

_HEADERS: Final = page_headers()
_HERE: Final = "http://quarterdeck.invalid"
"""In the page as it is kept; replaced by where the client has asked."""

Document = Mapping[str, Any]


def reference_router(address_of: Callable[[Request], str]) -> APIRouter:
    router = APIRouter()
    made: list[str] = []

    async def docs(request: Request) -> Response:
        """Every path, what it takes and what it gives."""
        if not made:
            app = cast("FastAPI", request.app)
            made.append(await in_thread(lambda: reference_page(app.openapi())))  # both take a while, once
        body = made[0].replace(_HERE, escape(address_of(request)))
        return Response(body, media_type="text/html", headers=_HEADERS)

    router.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    return router


def reference_page(document: Document) -> str:
    """The whole page."""
    operations = [
        (str(next(iter(operation.get("tags", ())), "other")), path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    operations.sort(key=lambda one: one[:3])
    title = f"{document['info']['title']} {document['info']['version']}"
    head = (
        f'<header><h1>{escape(title)}</h1><p><a href="./">front page</a> · <a href="openapi.json">openapi.json</a></p>'
        "<p>What only reads metrics needs no token on loopback; everything else takes the crew's token, which "
        "<code>quarterdeck token</code> prints, as <code>Authorization: Bearer TOKEN</code>. An error is JSON that "
        "says what happened, why, and what to do next.</p></header><main>"
    )
    parts = [head]
    for tag, group in groupby(operations, key=lambda one: one[0]):
        parts.append(f'<section id="{escape(tag)}"><h2>{escape(tag)}</h2>')
        parts += (_operation(document, path, method, operation) for _, path, method, operation in group)
        parts.append("</section>")
    return page(title, "".join(parts) + "</main>")


def _operation(document: Document, path: str, method: str, operation: Document) -> str:
    text = str(operation.get("description") or operation.get("summary") or "")
    first, _, rest = text.partition("\n\n")
    head = (
        f'<details><summary><span class="method">{escape(method.upper())}</span> <code>{escape(path)}</code> '
        f'<span class="dim">{_inline(_joined(first))}</span></summary>'
    )
    parts = [
        head,
        prose(rest),
        _parameters(document, operation.get("parameters", ())),
        _body(document, operation),
        f"<h3>With curl</h3><pre><code>{escape(curl_of(document, _HERE, path, method, operation))}</code></pre>",
        _responses(document, operation.get("responses", {})),
        "</details>",
    ]
    return "".join(parts)


def _parameters(document: Document, parameters: Iterable[Document]) -> str:
    rows = [
        _row(
            f"<code>{escape(one['name'])}</code>",
            escape(one["in"]),
            _type(document, one.get("schema", {}), is_required=bool(one.get("required"))),
            _inline(str(one.get("description", ""))) + _example(one.get("example")),
        )
        for one in parameters
    ]
    return _table("Parameters", ("name", "in", "type", "what it says"), rows)


def _body(document: Document, operation: Document) -> str:
    parts: list[str] = []
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        rows = [
            _row(
                f"<code>{escape(name)}</code>",
                _type(document, schema, is_required=is_required),
                _inline(str(resolved(document, schema).get("description", ""))) + _example(schema.get("example")),
            )
            for name, schema, is_required in properties_of(document, content.get("schema", {}))
        ]
        parts.append(_table(f"Body: {kind}", ("name", "type", "what it says"), rows))
    return "".join(parts)


def _responses(document: Document, responses: Mapping[str, Document]) -> str:
    rows: list[str] = []
    for status, response in responses.items():
        told = prose(str(response.get("description", "")))
        for kind, content in response.get("content", {}).items():
            shown = shown_json(document, content)
            told += f"<p><code>{escape(kind)}</code></p>" + (
                f"<pre><code>{escape(shown)}</code></pre>" if shown else ""
            )
        rows.append(_row(f"<code>{escape(status)}</code>", told))
    return _table("Answers", ("status", "what it is"), rows)


# Pieces of HTML; what they get is HTML already


def _table(title: str, heads: Iterable[str], rows: list[str]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    return f"<h3>{escape(title)}</h3><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _type(document: Document, schema: Document, *, is_required: bool) -> str:
    return escape(type_of(document, schema)) + ("" if is_required else ' <span class="dim">optional</span>')


def _example(value: object) -> str:
    return "" if value is None else f' <span class="dim">Such as</span> <code>{escape(value)}</code>'


def prose(text: str) -> str:
    """A docstring: paragraphs, lists with stars, code in backticks.

    >>> prose("A `b` <c>.\\n\\n* one\\n* two\\n")
    '<p>A <code>b</code> &lt;c&gt;.</p><ul><li>one</li><li>two</li></ul>'
    """
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("* "):
            items = "".join(f"<li>{_inline(_joined(item))}</li>" for item in re.split(r"(?:^|\n)\* ", block) if item)
            parts.append(f"<ul>{items}</ul>")
        elif block:
            parts.append(f"<p>{_inline(_joined(block))}</p>")
    return "".join(parts)


def _joined(text: str) -> str:
    return " ".join(text.split())


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
