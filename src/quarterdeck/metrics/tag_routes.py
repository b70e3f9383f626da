"""What metrics, tags and values of tags there are, for who builds a query: `/api/v1/metrics/{metadata,tags,tagvalues}`.

Each takes a body of JSON, or the same members in the address. Answers and errors have Prometheus' form. Tags are what
Prometheus calls labels; `routes.py` has its paths.
"""

from collections.abc import Iterable
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quarterdeck.http.tenants import tenant_of
from quarterdeck.metrics.api.families import metadata_of
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.api.stream_request import parse_members
from quarterdeck.metrics.api.tag_request import TagRequest, parse_tag_request
from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.promql.labels import METRIC_NAME
from quarterdeck.metrics.routes import (
    PREFIX,
    PrometheusResponse,
    SeriesResponse,
    in_moments,
    in_prometheus_form,
    is_form_body,
    listed,
    now_ms,
    read_form,
    series_request,
)
from quarterdeck.metrics.series_service import SeriesService
from quarterdeck.metrics.service import MetricsService

_METHODS: Final = ("GET", "POST")


def tag_router(queries: MetricsService, series: SeriesService) -> APIRouter:
    """All three paths."""
    router = APIRouter(prefix=f"{PREFIX}/metrics", tags=["metrics"], default_response_class=Response)

    async def metadata(request: Request) -> Response:
        """The metrics that have samples, with type, help and unit if an import gave them."""
        members = await read_members(request)
        asked = await in_moments(members, lambda: parse_tag_request(members, now_ms()))
        return MetadataResponse(queries, series, asked, request)

    async def tags(request: Request) -> Response:
        """The names of tags, of all series or of those that match a selector."""
        members = await read_members(request)
        asked = await in_moments(members, lambda: parse_tag_request(members, now_ms()))
        wanted = series_request(request, asked.series)
        return SeriesResponse(queries, lambda held: series.label_names(wanted, held), asked.series.limit, request)

    async def tagvalues(request: Request) -> Response:
        """The values of a tag, of all series or of those that match a selector."""
        members = await read_members(request)
        asked = await in_moments(members, lambda: parse_tag_request(members, now_ms(), needs_tag=True))
        wanted = series_request(request, asked.series)
        return SeriesResponse(
            queries, lambda held: series.label_values(asked.tag, wanted, held), asked.series.limit, request
        )

    for path, handler in (("/metadata", metadata), ("/tags", tags), ("/tagvalues", tagvalues)):
        for method in _METHODS:
            extra = described(router.prefix + path, method)
            router.add_api_route(path, in_prometheus_form(handler), methods=[method], **extra)
    return router


async def read_members(request: Request) -> dict[str, Any]:
    """The members of the body, which come first, and of the address. A body that is no form is JSON, whatever it is
    called: that of `curl -d` is called a form."""
    body = (await request.body()).strip() if request.method == "POST" else b""
    members: dict[str, Any] = {name: values[0] for name, values in (await read_form(request)).items()}
    is_form = not body or (is_form_body(request) and not body.startswith(b"{"))
    return members if is_form else members | parse_members(body)


class MetadataResponse(PrometheusResponse):
    """Sends what is known about metrics."""

    def __init__(self, queries: MetricsService, series: SeriesService, asked: TagRequest, request: Request) -> None:
        super().__init__(queries, request)
        self._series = series
        self._limit = asked.series.limit
        self._wanted = series_request(request, asked.series)
        self._tenant = tenant_of(request.scope)

    async def answer(self) -> Iterable[bytes]:
        found = await self._series.label_values(METRIC_NAME, self._wanted, self.held)
        known = await self._queries.catalog.metadata(self._tenant)

        def render(metric: str) -> bytes:
            one = metadata_of(metric, known)
            return json_bytes({"metric": one.metric, "type": one.type, "help": one.help, "unit": one.unit})

        return self.packed(listed(found.values, render, self._limit, found.warnings))
