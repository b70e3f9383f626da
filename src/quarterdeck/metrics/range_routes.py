"""Which metrics there are and when they have samples, and why a query may find nothing:
`/api/v1/metrics/{ranges,selected}`.

Both answer from the catalog alone. Answers and errors have Prometheus' form.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from fastapi import APIRouter, Request, Response

from quarterdeck.http.tenants import tenant_of
from quarterdeck.metrics.api import parameters as pm
from quarterdeck.metrics.api.errors import invalid_parameter
from quarterdeck.metrics.api.families import metadata_of
from quarterdeck.metrics.api.form import limit_of, short
from quarterdeck.metrics.api.json_text import json_bytes
from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.metric_ranges import Selected, selected
from quarterdeck.metrics.name_patterns import name_pattern
from quarterdeck.metrics.routes import (
    PREFIX,
    PrometheusResponse,
    in_prometheus_form,
    listed,
    now_ms,
    read_form,
    success,
    within,
)
from quarterdeck.metrics.running_query import QueryRequest
from quarterdeck.metrics.service import MetricsService
from quarterdeck.metrics.universe import MetricRange, Universe

_METHODS: Final = ("GET", "POST")
_MOST_METRICS: Final = 10_000
_MOST_NAMED: Final = 100
_LONGEST_PATTERN: Final = 200
_MOST_SELECTORS: Final = 20
"""Of a query so many are looked at: whoever reads the answer wants to know about the first."""


def range_router(queries: MetricsService) -> APIRouter:
    """Both paths."""
    router = APIRouter(prefix=f"{PREFIX}/metrics", tags=["metrics"], default_response_class=Response)

    async def ranges(request: Request) -> Response:
        """The metrics, with type, number of series, and the times of the first and the last sample."""
        return RangesResponse(queries, await read_form(request), request)

    async def selected_by(request: Request) -> Response:
        """What each selector of a query would find, and when its metric has samples."""
        form = await read_form(request)
        wanted = _query_request(form, tenant_of(request.scope))

        async def look() -> tuple[int, list[Selected]]:
            selections = await queries.selections(wanted, _MOST_SELECTORS)
            universe = await queries.catalog.universe(wanted.tenant)
            found = await queries.in_thread(lambda: [selected(universe, one) for one in selections])
            return len(universe.metrics), found

        count, found = await within(queries.options.timeout_s, look())
        return success({"metrics": count, "selectors": [_selected_document(one) for one in found]})

    for path, handler in (("/ranges", ranges), ("/selected", selected_by)):
        for method in _METHODS:
            extra = described(router.prefix + path, method)
            router.add_api_route(path, in_prometheus_form(handler), methods=[method], **extra)
    return router


class RangesResponse(PrometheusResponse):
    """Sends what the catalog knows of each metric."""

    def __init__(self, queries: MetricsService, form: pm.Form, request: Request) -> None:
        super().__init__(queries, request)
        self._tenant = tenant_of(request.scope)
        self._limit = min(limit_of(form) or _MOST_METRICS, _MOST_METRICS)
        self._named = form.get("metric", ())
        if len(self._named) > _MOST_NAMED:
            raise invalid_parameter("metric", f"it stands {len(self._named)} times, and at most {_MOST_NAMED} may")
        self._pattern = short(form, "match")
        if len(self._pattern) > _LONGEST_PATTERN:
            raise invalid_parameter("match", f"it has more than {_LONGEST_PATTERN} characters")

    async def answer(self) -> Iterable[bytes]:
        catalog = self._queries.catalog
        universe = await catalog.universe(self._tenant)
        found = await within(self._queries.options.timeout_s, self._queries.in_thread(lambda: self._found(universe)))
        known = await catalog.metadata(self._tenant)

        def render(one: MetricRange) -> bytes:
            about = metadata_of(one.metric, known)
            return json_bytes(
                {"metric": one.metric, "type": about.type, "help": about.help, "unit": about.unit, **_counts(one)}
            )

        return self.packed(listed(found, render, self._limit, ()))

    def _found(self, universe: Universe) -> list[MetricRange]:
        if self._named:
            some = sorted(set(self._named) & universe.metrics.keys())
            return [universe.metrics[name] for name in some]
        if not self._pattern:
            return list(universe.metrics.values())
        matches = name_pattern(self._pattern).fullmatch
        return [one for name, one in universe.metrics.items() if matches(name)]


def _query_request(form: pm.Form, tenant: str) -> QueryRequest:
    if any(form.get(name) for name in ("start", "end", "step")):
        wanted = pm.range_parameters(form)
        times = (wanted.start_ms, wanted.end_ms, wanted.step_ms)
        return QueryRequest(wanted.query, *times, tenant=tenant, lookback_ms=wanted.conditions.lookback_ms)
    asked = pm.query_parameters(form, now_ms())
    lookback_ms = asked.conditions.lookback_ms
    return QueryRequest(asked.query, asked.time_ms, asked.time_ms, 0, tenant=tenant, lookback_ms=lookback_ms)


def _counts(one: MetricRange) -> Mapping[str, object]:
    return {
        "samples": one.samples,
        "series": one.series,
        "series_are_all": one.series_are_all,
        "first_ms": one.first_ms,
        "last_ms": one.last_ms,
        "times_are_exact": one.times_are_exact,
    }


def _selected_document(one: Selected) -> Mapping[str, object]:
    known = one.known
    return {
        "selector": one.selector,
        "metric": one.metric,
        "start_ms": one.start_ms,
        "end_ms": one.end_ms,
        "found": one.found,
        "first_ms": None if known is None else known.first_ms,
        "last_ms": None if known is None else known.last_ms,
        "times_are_exact": known is not None and known.times_are_exact,
        "near": list(one.near),
    }
