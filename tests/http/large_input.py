"""The largest requests that the routes of our processes may get, and larger ones, as bytes on a connection."""

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

_MIB: Final = 1024 * 1024
_BODY_BYTES: Final = 4 * _MIB
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
_PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class LargeRequest:
    """One request, and what is large about it."""

    name: str
    method: str
    target: str
    content_type: str = ""
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def raw(self, host: str, more_headers: Mapping[str, str]) -> bytes:
        given = {"Host": host, "Connection": "close", **more_headers}
        if self.method == "POST":
            given |= {"Content-Type": self.content_type, "Content-Length": str(len(self.body))}
        lines = [f"{name}: {value}" for name, value in (*given.items(), *self.headers)]
        return "\r\n".join([f"{self.method} {self.target} HTTP/1.1", *lines, "", ""]).encode() + self.body


def filled(unit: bytes, size_bytes: int = _BODY_BYTES) -> bytes:
    return unit * (size_bytes // len(unit))


def members(count: int) -> bytes:
    return json.dumps({f"k{number}": 0 for number in range(count)}).encode()


_BODIES: Final[tuple[tuple[str, str, Callable[[], bytes]], ...]] = (
    ("nested lists", JSON, lambda: filled(b"[")),
    ("nested objects", JSON, lambda: filled(b'{"a":')),
    ("a million lists", JSON, lambda: b"[" + filled(b"[],", 3 * _MIB) + b"0]"),
    ("many numbers", JSON, lambda: b"[" + b"0," * 99_000 + b"0]"),
    ("many members", JSON, lambda: members(99_000)),
    ("a long text", JSON, lambda: b'{"q":"' + filled(b"\\u0041", 3 * _MIB) + b'"}'),
    ("a long number", JSON, lambda: b'{"s":' + filled(b"9", _MIB) + b"}"),
    ("200,000 fields", FORM, lambda: b"match[]=up&" * 200_000),
    ("900 fields", FORM, lambda: b"match[]=up&" * 900),
    ("escapes", FORM, lambda: b"query=" + filled(b"%41", _BODY_BYTES - 100)),
    ("escapes in a form that is not too large", FORM, lambda: b"query=" + filled(b"%41", _MIB - 100)),
    ("nothing but marks", FORM, lambda: filled(b"&")),
)

_LONG_QUERY: Final = " or ".join(["up"] * 18_000)
_LONG_SEARCH: Final = " or ".join(["a=1"] * 14_000)
_ALTERNATIVES: Final = "|".join(f"host-{number:05}" for number in range(9_000))
_PATHS: Final = [f"/nowhere/of/all/{number:05}.parquet" for number in range(10_000)]


def _form(*fields: tuple[str, str]) -> tuple[str, bytes]:
    return FORM, urlencode(fields).encode()


def _json(document: Mapping[str, Any]) -> tuple[str, bytes]:
    return JSON, json.dumps(document).encode()


_SELECTORS: Final = [("match[]", f'up{{job="{number}"}}') for number in range(256)]
_MANY_MATCHERS: Final = ("match[]", "up{" + ",".join(f'l{number}="{number}"' for number in range(999)) + "}")
_LONG_REGEX: Final = ("match[]", f'up{{instance=~"{_ALTERNATIVES}"}}')
_TOO_MANY_MATCHERS: Final = ("match[]", "up{" + 'job="a",' * 16_000 + "}")
_MANY_CLASSES: Final = ("match[]", 'up{job=~"' + "\\\\p{L}" * 10_000 + '"}')
_SERIES: Final = (
    _form(*_SELECTORS),
    _form(_MANY_MATCHERS),
    _form(_LONG_REGEX),
    _form(_MANY_CLASSES),
    _form(_TOO_MANY_MATCHERS),
)
_TEXTS: Final = (
    _form(("query", _LONG_QUERY)),
    _form(("query", f'up{{instance=~"{_ALTERNATIVES}"}}')),
    _form(("query", "(" * 100_000)),
    _form(("query", "-" * 120_000 + "1")),
    _form(("query", "up{" + 'job="a",' * 15_000 + "}")),
)
_RANGE: Final = (("start", "0"), ("end", "100"), ("step", "1"))
_TAGS: Final = (
    _json({"q": "up{" + 'job="a",' * 15_000 + "}", "tag": "job"}),
    _json({"q": _LONG_REGEX[1], "tag": "job"}),
    _json({"q": "up", "s": "now-" + "1h" * 100_000, "tag": "job"}),
)

LARGEST: Final[Mapping[str, tuple[tuple[str, bytes], ...]]] = {
    "/v1/scan": (
        _json({"sql": "select " + "1," * 2_000 + "1", "sources": _PATHS}),
        _json({"sql": "select 1", "sources": [1] * 10_000}),
        _json({"sql": "select 1", "sources": ["x" * 100_000] * 20}),
    ),
    "/v1/search": (
        _json({"query": _LONG_SEARCH, "sources": _PATHS}),
        _json({"query": "a " * 49_000, "sources": ["/nowhere"]}),
        _json({"query": "a", "sources": ["/nowhere"], "start": "9" * 4_000}),
        _json({"query": "a", "sources": [1] * 10_000}),
    ),
    "/worker/rootsearch": (_json({"query": _LONG_SEARCH, "sources": _PATHS}),),
    "/worker/chunksearch": (
        _json(
            {
                "query": _LONG_SEARCH,
                "chunk_paths": [f"{path}#bytes=0-100" for path in _PATHS],
                "sizes": [100] * len(_PATHS),
                "versions": ["v"] * len(_PATHS),
                "kinds": ["parquet"] * len(_PATHS),
            }
        ),
        _json({"query": "a", "chunk_paths": [0] * 90_000}),
    ),
    "/worker/release": (_json({}),),
    "/recruiter/register": (
        _json({"addr": "127.0.0.1:1", "node": "n", "timeout": 1, "labels": ["x" * 128 for _ in range(64)]}),
        _json({"addr": "127.0.0.1:1", "node": "n", "timeout": 1, "labels": [0] * 9_000}),
    ),
    "/recruiter/recruit": (_json({"N": 1_000_000}), _json({"N": 10**4_000})),
    "/v1/crew/{worker_id}/drain": (_json({}),),
    "/api/v1/query": (*_TEXTS, _form(("query", "up"), ("time", "9" * 400_000))),
    "/api/v1/query_range": tuple((kind, body + b"&" + urlencode(_RANGE).encode()) for kind, body in _TEXTS),
    "/api/v1/query_exemplars": _TEXTS,
    "/api/v1/format_query": _TEXTS,
    "/api/v1/parse_query": _TEXTS,
    "/api/v1/promql/validate": (*_TEXTS, _json({"q": _LONG_QUERY})),
    "/api/v1/series": _SERIES,
    "/api/v1/labels": _SERIES,
    "/api/v1/metrics/query": (_json({"q": _LONG_QUERY}), _json({"q": "up", "s": "now-" + "1h" * 100_000})),
    "/api/v1/metrics/metadata": _TAGS,
    "/api/v1/metrics/tags": _TAGS,
    "/api/v1/metrics/tagvalues": _TAGS,
    "/api/v1/metrics/ranges": (_form(("match", "*a" * 100)), _form(*(("metric", f"m{n}") for n in range(999)))),
    "/api/v1/metrics/selected": (*_TEXTS, _form(("query", "up"), ("time", "9" * 400_000))),
}
"""By the path of a route that takes a body: the largest that makes sense, and some that are a little larger."""


_HEADERS: Final = (
    ("Accept", "text/plain;q=0.5," * 900),
    ("Accept-Encoding", "gzip;q=0.5," * 1_400),
    ("X-Scope-OrgID", "x" * 16_000),
    ("Range", "bytes=" + "9" * 16_000),
    ("If-None-Match", '"a",' * 4_000),
    ("X-Reservation", "x" * 16_000),
)


def large_requests(method: str, template: str) -> Iterator[LargeRequest]:
    """All that a route is to be asked. A route that takes a body must be in `LARGEST`."""
    plain = re.sub(r"\{[^}]*\}", "x", template)
    yield LargeRequest("nothing large", method, plain, JSON)
    if "{" in template:
        yield LargeRequest("a long path", method, re.sub(r"\{[^}]*\}", "x" * 40_000, template), JSON)
        yield LargeRequest("an escaped path", method, re.sub(r"\{[^}]*\}", "%41" * 10_000, template), JSON)
    yield LargeRequest("many fields", method, f"{plain}?{'a=1&' * 12_000}", JSON)
    yield LargeRequest("many selectors", method, f"{plain}?{'match[]=up&' * 900}", JSON)
    yield LargeRequest(
        "a long regular expression", method, f"{plain}?match[]={quote_plus(_LONG_REGEX[1])[:60_000]}", JSON
    )
    for header, value in _HEADERS:
        yield LargeRequest(f"a long {header}", method, plain, JSON, headers=((header, value),))
    yield LargeRequest("many headers", method, plain, JSON, headers=tuple((f"X-{n}", "1") for n in range(100)))
    if method != "POST":
        return
    for name, content_type, make in _BODIES:
        yield LargeRequest(name, method, plain, content_type, make())
    assert template in LARGEST, f"{template} takes a body: say in LARGEST what its largest one is"
    for number, (content_type, body) in enumerate(LARGEST[template]):
        yield LargeRequest(f"its largest body, number {number}", method, plain, content_type, body)


def status_of(port: int, request: LargeRequest, more_headers: Mapping[str, str]) -> int:
    """Of the answer; 0 when the connection was closed without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # it was refused before it was read
            connection.sendall(request.raw(f"127.0.0.1:{port}", more_headers))
        answer = b""
        with suppress(ConnectionResetError):  # what had come before counts
            while chunk := connection.recv(65536):
                answer = answer if len(answer) > 100 else answer + chunk
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else 0
