"""Middleware in front of everything: it decides who may ask what by the head of a request, before anybody reads the
body.

1. The `Host` must be a name of this server. A page whose own name was made to point here (DNS rebinding) has another.
2. A browser may ask on behalf of pages of this server and of sites on a list, and is told that those may see the answer
   (CORS). Anything else that another site's page makes it send is refused. For people, following a link to a page is
   fine.
3. The token opens everything. Without it there are health, readiness and pages that say nothing about this crew, and on
   loopback what only reads.
4. A body is JSON and says so. A page of another site can send text to anybody without asking for permission, but cannot
   declare it as JSON.

It knows no token and no routes: a callable says whether a header is good, and what only reads is listed.
"""

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.errors import Headers, send_error

OPEN_PATHS: Final = frozenset({"/health", "/ready", "/-/healthy", "/-/ready"})
"""A prober has no token, and they tell nothing worth one."""
_SAME_FOR_ALL: Final = frozenset({"/", "/docs"})
"""Pages that are the same for every crew of a release. A browser cannot show a token before it has one of them: that
is where a person gives it."""
_FIGURES: Final = frozenset({"/metrics", "/monitor/scaling"})
_PAGES: Final = _SAME_FOR_ALL | {"/openapi.json", "/metrics"}
"""What a person may come to by a link."""

_CALLER: Final = "quarterdeck.caller"
_CHALLENGE: Final = 'Bearer realm="quarterdeck"'
_STEP: Final = (
    "send the crew's token as `Authorization: Bearer TOKEN`; `quarterdeck token` prints that of a crew on this machine"
)
_MISSING: Final = QuarterdeckError(
    ErrorCode.UNAUTHENTICATED, "the request was not let in", "it has no token, or more than one", _STEP
)
_WRONG: Final = QuarterdeckError(
    ErrorCode.UNAUTHENTICATED, "the request was not let in", "its token is not the one of this crew", _STEP
)
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PASSED_ON: Final = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via"})
"""Headers that proxies add. A client behind a proxy may be anywhere."""
_PERMITS: Final = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-allow-headers", b"accept, authorization, content-type, origin, x-scope-orgid"),
    (b"access-control-max-age", b"600"),
)
"""What pages of a site on the list may send, besides what any page may: as Prometheus has it, and the tenant."""
_ASKS_FOR_PRIVATE: Final = (b"access-control-request-private-network", b"true")
_PERMITS_PRIVATE: Final = (b"access-control-allow-private-network", b"true")
_SHOWS: Final = (b"access-control-expose-headers", b"date, retry-after, x-query-id")
_VARIES: Final = (b"vary", b"origin")


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known about the client."""

    is_this_user: bool = False
    """The client has shown the token of a server that only this machine can reach, and no proxy says that it comes from
    elsewhere. So it could read the token's file, and whatever the server can read."""


def caller_of(scope: Scope) -> Caller:
    return scope.get(_CALLER) or Caller()


@dataclass(frozen=True, slots=True)
class GateRules:
    matches: Callable[[str | None], bool] | None
    """Gets the value of the `Authorization` header, or None when there is none. Without it nobody is asked."""
    is_on_loopback: bool
    """Whether only this machine can reach the server."""
    reading_needs_token: bool = False
    """Whether what only reads needs the token on loopback too."""
    names: frozenset[str] = frozenset()
    """Names of this server besides those that need no telling."""
    origins: frozenset[str] = frozenset()
    """Sites whose pages may ask, such as `https://tools.example`; see `Origins`."""
    reading_prefixes: tuple[str, ...] = ()
    """Where paths begin that only read, and take forms."""

    def is_reading(self, path: str) -> bool:
        return path in _FIGURES or path in _PAGES or path.startswith(self.reading_prefixes)

    def needs_token(self, path: str) -> bool:
        if self.matches is None or path in OPEN_PATHS or path in _SAME_FOR_ALL:
            return False
        reads_here = self.is_on_loopback and not self.reading_needs_token and self.is_reading(path)
        return not reads_here


class Origins:
    """Sites as they are listed. A star stands for some characters of a name or of a port, as in `https://*.example`; a
    star alone means every site."""

    def __init__(self, listed: Iterable[str]) -> None:
        """
        >>> Origins(["https://*.example"]).allows("https://a.b.example"), Origins([]).allows("null")
        (True, False)
        """
        plain = set(listed)
        self._all = "*" in plain
        self._plain = frozenset(plain)
        patterns = [_pattern_of(one) for one in sorted(plain) if "*" in one]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __bool__(self) -> bool:
        return bool(self._plain)

    def allows(self, origin: str) -> bool:
        named = origin.lower()
        if self._all or named in self._plain:
            return True
        return self._pattern is not None and self._pattern.fullmatch(named) is not None


class Gate:
    def __init__(self, app: ASGIApp, rules: GateRules, on_rejected: Callable[[], None]) -> None:
        self._app = app
        self._rules = rules
        self._on_rejected = on_rejected
        self._own_name = socket.gethostname().lower()
        self._origins = Origins(rules.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        listed = self._listed_origin(scope)
        if self._origins and scope["type"] == "http":
            send = _telling(send, listed)
        refusal = self._judge(scope)
        if refusal is None:
            if listed is not None and _asks_for_permission(scope):
                private = [_PERMITS_PRIVATE] if _ASKS_FOR_PRIVATE in scope["headers"] else []
                await send({"type": "http.response.start", "status": 204, "headers": [*_PERMITS, *private]})
                await send({"type": "http.response.body", "body": b""})
            else:
                await self._app(scope, receive, send)
            return
        self._on_rejected()
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "not let in"})
        else:
            await send_error(send, refusal.error, refusal.status, refusal.headers)

    def _judge(self, scope: Scope) -> "_Refusal | None":
        path: str = scope["path"]
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value.decode("latin-1"))
        is_known = self._shows_token(headers)
        asks_for_host = self._rules.is_on_loopback or self._rules.matches is None
        if asks_for_host and (refusal := self._judge_host(headers)) is not None:
            return refusal
        if path not in OPEN_PATHS and (refusal := self._judge_site(scope, headers)) is not None:
            return refusal
        if _asks_for_permission(scope) and self._listed_origin(scope) is not None:
            return None  # a browser asks so before it shows anything
        if self._rules.needs_token(path) and not is_known:
            presented = headers.get(b"authorization", [])
            if len(presented) != 1:
                return _Refusal(_MISSING, None, [("www-authenticate", _CHALLENGE)])
            return _Refusal(_WRONG, None, [("www-authenticate", f'{_CHALLENGE}, error="invalid_token"')])
        is_here = self._rules.is_on_loopback and not headers.keys() & _PASSED_ON
        scope[_CALLER] = Caller(is_this_user=is_known and is_here)
        return self._judge_body(scope, headers)

    def _shows_token(self, headers: Mapping[bytes, list[str]]) -> bool:
        presented = headers.get(b"authorization", [])
        # Of two headers, one for us and one for somebody behind us, neither would know which counts.
        return self._rules.matches is not None and len(presented) == 1 and self._rules.matches(presented[0])

    def _listed_origin(self, scope: Scope) -> bytes | None:
        """The site whose page asks, if it is one of those that may."""
        if scope["type"] != "http" or not self._origins:
            return None
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        is_listed = len(origins) == 1 and self._origins.allows(origins[0].decode("latin-1"))
        return origins[0] if is_listed else None

    def _judge_host(self, headers: Mapping[bytes, list[str]]) -> "_Refusal | None":
        hosts = headers.get(b"host", [])
        if not hosts:
            return None  # no browser leaves it out
        name = _name_of(hosts[0])
        if len(hosts) == 1 and (name in self._rules.names or self._is_own(name)):
            return None
        why = f"it is for the host {hosts[0][:80]!r}, and this server does not go by that name"
        return _Refusal(
            QuarterdeckError(
                ErrorCode.PERMISSION_DENIED,
                "the request was not let in",
                why if len(hosts) == 1 else "it is for several hosts: it has more than one Host",
                "ask for it by its address, or add the name to http_names",
            ),
            421,
        )

    def _is_own(self, name: str) -> bool:
        """On loopback: the names of loopback. Off loopback without a token: names that no stranger can make point here,
        which are addresses, names without a dot, and those of this machine."""
        if name == "localhost":
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return not self._rules.is_on_loopback and ("." not in name or name == self._own_name)
        return address.is_loopback or not self._rules.is_on_loopback

    def _judge_site(self, scope: Scope, headers: Mapping[bytes, list[str]]) -> "_Refusal | None":
        origins, sites = headers.get(b"origin", []), headers.get(b"sec-fetch-site", [])
        if origins:
            host = next(iter(headers.get(b"host", [])), "").lower()
            if all(self._origins.allows(origin) or _authority(origin) == host for origin in origins):
                return None
            shown = origins[0]
        elif sites and not set(sites) <= {"same-origin", "none"}:
            navigates = headers.get(b"sec-fetch-mode") == ["navigate"] and scope.get("method") in ("GET", "HEAD")
            if navigates and scope["path"] in _PAGES:
                return None
            shown = "another site"
        else:
            return None
        return _Refusal(
            QuarterdeckError(
                ErrorCode.PERMISSION_DENIED,
                "the request was not let in",
                f"a page of {shown[:80]!r} made a browser send it",
                "if you trust that site's pages, add it to http_origins",
            )
        )

    def _judge_body(self, scope: Scope, headers: Mapping[bytes, list[str]]) -> "_Refusal | None":
        if scope.get("method") not in _WITH_BODY or scope["path"].startswith(self._rules.reading_prefixes):
            return None
        if headers.get(b"content-length", ["0"]) == ["0"] and b"transfer-encoding" not in headers:
            return None
        kinds = headers.get(b"content-type", [])
        if len(kinds) == 1 and kinds[0].partition(";")[0].strip().lower() == "application/json":
            return None
        return _Refusal(
            QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                "the request was not read",
                f"its body is {kinds[0][:80]!r}" if kinds else "it does not say what its body is",
                "send JSON, and say so: `Content-Type: application/json`",
            ),
            415,
        )


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: QuarterdeckError
    status: int | None = None
    headers: Headers = ()


def _asks_for_permission(scope: Scope) -> bool:
    """Whether a browser asks what a page may send, before it sends it."""
    return scope.get("method") == "OPTIONS" and any(
        name == b"access-control-request-method" for name, _ in scope["headers"]
    )


def _pattern_of(listed: str) -> str:
    name, port = (listed[:-2], ":[0-9]+") if listed.endswith(":*") else (listed, "")
    return "[a-z0-9.-]+".join(map(re.escape, name.split("*"))) + port


def _telling(send: Send, origin: bytes | None) -> Send:
    """Tells the browser that pages of the site, if it is listed, may see the answer, whatever the answer is; and tells
    caches that another site gets a different answer."""
    added = [_VARIES] if origin is None else [(b"access-control-allow-origin", origin), _SHOWS, _VARIES]

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return told


def _name_of(host: str) -> str:
    """Without the port.

    >>> _name_of("LocalHost.:7070"), _name_of("[::1]:7070"), _name_of("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _authority(origin: str) -> str | None:
    """Host and port of a site; None for what is none.

    >>> _authority("http://LocalHost:7070"), _authority("null")
    ('localhost:7070', None)
    """
    _, separator, authority = origin.partition("://")
    return authority.lower() if separator else None


def named(names: Iterable[str]) -> frozenset[str]:
    """Names as they are compared."""
    return frozenset(_name_of(name) for name in names)
