"""`POST /v1/search`, also `POST /worker/rootsearch`: log lines that fulfil a condition, and what stages make of them.

As NDJSON the status is sent with the first rows, so that whatever fails before them is a proper error, and what fails
later cuts the connection. As server-sent events the answer begins when the search is planned. If the search waits in
line until the first heartbeat is due, the answer begins with that. Its last event says how the search ended.
Disconnecting cancels the search, and its workers go back to the pool.
"""

from collections.abc import Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import QueryId
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.http import sse
from quarterdeck.http.bounded_body import BoundedBody, FieldName, Moment, NamedPath, Path, StopsAtFirst
from quarterdeck.http.gate import caller_of
from quarterdeck.http.streamed_body import StreamedBody
from quarterdeck.http.tenants import AskingTenant, LookingTenant
from quarterdeck.http.watched import WatchedResponse
from quarterdeck.search.language.parser import MAX_LENGTH
from quarterdeck.search.model import Order
from quarterdeck.search.root.event_frames import HEARTBEAT, HEARTBEAT_S, done_frame, frame_of, problems_line
from quarterdeck.search.root.planning import DEFAULT_WORKERS, WORKERS_MAX, SearchRequest
from quarterdeck.search.root.running import Progress, RunningSearch
from quarterdeck.search.root.service import SearchService
from quarterdeck.stores.source_roots import Border, SourceRoots

_NDJSON: Final = "application/x-ndjson"
_MAX_SOURCES: Final = 10_000
_MAX_TIMEOUT_S: Final = 86_400.0
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": 'The records or rows. As NDJSON one a line; a last line `{"quarterdeck":{"problems":[...]}}` '
        "is there only if files could not be searched. As events `progress`, `rows` and at last `done`.",
        "content": {_NDJSON: {}, sse.CONTENT_TYPE: {}},
        "headers": {"X-Query-Id": {"description": "For `/v1/searches/{query_id}`.", "schema": {"type": "string"}}},
    },
    400: {"description": "The request makes no sense, the query is wrong, or no record has a field that it names."},
    403: {"description": "A source is outside of `source_roots`."},
    404: {"description": "A source finds nothing."},
    422: {"description": "Not one of the files could be searched."},
    429: {"description": "A limit was reached: memory or disk; or too many searches wait already."},
    503: {"description": "This process is shutting down."},
    504: {"description": "`timeout_s` was over."},
}


class Form(StrEnum):
    NDJSON = "ndjson"
    EVENTS = "events"


class SearchBody(BoundedBody):
    """What to search for, and where."""

    query: str = Field(
        max_length=MAX_LENGTH, description='In the search language: `level=error "timed out" | count() by host`.'
    )
    sources: Annotated[list[NamedPath], StopsAtFirst()] = Field(
        default_factory=list[str],
        max_length=_MAX_SOURCES,
        description="Files of NDJSON, also compressed, and of Parquet; folders and globs of them; paths or s3://.",
    )
    data_path: Path = Field("", description="A folder: the source, or where relative sources begin.")
    max_workers: int = Field(DEFAULT_WORKERS, ge=1, le=WORKERS_MAX, description="How many workers to recruit at most.")
    order: Order = Field(Order.TIME, description="The order of records, unless a stage sorts.")
    time_field: FieldName | None = Field(
        None, min_length=1, description="The field with a record's time; without it, a sample decides."
    )
    start: Moment | int | float | None = Field(
        None, description="Records from this time on: RFC 3339 (UTC without a zone), seconds since 1970, or `now-1h`."
    )
    end: Moment | int | float | None = Field(None, description="Records before this time.")
    timeout_s: float | None = Field(
        None, gt=0, le=_MAX_TIMEOUT_S, description="The search is canceled after this many seconds."
    )
    label: str = Field("", max_length=128, description="What the workers to recruit are for.")
    format: Form | None = Field(None, description="Without it the Accept header decides.")

    def wanted(self) -> SearchRequest:
        return SearchRequest(
            self.query,
            tuple(self.sources),
            self.data_path,
            self.max_workers,
            self.order,
            self.time_field,
            None if self.start is None else str(self.start),
            None if self.end is None else str(self.end),
            self.timeout_s,
            self.label,
        )


def search_router(
    service: SearchService, heartbeat_s: float = HEARTBEAT_S, roots: SourceRoots | None = None
) -> APIRouter:
    """`roots` bind whoever is not the user who runs this process."""
    router = APIRouter(tags=["search"])

    async def search(body: SearchBody, request: Request, tenant: AskingTenant) -> Response:
        """Search NDJSON and Parquet files, with workers that are recruited for it.

        The files are divided into chunks, and each worker searches one chunk after the other. Without workers this
        process searches alone. Every chunk counts exactly once, however many workers are lost on the way.
        """
        accepts_events = sse.CONTENT_TYPE in request.headers.get("accept", "")
        form = body.format or (Form.EVENTS if accepts_events else Form.NDJSON)
        wanted = body.wanted()
        border = None
        if roots is not None:
            border = await service.insist_within(roots, caller_of(request.scope), wanted, tenant)
        return SearchResponse(service, wanted, form, heartbeat_s, border, tenant)

    async def searches(tenant: LookingTenant) -> list[Mapping[str, object]]:
        """Searches that are running, and the last that ended. `/v1/queries` has those that wait, too."""
        return service.told(tenant)

    async def one_search(query_id: str, tenant: LookingTenant) -> Mapping[str, object]:
        """What became of one search."""
        found = service.told_of(QueryId(query_id), tenant)
        if found is None:
            raise QuarterdeckError(
                ErrorCode.NOT_FOUND,
                f"search {query_id} is not known",
                "this process did not run it, or ran it too long ago",
                "see GET /v1/searches for those it knows",
            )
        return found

    for path in ("/v1/search", "/worker/rootsearch"):
        router.add_api_route(path, search, methods=["POST"], response_class=Response, responses=_RESPONSES)
    router.add_api_route("/v1/searches", searches, methods=["GET"])
    router.add_api_route("/v1/searches/{query_id}", one_search, methods=["GET"])
    return router


class SearchResponse(WatchedResponse):
    """Plans and runs the search while the client is there."""

    def __init__(
        self,
        service: SearchService,
        wanted: SearchRequest,
        form: Form,
        heartbeat_s: float,
        border: Border | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        super().__init__(service.open_answers, _NDJSON if form is Form.NDJSON else sse.CONTENT_TYPE)
        self._service = service
        self._wanted = wanted
        self._form = form
        self._heartbeat_s = heartbeat_s
        self._border = border
        self._tenant = tenant

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - like its siblings
        await (self._lines(send) if self._form is Form.NDJSON else self._events(send))

    async def _lines(self, send: Send) -> None:
        body = StreamedBody(send, ((b"content-type", _NDJSON.encode()), (b"cache-control", b"no-store")))
        async with (
            self._service.opened(self._wanted, self._border, self._tenant) as running,
            aclosing(running.events()) as events,
        ):
            body.headers.append(_query_id(running.query_id))
            async for event in events:
                if not isinstance(event, Progress):
                    await body.send(event.data)
            await body.begin()
        await body.end(problems_line(running))

    async def _events(self, send: Send) -> None:
        query_id = self._service.new_query_id()
        running: RunningSearch | None = None
        failure: QuarterdeckError | None = None
        opening = sse.event_stream(send, HEARTBEAT, self._heartbeat_s, [_query_id(query_id)], begin=False)
        async with opening as stream:
            try:
                async with (
                    self._service.opened(self._wanted, self._border, self._tenant, query_id) as running,
                    aclosing(running.events()) as events,
                ):
                    await stream.begin()
                    async for event in events:
                        await stream.send(frame_of(event))
            except QuarterdeckError as error:
                if not stream.has_begun:
                    raise
                failure = error
            await stream.send(done_frame(query_id, running, failure))


def _query_id(query_id: QueryId) -> tuple[bytes, bytes]:
    return b"x-query-id", query_id.encode()
