"""The read API of Prometheus, as Grafana and promtool use it, over the segments of the lake.

A query runs while its client is there and has time. The status is sent when the answer is known, so that whatever goes
wrong before is a proper error, in Prometheus' form.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, TypeVar, cast

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from quarterdeck import __version__
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.query_log import AskedQuery
from quarterdeck.crew.time_limit import time_limit
from quarterdeck.http.streamed_body import StreamedBody
from quarterdeck.http.tenants import tenant_of
from quarterdeck.http.watched import WatchedResponse
from quarterdeck.metrics.api import parameters as pm
from quarterdeck.metrics.api.compression import accepts_gzip, compressed
from quarterdeck.metrics.api.errors import error_answer, render_error
from quarterdeck.metrics.api.form import parse_form
from quarterdeck.metrics.api.json_text import LabelTexts, json_bytes
from quarterdeck.metrics.api.rendering import render_result
from quarterdeck.metrics.descriptions import described
from quarterdeck.metrics.explaining import explain_analyzed
from quarterdeck.metrics.promql.result import Result, limited
from quarterdeck.metrics.running_query import QueryRequest
from quarterdeck.metrics.series_service import Found, FoundSeries, SeriesRequest, SeriesService
from quarterdeck.metrics.service import MetricsService, cut_off_by
from quarterdeck.stores.threads import in_thread
from quarterdeck.telemetry.traces import span

T = TypeVar("T")

PREFIX: Final = "/api/v1"
_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = b"application/json"
_SHORT: Final = 4_000
"""Characters of parameters that take no time to speak of to read."""
_AT_ONCE: Final = 1_000
"""Of the items of an answer that are made into one chunk."""
_PIECE_BYTES: Final = 512 * 1024
"""About what is sent at once of a large answer."""
_SPOKEN_VERSION: Final = "3.0.0"
"""Of the API and the language: what clients choose their features by."""
TRUNCATED: Final = "results truncated due to limit"


def metrics_router(queries: MetricsService, series: SeriesService) -> APIRouter:
    """All paths."""
    router = APIRouter(prefix=PREFIX, tags=["metrics"], default_response_class=Response)
    get, either = ["GET"], ["GET", "POST"]

    async def query(request: Request) -> Response:
        """The answer to a PromQL query at one time."""
        form = await read_form(request)
        asked = pm.query_parameters(form, now_ms())
        wanted = _request(request, asked.query, (asked.time_ms, asked.time_ms, 0), asked.conditions)
        return QueryResponse(queries, wanted, asked.conditions, request)

    async def query_range(request: Request) -> Response:
        """The answer to a PromQL query at the steps of a range."""
        asked = pm.range_parameters(await read_form(request), now_ms())
        times = (asked.start_ms, asked.end_ms, asked.step_ms)
        return QueryResponse(
            queries, _request(request, asked.query, times, asked.conditions), asked.conditions, request
        )

    async def find_series(request: Request) -> Response:
        """The series that match."""
        form = await read_form(request)
        asked = await in_moments(form, lambda: pm.series_parameters(form, now_ms()))
        wanted = series_request(request, asked)
        return SeriesResponse(queries, lambda held: series.series(wanted, held), asked.limit, request)

    async def labels(request: Request) -> Response:
        """The names of labels."""
        form = await read_form(request)
        asked = await in_moments(form, lambda: pm.labels_parameters(form, now_ms()))
        wanted = series_request(request, asked)
        return SeriesResponse(queries, lambda held: series.label_names(wanted, held), asked.limit, request)

    async def label_values(request: Request) -> Response:
        """The values of a label."""
        form = await read_form(request)
        name = request.path_params["name"]
        asked = await in_moments(form, lambda: pm.label_values_parameters(name, form, now_ms()))
        wanted = series_request(request, asked.series)
        return SeriesResponse(
            queries, lambda held: series.label_values(asked.name, wanted, held), asked.series.limit, request
        )

    async def metadata(request: Request) -> Response:
        """Types, units and help texts of metrics."""
        asked = pm.metadata_parameters(await read_form(request))
        known = await queries.catalog.metadata(tenant_of(request.scope))
        found = [one for one in known.values() if asked.metric in ("", one.metric)]
        shown = found if asked.limit < 0 else found[: asked.limit]
        return success({one.metric: [{"type": one.type, "help": one.help, "unit": one.unit}] for one in shown})

    async def buildinfo() -> Response:
        """What this is. Clients read the version as Prometheus'."""
        return success(
            {
                "version": _SPOKEN_VERSION,
                "revision": f"quarterdeck-{__version__}",
                "branch": "",
                "buildUser": "",
                "buildDate": "",
                "goVersion": "",
            }
        )

    async def no_exemplars() -> Response:
        """Exemplars: always empty, because none are kept."""
        return success([])

    async def no_rules() -> Response:
        """Rules: always empty."""
        return success({"groups": []})

    async def no_alerts() -> Response:
        """Alerts: always empty."""
        return success({"alerts": []})

    for path, handler, methods in (
        ("/query", query, either),
        ("/query_range", query_range, either),
        ("/query_exemplars", no_exemplars, either),
        ("/series", find_series, either),
        ("/labels", labels, either),
        ("/label/{name}/values", label_values, get),
        ("/metadata", metadata, get),
        ("/rules", no_rules, get),
        ("/alerts", no_alerts, get),
        ("/status/buildinfo", buildinfo, get),
    ):
        for method in methods:  # each for itself: they are described differently
            extra = described(PREFIX + path, method)
            router.add_api_route(path, in_prometheus_form(handler), methods=[method], **extra)
    return router


# What asks


async def read_form(request: Request) -> pm.Form:
    """The parameters of the address and, of a form, those of the body, which come first."""
    body = await request.body() if request.method == "POST" and is_form_body(request) else b""
    query = request.url.query
    if len(body) + len(query) <= _SHORT:
        return parse_form(body, query)
    return await in_thread(lambda: parse_form(body, query))


async def in_moments(members: Mapping[str, object], function: Callable[[], T]) -> T:
    """What it makes of the parameters: at once, or in a thread where they are long."""
    return function() if sum(map(_characters, members.values())) <= _SHORT else await in_thread(function)


def _characters(value: object) -> int:
    """Of a value, or of all values of a parameter."""
    if isinstance(value, list):
        return sum(map(_characters, cast("list[object]", value)))
    return len(value) if isinstance(value, str) else 0


def is_form_body(request: Request) -> bool:
    """Whether the body is called a form."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _request(request: Request, text: str, times: tuple[int, int, int], conditions: pm.Conditions) -> QueryRequest:
    return QueryRequest(
        text,
        *times,
        tenant=tenant_of(request.scope),
        lookback_ms=conditions.lookback_ms,
        partial_allowed=conditions.partial is pm.Partial.ALLOW,
        analyzed=conditions.explain is pm.Explain.ANALYZE,
    )


def series_request(request: Request, asked: pm.SeriesParameters) -> SeriesRequest:
    """What is asked about series, and by whom."""
    return SeriesRequest(
        asked.selectors, asked.start_ms, asked.end_ms, tenant_of(request.scope), asked.partial is pm.Partial.ALLOW
    )


# What answers


def in_prometheus_form(handler: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """What a handler raises on purpose, as Prometheus would say it."""

    async def told(request: Request) -> Response:
        try:
            return await (handler(request) if handler.__code__.co_argcount else handler())
        except QuarterdeckError as error:
            return error_response(error)

    told.__doc__, told.__name__ = handler.__doc__, handler.__name__
    return told


class PrometheusResponse(WatchedResponse):
    """Disconnecting cancels its query. What goes wrong before the answer begins is told in Prometheus' form."""

    def __init__(self, queries: MetricsService, request: Request) -> None:
        super().__init__(queries.open_answers)
        self._queries = queries
        self._gzip = accepts_gzip(request.headers.get("accept-encoding"))
        self.held = ExitStack()
        """What is held until the answer has been sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.held:
            await super().__call__(scope, receive, send)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = StreamedBody(send)
        try:
            try:
                await self._send(iter(await self.answer()), body)
            except asyncio.CancelledError as canceled:
                error = cut_off_by(canceled)
                if error is None:
                    raise
                raise error from None
        except QuarterdeckError as error:
            if body.has_begun:
                raise  # whoever serves cuts the connection, so that a part is not taken for the whole
            await error_response(error)(scope, receive, send)

    async def answer(self) -> Iterable[bytes]:
        """The body, in chunks that are made as they are sent."""
        raise NotImplementedError

    async def _send(self, chunks: Iterator[bytes], body: StreamedBody) -> None:
        """While a piece is sent, the next one is made in a thread. An answer of one piece says how long it is."""
        making = self._make(chunks, is_large=False)
        try:
            piece, is_last = await making
            body.headers += self._headers()
            if is_last:
                body.headers.append((b"content-length", str(len(piece)).encode()))
            while not is_last:
                making = self._make(chunks, is_large=True)
                await body.send(piece)
                piece, is_last = await making
            await body.end(piece)
        finally:
            making.cancel()
            await asyncio.wait((making,))
            del making  # its error leads to this frame

    def _make(self, chunks: Iterator[bytes], *, is_large: bool) -> "asyncio.Task[tuple[bytes, bool]]":
        return asyncio.create_task(self._queries.rendered(lambda: _piece(chunks), is_large=is_large), name="render")

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", _JSON), (b"vary", b"accept-encoding"), *self.more_headers()]
        return [*headers, (b"content-encoding", b"gzip")] if self._gzip else headers

    def more_headers(self) -> list[tuple[bytes, bytes]]:
        return []

    def packed(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Compressed, for a client that asks for it."""
        return compressed(chunks) if self._gzip else chunks


def _piece(chunks: Iterator[bytes]) -> tuple[bytes, bool]:
    """Some chunks together, and whether they were the last."""
    parts: list[bytes] = []
    size_bytes = 0
    for chunk in chunks:
        parts.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= _PIECE_BYTES:
            return b"".join(parts), False
    return b"".join(parts), True


class QueryResponse(PrometheusResponse):
    """Runs a query, and sends its answer."""

    def __init__(
        self, queries: MetricsService, wanted: QueryRequest, conditions: pm.Conditions, request: Request
    ) -> None:
        super().__init__(queries, request)
        self._wanted = wanted
        self._conditions = conditions
        self._query_id = b""

    def more_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"x-query-id", self._query_id)] if self._query_id else []

    async def answer(self) -> Iterable[bytes]:
        result, extra = await run_query(self._queries, self._wanted, self._conditions, self._remember, self.held)
        return self.packed(render_result(result, extra))

    def _remember(self, query_id: str) -> None:
        self._query_id = query_id.encode()


async def run_query(
    queries: MetricsService,
    wanted: QueryRequest,
    conditions: pm.Conditions,
    on_begun: Callable[[str], None],
    held: ExitStack,
) -> tuple[Result, Mapping[str, object]]:
    """The answer, within the time that the client and the server allow, and what is told besides. Its memory is on an
    account until `held` ends."""
    limit_s = queries.options.timeout_s
    if conditions.timeout_ms is not None:
        limit_s = min(limit_s, max(0.0, conditions.timeout_ms / 1000))

    async def run(asked: AskedQuery) -> tuple[Result, Mapping[str, object]]:
        async with queries.opened(wanted, asked) as running:
            on_begun(running.query_id)
            with span("query", query_id=running.query_id):
                result = await queries.evaluated(running)
            queries.keep(running, result, held)
            return result, {"explain": explain_analyzed(running, queries.now_s())} if wanted.analyzed else {}

    with queries.asked(wanted) as asked:
        result, extra = await within(limit_s, run(asked))
    return limited(result, conditions.limit, TRUNCATED), extra


async def within(limit_s: float, work: Awaitable[T]) -> T:
    """What it gives, or `QueryTimedOutError` when that takes too long."""
    async with time_limit(limit_s, lambda: QueryTimedOutError(limit_s)):
        return await work


class QueryTimedOutError(QuarterdeckError):
    """The client's time, or the server's, was over."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            ErrorCode.DEADLINE_EXCEEDED,
            "query timed out in expression evaluation",
            f"it had {limit_s:g} s and was not finished",
            "allow more time (timeout, metrics.query_timeout_s), or ask for less",
        )
        self.args = (limit_s,)


class SeriesResponse(PrometheusResponse):
    """Sends what is known about labels."""

    def __init__(
        self,
        queries: MetricsService,
        find: Callable[[ExitStack], Awaitable[Found | FoundSeries]],
        limit: int,
        request: Request,
    ) -> None:
        super().__init__(queries, request)
        self._find = find
        self._limit = limit

    async def answer(self) -> Iterable[bytes]:
        found = await within(self._queries.options.timeout_s, self._find(self.held))
        rows = found.labels if isinstance(found, FoundSeries) else found.values
        texts = LabelTexts()
        render = texts.object if isinstance(found, FoundSeries) else json_bytes
        return self.packed(listed(rows, cast("Callable[[object], bytes]", render), self._limit, found.warnings))


def listed(rows: Sequence[T], render: Callable[[T], bytes], limit: int, warnings: Sequence[str]) -> Iterator[bytes]:
    """The answer that is a list, made as it is sent: there may be a million rows.

    >>> b"".join(listed(["a", "b", "c"], json_bytes, 2, ()))
    b'{"status":"success","data":["a","b"],"warnings":["results truncated due to limit"]}'
    """
    shown = min(limit, len(rows)) if limit else len(rows)
    yield b'{"status":"success","data":['
    for at in range(0, shown, _AT_ONCE):
        yield (b"," if at else b"") + b",".join(map(render, rows[at : min(at + _AT_ONCE, shown)]))
    told = [*warnings, TRUNCATED] if shown < len(rows) else list(warnings)
    yield b"]" + (b',"warnings":' + json_bytes(told) if told else b"") + b"}"


def success(data: object) -> Response:
    """An answer that is known."""
    return told(json_bytes(data))


def told(data: bytes) -> Response:
    """The same, of which JSON has been made."""
    return Response(b'{"status":"success","data":' + data + b"}", media_type="application/json")


def error_response(error: QuarterdeckError) -> Response:
    """An error in Prometheus' form."""
    answer = error_answer(error)
    return Response(render_error(answer), answer.status, media_type="application/json")
