"""PromQL from outside: what is asked, and what came of it, error or not."""

import http.client
import json
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from tests.e2e.door import Door, hang_up
from tests.patience import PATIENCE_S

RANGE = "/api/v1/query_range"


@dataclass(frozen=True, slots=True)
class Ask:
    """A query and all its parameters."""

    text: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    tenant: str = "default"
    path: str = RANGE

    def of(self, tenant: str) -> "Ask":
        return replace(self, tenant=tenant)

    def where(self, **options: object) -> "Ask":
        return replace(self, options={**self.options, **options})

    def body(self) -> bytes:
        return urlencode({"query": self.text, **self.options}).encode()

    def headers(self) -> dict[str, str]:
        return {"Content-Type": "application/x-www-form-urlencoded", "X-Scope-OrgID": self.tenant}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    query_id: str
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def result(self) -> list[dict[str, Any]]:
        """Of a query that was answered."""
        assert self.status == http.client.OK, self
        return self.document["data"]["result"]

    @property
    def warnings(self) -> list[str]:
        return self.document.get("warnings", [])

    @property
    def error(self) -> tuple[int, str]:
        """The status and its kind."""
        return self.status, self.document.get("errorType", "")

    @property
    def text(self) -> str:
        """What is wrong."""
        return str(self.document.get("error", ""))


def answer(door: Door, ask: Ask) -> Reply:
    with begun(door, ask) as connection, connection.getresponse() as response:
        return Reply(response.status, response.headers.get("x-query-id", ""), response.read())


@contextmanager
def begun(door: Door, ask: Ask) -> Generator[http.client.HTTPConnection]:
    """The request is sent; the connection is closed at the end of the block."""
    connection = door.connect()
    try:
        connection.request("POST", ask.path, ask.body(), headers=door.headers() | ask.headers())
        yield connection
    finally:
        hang_up(connection)


@contextmanager
def asked(door: Door, ask: Ask) -> "Generator[Future[Reply]]":
    """The query goes on beside the block, and is waited for at its end."""
    with ThreadPoolExecutor(1, thread_name_prefix="ask") as pool:
        reply = pool.submit(answer, door, ask)
        yield reply
        reply.result(PATIENCE_S)
