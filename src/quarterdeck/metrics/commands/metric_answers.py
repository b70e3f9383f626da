"""What a coordinator reports about its metrics: which there are and when, and what the selectors of a query would find.

Another server of the Prometheus HTTP API cannot answer this. That is not an error: the answer is None.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

from quarterdeck.metrics.commands.query_refusal import query_refusal
from quarterdeck.terminal.client import Client
from quarterdeck.terminal.tenants import tenant_headers

T = TypeVar("T")

_PREFIX: Final = "/api/v1"
_ANSWER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """One metric."""

    metric: str
    type: str = ""
    help: str = ""
    unit: str = ""
    samples: int | None = None
    series: int | None = None
    series_are_all: bool = False
    """Else there are at least so many."""
    first_ms: int | None = None
    last_ms: int | None = None
    times_are_exact: bool = False
    """Else its samples are within these times."""


@dataclass(frozen=True, slots=True)
class SelectorAnswer:
    """What one selector of a query would find."""

    selector: str
    metric: str
    start_ms: int
    end_ms: int
    found: bool
    first_ms: int | None
    last_ms: int | None
    times_are_exact: bool
    near: Sequence[str]

    @property
    def is_known(self) -> bool:
        return self.first_ms is not None


@dataclass(frozen=True, slots=True)
class SelectedAnswer:
    """Of a whole query."""

    metrics: int
    """That the tenant has."""
    selectors: Sequence[SelectorAnswer]


def ask_ranges(client: Client, pattern: str, limit: int, tenant: str | None) -> tuple[list[MetricAnswer], bool] | None:
    """The metrics, and whether there are more of them."""
    fields = {"match": pattern, "limit": str(limit)}
    return _ask(client, "/metrics/ranges", fields, tenant, lambda told: (_metrics(told["data"]), "warnings" in told))


def ask_names(client: Client, limit: int, tenant: str | None) -> list[str] | None:
    """What any server tells: names alone."""
    connection = client.begin_get(f"{_PREFIX}/label/__name__/values?limit={limit}", tenant_headers(tenant))
    with connection as exchange:
        response, body = exchange.whole_answer()
    return _document(client, response, body, lambda told: [str(name) for name in told["data"]])


def ask_selected(client: Client, fields: Mapping[str, str], tenant: str | None) -> SelectedAnswer | None:
    """What the selectors of a query would find; `fields` are those of the query."""
    return _ask(client, "/metrics/selected", fields, tenant, lambda told: _selected(told["data"]))


def has_series(client: Client, one: SelectorAnswer, tenant: str | None) -> bool | None:
    """Whether a selector matches any series in the time that it looks at."""
    span = {"start": f"{one.start_ms / 1000:.3f}", "end": f"{one.end_ms / 1000:.3f}"}
    return _ask(
        client, "/series", {"match[]": one.selector, **span, "limit": "1"}, tenant, lambda told: bool(told["data"])
    )


def _ask(
    client: Client, path: str, fields: Mapping[str, str], tenant: str | None, read: Callable[[Any], T]
) -> T | None:
    sent = client.post_form(_PREFIX + path, fields, tenant_headers(tenant), timeout_s=_ANSWER_S)
    with sent as exchange:
        response, body = exchange.whole_answer()
    return _document(client, response, body, read)


def _document(client: Client, response: Any, body: bytes, read: Callable[[Any], T]) -> T | None:
    if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return None
    if response.status != HTTPStatus.OK:
        raise query_refusal(client, response, body, "")
    try:
        return read(json.loads(body))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise client.stranger(f"its answer cannot be read ({error!r})") from None


def _metrics(listed: Any) -> list[MetricAnswer]:
    return [
        MetricAnswer(
            str(one["metric"]),
            str(one["type"]),
            str(one["help"]),
            str(one["unit"]),
            int(one["samples"]),
            None if one["series"] is None else int(one["series"]),
            bool(one["series_are_all"]),
            int(one["first_ms"]),
            int(one["last_ms"]),
            bool(one["times_are_exact"]),
        )
        for one in listed
    ]


def _selected(told: Any) -> SelectedAnswer:
    selectors = [
        SelectorAnswer(
            str(one["selector"]),
            str(one["metric"]),
            int(one["start_ms"]),
            int(one["end_ms"]),
            bool(one["found"]),
            None if one["first_ms"] is None else int(one["first_ms"]),
            None if one["last_ms"] is None else int(one["last_ms"]),
            bool(one["times_are_exact"]),
            [str(name) for name in one["near"]],
        )
        for one in told["selectors"]
    ]
    return SelectedAnswer(int(told["metrics"]), selectors)
