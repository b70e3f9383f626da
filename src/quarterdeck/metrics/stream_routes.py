"""`POST /api/v1/metrics/query`: the answer to a range query as server-sent events, sent as it is computed.

What is wrong with the request, including the query's text, is a proper error, in Prometheus' form. Everything else
comes after the response has begun: results, signs of life while there are none, and in the end one frame `done` that
says whether all went well. A stream without `done` was cut off. Disconnecting cancels the query.
"""

from collections.abc import Generator, Mapping
from contextlib import closing

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.crew.query_log import AskedQuery
from quarterdeck.crew.time_limit import time_limit
from quarterdeck.http.sse import event_stream
from quarterdeck.http.streamed_body import StreamedBody
from quarterdeck.http.tenants import tenant_of
from quarterdeck.metrics.api import parameters as pm
from quarterdeck.metrics.api import sse
from quarterdeck.metrics.api.errors import error_answer
from quarterdeck.metrics.api.frames import ResultFrames
from quarterdeck.metrics.api.samples import CHUNK_BYTES
from quarterdeck.metrics.api.stream_request import parse_stream_request
from quarterdeck.metrics.api.summaries import Summaries
from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.explaining import explain_analyzed
from quarterdeck.metrics.promql.plan.pipeline import plan_query
from quarterdeck.metrics.promql.plan.rules.check_times import check_range
from quarterdeck.metrics.routes import (
    PREFIX,
    PrometheusResponse,
    QueryTimedOutError,
    in_prometheus_form,
    now_ms,
    read_form,
)
from quarterdeck.metrics.running_query import QueryRequest, RunningQuery
from quarterdeck.metrics.service import MetricsService
from quarterdeck.telemetry.traces import span

_PATH = "/metrics/query"


def stream_router(queries: MetricsService, heartbeat_s: float = sse.HEARTBEAT_S) -> APIRouter:
    """The one path."""
    router = APIRouter(prefix=PREFIX, tags=["metrics"], default_response_class=Response)

    async def stream(request: Request) -> Response:
        """The answer to a PromQL query at the steps of a range, as it is computed: server-sent events."""
        asked = parse_stream_request(await request.body(), now_ms())
        conditions = pm.conditions_of(await read_form(request))
        wanted = QueryRequest(
            asked.query,
            asked.start_ms,
            asked.end_ms,
            asked.step_ms,
            tenant_of(request.scope),
            conditions.lookback_ms,
            conditions.partial is pm.Partial.ALLOW,
            conditions.explain is pm.Explain.ANALYZE,
        )
        try:
            await _check(queries, wanted)
        except QuarterdeckError as error:
            queries.asked(wanted).end(error)
            raise
        return StreamResponse(queries, wanted, asked.summary, conditions.timeout_ms, heartbeat_s, request)

    router.add_api_route(_PATH, in_prometheus_form(stream), methods=["POST"], **described(PREFIX + _PATH, "POST"))
    return router


async def _check(queries: MetricsService, wanted: QueryRequest) -> None:
    """Raises what can be known to be wrong before the query's turn has come."""
    options, times = queries.options, (wanted.start_ms, wanted.end_ms, wanted.step_ms)
    check_range(*times, options.limits.max_points)
    await queries.in_thread(lambda: plan_query(wanted.text, *times, options.default_subquery_step_ms))


class StreamResponse(PrometheusResponse):
    """Runs a query while its client is there, and sends what comes of it."""

    def __init__(
        self,
        queries: MetricsService,
        wanted: QueryRequest,
        summary: bool,
        timeout_ms: int | None,
        heartbeat_s: float,
        request: Request,
    ) -> None:
        super().__init__(queries, request)
        self._wanted = wanted
        self._summary = summary
        self._limit_s = queries.options.timeout_s
        if timeout_ms is not None:
            self._limit_s = min(self._limit_s, max(0.0, timeout_ms / 1000))
        self._heartbeat_s = heartbeat_s

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - like its siblings
        async with event_stream(send, sse.HEARTBEAT, self._heartbeat_s) as stream:
            try:
                with self._queries.asked(self._wanted) as asked:
                    end = await self._in_time(stream, asked)
            except QuarterdeckError as error:
                end = sse.done(error_answer(error))
            await stream.send(end)

    async def _in_time(self, stream: StreamedBody, asked: AskedQuery) -> bytes:
        """Sends all results, and gives the last frame. The client's reading is part of the time: a place in line and
        the results of all works are held for it."""
        limited = time_limit(self._limit_s, lambda: QueryTimedOutError(self._limit_s))
        async with limited, self._queries.opened(self._wanted, asked) as running:
            with span("query", query_id=running.query_id):
                await self._send_results(running, stream)
                warnings, infos = await self._queries.in_thread(running.notes, running.stopped)
            return sse.done(None, warnings, infos, self._told(running))

    async def _send_results(self, running: RunningQuery, stream: StreamedBody) -> None:
        queries = self._queries
        with closing(_summary_chunks(running) if self._summary else _result_chunks(running)) as chunks:
            while True:
                began_s = queries.now_s()
                async with queries.turn_of(running):
                    chunk = await queries.in_thread(lambda: next(chunks, None), running.stopped)
                running.phases.evaluating_s += queries.now_s() - began_s
                if chunk is None:
                    return
                await stream.send(chunk)

    def _told(self, running: RunningQuery) -> Mapping[str, object]:
        told: dict[str, object] = {"query_id": running.query_id}
        return told | {"explain": explain_analyzed(running, self._queries.now_s())} if self._wanted.analyzed else told


def _result_chunks(running: RunningQuery) -> Generator[bytes]:
    frames = ResultFrames()
    for grid, block in running.blocks():
        yield from frames.of(grid, block)


def _summary_chunks(running: RunningQuery) -> Generator[bytes]:
    """A frame for each series, when all blocks are there; many of them in a chunk."""
    summaries = Summaries()
    for _, block in running.blocks():
        summaries.add(block)
    waiting: list[bytes] = []
    size_bytes = 0
    for frame in summaries.frames():
        waiting.append(frame)
        size_bytes += len(frame)
        if size_bytes >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield b"".join(waiting)
