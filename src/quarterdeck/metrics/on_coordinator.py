"""Metrics in a coordinator: queries, the API of Prometheus, and the lake with its catalog."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from fastapi import APIRouter

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.config import CoordinatorSettings
from quarterdeck.crew.process.lifecycle import StopSignals, end_task, stop_if_broken
from quarterdeck.metrics.api.parameters import MAX_STEPS
from quarterdeck.metrics.catalog import Catalog
from quarterdeck.metrics.lake_routes import LakeSettings, lake_router
from quarterdeck.metrics.metering import LakeMetrics, QueryFigures, coordinator_readings
from quarterdeck.metrics.orphans import OrphanCollector
from quarterdeck.metrics.promql.limits import Limits
from quarterdeck.metrics.range_routes import range_router
from quarterdeck.metrics.routes import PREFIX, metrics_router
from quarterdeck.metrics.series_service import SeriesService
from quarterdeck.metrics.service import MetricsService, QueryOptions
from quarterdeck.metrics.settings import MetricsSettings
from quarterdeck.metrics.status_routes import prometheus_status_router
from quarterdeck.metrics.stream_routes import stream_router
from quarterdeck.metrics.tag_routes import tag_router
from quarterdeck.metrics.text_routes import text_router
from quarterdeck.metrics.warming import warm_all
from quarterdeck.stores.threads import in_loose_thread
from quarterdeck.web.front import Ask

_SPOOL_SHARE: Final = 8
"""One query may hold this part of the spool for a reader that is slow."""


class MetricsOnCoordinator(CoordinatorPart):
    reading_prefixes = (f"{PREFIX}/",)

    def __init__(self, host: CoordinatorHost) -> None:
        settings = self._settings = host.settings.section(MetricsSettings)
        self._host = host
        self._orphans = OrphanCollector(
            host.database,
            host.objects,
            settings.lake_url,
            LakeMetrics(host.registry),
            grace_s=settings.orphan_grace_s,
            query_timeout_s=settings.query_timeout_s,
            chance=random.random,
        )
        self._queries = MetricsService(
            host.driver,
            Catalog(host.database, settings.lake_url),
            host.ids,
            host.clock,
            host.timelines,
            _query_options(host.settings, settings),
            host.memory,
            host.log,
        )
        coordinator_readings(host.families).read_from(self._figures)

    def asks(self) -> Sequence[Ask]:
        return (
            Ask("Grafana: add a data source of the type Prometheus, with this URL", "{url}"),
            Ask("PromQL", "quarterdeck query 'sum by (job) (rate(http_requests_total[5m]))' --last 6h --url {url}"),
            Ask("The same with curl", "curl -G {url}/api/v1/query --data-urlencode 'query=up'"),
        )

    def routers(self) -> Sequence[APIRouter]:
        host, queries, settings = self._host, self._queries, self._settings
        series = SeriesService(queries, host.driver, host.ids)
        lake = LakeSettings(host.settings.database_url, settings.lake_url, host.s3, settings.orphan_grace_s)
        return (
            lake_router(lake, host.objects),
            metrics_router(queries, series),
            stream_router(queries),
            tag_router(queries, series),
            range_router(queries),
            text_router(queries),
            prometheus_status_router(queries.options, host.missing, host.settings.memory_bytes),
        )

    async def open(self, stack: AsyncExitStack) -> None:
        stack.callback(self._queries.end)

    async def begin(self, stack: AsyncExitStack, signals: StopSignals) -> None:
        """Compiled code is loaded in a thread, while others are served already; queries wait for it."""
        warming = asyncio.create_task(in_loose_thread(warm_all), name="warm up")
        warming.add_done_callback(lambda done: stop_if_broken(done, signals))
        warming.add_done_callback(lambda _: self._queries.warmed.set())
        stack.push_async_callback(end_task, warming)
        stack.push_async_callback(end_task, asyncio.create_task(self._orphans.run(), name="remove orphans"))

    def missing(self) -> Sequence[str]:
        return () if self._queries.warmed.is_set() else ("compiled code is not loaded yet",)

    def scaling(self) -> Mapping[str, float]:
        return {
            "queries_running": self._queries.running,
            "queries_queued": self._queries.queued,
            "oldest_query_age_s": round(self._queries.oldest_s, 3),
        }

    def close(self) -> None:
        self._queries.close()

    @property
    def is_busy(self) -> bool:
        return bool(self._queries.open_answers.count)

    def _figures(self) -> QueryFigures:
        return QueryFigures(
            queries_running=self._queries.running,
            queries_queued=self._queries.queued,
            oldest_queued_query_age_s=self._queries.oldest_s,
            query_memory_bytes=self._host.memory.used_bytes,
            queries_ended_for_memory=self._host.memory.ended,
        )


def _query_options(coordinator: CoordinatorSettings, settings: MetricsSettings) -> QueryOptions:
    return QueryOptions(
        timeout_s=settings.query_timeout_s,
        at_once=settings.queries_at_once,
        wait_limit_s=coordinator.wait_limit_s,
        lookback_ms=round(settings.query_lookback_s * 1000),
        limits=Limits(memory_bytes=settings.query_memory_bytes, max_points=MAX_STEPS + 1),
        max_samples=settings.query_max_samples,
        max_series=settings.query_max_series,
        work_rows=settings.query_work_rows,
        result_bytes=max(1, coordinator.spool_limit_bytes // _SPOOL_SHARE),
    )
