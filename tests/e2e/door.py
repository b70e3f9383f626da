"""A process's HTTP server from outside: single questions, and scans whose answer is read as fast as a test likes."""

import http.client
import io
import json
import socket
import ssl
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
from prometheus_client.parser import text_string_to_metric_families

_arrow: Final[Any] = pyarrow

Table: TypeAlias = Any
"""A `pyarrow.Table`."""
Figures: TypeAlias = dict[str, dict[tuple[str, ...], float]]
"""Samples of /metrics: by name, then by the values of their labels."""

TOKEN: Final = "what-every-crew-of-these-tests-has"

_TIMEOUT_S: Final = 100.0


class RefusedError(Exception):
    """The answer was an error, as the server told it."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body.decode(errors='replace')}")
        self.status = status
        self.code = _code(body)


class Served(Protocol):
    """Whoever can be asked."""

    @property
    def door(self) -> "Door": ...


@dataclass(frozen=True, slots=True)
class Answer:
    query_id: str
    table: Table


@dataclass(frozen=True, slots=True)
class Door:
    url: str = ""
    context: ssl.SSLContext | None = None
    token: str | None = TOKEN
    tenant: str | None = None
    """As whom it asks; None as the default tenant, who sees all."""

    def at(self, url: str) -> "Door":
        return replace(self, url=url)

    def connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S, context=self.context)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)

    def headers(self) -> dict[str, str]:
        own = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return own if self.tenant is None else {**own, "X-Scope-OrgID": self.tenant}

    def of(self, tenant: str) -> "Door":
        return replace(self, tenant=tenant)

    def ask(self, method: str, path: str) -> bytes:
        """The body of the answer; raises `RefusedError` for one that is an error."""
        connection = self.connect()
        try:
            connection.request(method, path, headers=self.headers())
            return _read(connection)[0]
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return json.loads(self.ask("GET", path))

    def post(self, path: str, document: object, **headers: str) -> Any:
        """The JSON of the answer, or None where it has no body."""
        with self.posted(path, document, **headers) as connection:
            body, _ = _read(connection)
        return json.loads(body) if body else None

    @contextmanager
    def posted(self, path: str, document: object, **headers: str) -> "Generator[http.client.HTTPConnection]":
        """The request is sent, nothing of the answer is read; the connection is closed at the end of the block."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        connection = self.connect()
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", **self.headers(), **headers})
            yield connection
        finally:
            hang_up(connection)

    def metrics(self) -> Figures:
        figures: Figures = {}
        for family in text_string_to_metric_families(self.ask("GET", "/metrics").decode()):
            for sample in family.samples:
                figures.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return figures

    def metric(self, name: str, *labels: str) -> float:
        """One sample, by the values of its labels."""
        return self.metrics()[name][labels]

    # Scans

    def scan(self, scan: "Scan") -> Answer:
        with self.begun(scan) as connection:
            body, query_id = _read(connection)
        return Answer(query_id, _table(body, scan.form))

    def begun(self, scan: "Scan") -> AbstractContextManager[http.client.HTTPConnection]:
        """As `posted`, for a scan."""
        return self.posted("/v1/scan", scan.body(), **scan.headers())

    @contextmanager
    def asked(self, scan: "Scan") -> "Generator[Future[Answer]]":
        """The scan goes on beside the block, and is waited for at its end."""
        with ThreadPoolExecutor(1, thread_name_prefix="ask") as pool:
            answer = pool.submit(self.scan, scan)
            yield answer
            answer.result(_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Scan:
    """What is asked for."""

    sql: str
    sources: Sequence[str] = ()
    tenant: str = "default"
    files_per_work: int | None = 1
    timeout_s: float | None = None
    form: str = "arrow"
    options: dict[str, object] = field(default_factory=dict[str, object])
    merge: str = "none"

    def body(self) -> bytes:
        document = {"sql": self.sql, "sources": list(self.sources), "format": self.form, "merge": self.merge}
        document |= self.options
        if self.files_per_work is not None:
            document["files_per_work"] = self.files_per_work
        if self.timeout_s is not None:
            document["timeout_s"] = self.timeout_s
        return json.dumps(document).encode()

    def headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", "X-Scope-OrgID": self.tenant}


def hang_up(connection: http.client.HTTPConnection) -> None:
    """Closes it at once, in the middle of whatever it does."""
    if isinstance(connection.sock, socket.socket):
        connection.sock.close()
    connection.close()


def _read(connection: http.client.HTTPConnection) -> tuple[bytes, str]:
    with connection.getresponse() as response:
        body = response.read()
        if response.status >= 300:
            raise RefusedError(response.status, body)
        return body, response.headers.get("x-query-id", "")


def _table(body: bytes, form: str) -> Table:
    if form == "arrow":
        return _arrow.ipc.open_stream(body).read_all() if body else _arrow.table({})
    return _arrow.Table.from_pylist([json.loads(line) for line in io.BytesIO(body)])


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""


def delta(before: Figures, after: Figures, name: str) -> float:
    """By how much all samples of a name have risen together."""
    return sum(after.get(name, {}).values()) - sum(before.get(name, {}).values())
