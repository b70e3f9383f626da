"""One question over the Prometheus HTTP API: send it, wait, and read the answer, or the error that came instead."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quarterdeck.metrics.commands.query_answer import QueryAnswer, read_answer
from quarterdeck.metrics.commands.query_refusal import query_refusal
from quarterdeck.metrics.commands.query_times import Instant, Range
from quarterdeck.terminal.client import Client
from quarterdeck.terminal.tenants import tenant_headers
from quarterdeck.terminal.times import parse_length_s
from quarterdeck.terminal.waiting import Waiting

_LATE_S = 30.0
"""How much later than its time limit a server may say that it is over."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and on which terms."""

    query: str
    times: Instant | Range
    timeout: str | None = None
    tenant: str | None = None
    partial: str | None = None
    explain: str | None = None

    @property
    def path(self) -> str:
        return "/api/v1/query" if isinstance(self.times, Instant) else "/api/v1/query_range"

    def fields(self) -> dict[str, str]:
        """Of the form that is posted."""
        more = {"timeout": self.timeout, "partial": self.partial, "explain": self.explain}
        given = {name: value for name, value in more.items() if value is not None}
        return {"query": self.query, **self.times.fields(), **given}

    def headers(self) -> Mapping[str, str]:
        return tenant_headers(self.tenant)


def ask(client: Client, question: Question) -> bytes:
    """The server's answer as it came, whole. Leaving early ends the connection, and with it the query."""
    limit_s = None if question.timeout is None else parse_length_s("--timeout", question.timeout) + _LATE_S
    sent = client.post_form(question.path, question.fields(), question.headers(), timeout_s=limit_s)
    with sent as exchange, Waiting("waiting for the answer"):
        response, body = exchange.whole_answer()
    if response.status != 200:
        raise query_refusal(client, response, body, question.query)
    return body


def read_document(client: Client, body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise client.stranger("it did not answer in JSON") from None


def read(client: Client, body: bytes) -> QueryAnswer:
    """What `ask` got."""
    document = read_document(client, body)
    try:
        return read_answer(document)
    except KeyError as error:
        raise client.stranger(f"its answer has no {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise client.stranger(f"its answer cannot be read ({error})") from None
