"""`GET /`: what this process is, how to ask it, and what is going on in it.

The page says nothing about the crew. It is the same for everybody, so it needs no token. Its script asks for the rest,
with the token that a person enters, as any client does. A client that is not a browser gets the same as text or JSON.
"""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request, Response

from quarterdeck import __version__
from quarterdeck.web.page import FRONT_SCRIPT, escape, page, page_headers
from quarterdeck.web.reference import reference_router

_LINKS: Final = (
    ("/docs", "every path with its parameters and answers"),
    ("/openapi.json", "the same for programs"),
    ("/metrics", "figures for Prometheus"),
    ("/health", "whether it is running"),
    ("/ready", "whether it can answer, and what is missing"),
    ("/monitor/scaling", "figures for an autoscaler"),
)
_PLAIN_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_HEADERS: Final = page_headers(FRONT_SCRIPT)
_PLAIN_HEADERS: Final = {"Cache-Control": "no-store", "Vary": "Accept"}


@dataclass(frozen=True, slots=True)
class Ask:
    """A way to ask; `{url}` in the text is where this server is."""

    title: str
    text: str

    def at(self, url: str) -> str:
        return self.text.replace("{url}", url)


def curl(path: str, body: dict[str, object] | None = None) -> str:
    """The command for it, with the token that `quarterdeck token` prints."""
    command = f'curl -H "Authorization: Bearer $(quarterdeck token --url {{url}})" {{url}}{path}'
    if body is None:
        return command
    return f"{command} \\\n  -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"


@dataclass(frozen=True, slots=True)
class Panel:
    """Something that goes on, which the page's script asks for and draws."""

    kind: str
    """How it is drawn, as in `front.js`: `crew`, `queries` or `figures`."""
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Front:
    """The page of one kind of process."""

    role: str
    about: str
    asks: tuple[Ask, ...]
    panels: tuple[Panel, ...]


def front_router(front: Front, missing: Callable[[], Sequence[str]]) -> APIRouter:
    """`/` and `/docs`. `missing` says what keeps the process from being ready."""
    router = APIRouter()

    async def root(request: Request) -> Response:
        """What this is, as a page, as text or as JSON."""
        accept, url, lacks = request.headers.get("accept", ""), address_of(request), list(missing())
        if "text/html" in accept:
            body = page(f"Quarterdeck {front.role}", _body(front, url, lacks), FRONT_SCRIPT)
            return Response(body, media_type="text/html", headers={**_HEADERS, "Vary": "Accept"})
        if "application/json" in accept:
            return Response(
                json.dumps(_document(front, url, lacks)), media_type="application/json", headers=_PLAIN_HEADERS
            )
        return Response(_text(front, url, lacks), media_type="text/plain", headers=_PLAIN_HEADERS)

    router.add_api_route("/", root, methods=["GET"], include_in_schema=False)
    router.include_router(reference_router(address_of))
    return router


def address_of(request: Request) -> str:
    """Where the client has asked, in a form that can stand in a command line: the `Host` is a stranger's word."""
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host if _PLAIN_HOST.fullmatch(host) else 'localhost'}"


def _state(lacks: Sequence[str]) -> str:
    return f"not ready: {', '.join(lacks)}" if lacks else "ready"


def _text(front: Front, url: str, lacks: Sequence[str]) -> str:
    lines = [f"Quarterdeck {front.role} {__version__}, {_state(lacks)}.", front.about, ""]
    lines += [f"{url}{path:<17} {what}" for path, what in _LINKS]
    for ask in front.asks:
        lines += ["", f"{ask.title}:", ask.at(url)]
    return "\n".join(lines) + "\n"


def _document(front: Front, url: str, lacks: Sequence[str]) -> dict[str, object]:
    return {
        "name": "Quarterdeck",
        "role": front.role,
        "version": __version__,
        "about": front.about,
        "ready": not lacks,
        "missing": list(lacks),
        "links": {path[1:]: f"{url}{path}" for path, _ in _LINKS},
        "ask": [{"title": ask.title, "text": ask.at(url)} for ask in front.asks],
    }


def _body(front: Front, url: str, lacks: Sequence[str]) -> str:
    kind = "late" if lacks else "good"
    links = "".join(
        f'<li><a href="{escape(path[1:])}">{escape(path)}</a> <span class="dim">{escape(what)}</span></li>'
        for path, what in _LINKS
    )
    asks = "".join(f"<h3>{escape(ask.title)}</h3><pre><code>{escape(ask.at(url))}</code></pre>" for ask in front.asks)
    panels = "".join(
        f'<section data-panel="{escape(panel.kind)}" data-path="{escape(panel.path)}">'
        f"<h2>{escape(panel.title)}</h2><div></div></section>"
        for panel in front.panels
    )
    return f"""<header><h1>Quarterdeck <span class="dim">{escape(front.role)} {escape(__version__)}</span></h1>
<p>{escape(front.about)} <span id="ready" class="{kind}">{escape(_state(lacks))}</span></p></header>
<main>
<form id="token" hidden><label>The crew's token, which <code>quarterdeck token</code> prints: <input type="password"
autocomplete="off" spellcheck="false" size="40"></label> <button>Show</button> <output></output></form>
<noscript><p>What goes on here is shown by a script. Without one: <code>quarterdeck status</code>.</p></noscript>
<div id="live" hidden>{panels}<p class="dim"><output id="when"></output> <button id="forget" hidden>Forget the
token</button></p></div>
<section><h2>Here</h2><ul class="links">{links}</ul></section>
<section><h2>How to ask</h2>{asks}</section>
</main>"""
