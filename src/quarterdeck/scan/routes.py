"""`POST /v1/scan`: rows are streamed as they come, in the order of the files. If the client disconnects, the scan is
canceled.

The status is sent with the first rows, so an earlier failure is a proper error. A later failure cuts the connection, so
that nobody takes half an answer for a whole one. `GET /v1/queries/{query_id}` says why.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.workcoord.model import WorkKey
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.query_log import AskedQuery
from quarterdeck.crew.time_limit import time_limit
from quarterdeck.engines.part_words import Alike
from quarterdeck.http.bounded_body import BoundedBody, FieldName, Path, StopsAtFirst
from quarterdeck.http.gate import caller_of
from quarterdeck.http.streamed_body import StreamedBody
from quarterdeck.http.tenants import AskingTenant
from quarterdeck.http.watched import WatchedResponse
from quarterdeck.scan.formats import Batch, Format, Writer, choose_format, make_writer, no_rows, rendered
from quarterdeck.scan.model import MAX_SQL_CHARACTERS, Merging, ScanRequest
from quarterdeck.scan.service import ScanPlan, ScanService
from quarterdeck.stores.source_roots import Border, SourceRoots
from quarterdeck.stores.threads import in_thread
from quarterdeck.telemetry.traces import span

Results: TypeAlias = AsyncGenerator[tuple[WorkKey, FetchedArtifact]]

_MAX_SOURCES: Final = 10_000
_MAX_TIMEOUT_S: Final = 86_400.0
"""A day. Whoever waits longer has lost the connection by then."""
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The rows of the answer, in the form that was asked for.",
        "content": {form.value: {} for form in Format},
        "headers": {"X-Query-Id": {"description": "For `/v1/queries/{query_id}`.", "schema": {"type": "string"}}},
    },
    400: {"description": "The request makes no sense."},
    403: {"description": "A source is outside of `source_roots`."},
    404: {"description": "A source finds nothing."},
    422: {
        "description": "A worker met an error that asking again cannot cure, such as SQL that is wrong; or the workers "
        "that ran a part of it died."
    },
    429: {"description": "A limit was reached: `max_rows`, memory or disk; or too many scans wait already."},
    502: {"description": "Every attempt at a part of it failed for a passing reason."},
    503: {"description": "No worker takes the work, or this coordinator is shutting down."},
    504: {"description": "Its time was over: `timeout_s`, or what this coordinator allows."},
}


class ScanBody(BoundedBody):
    """What to scan."""

    sql: str = Field(
        min_length=1,
        max_length=MAX_SQL_CHARACTERS,
        description="One SELECT over the view `files`, which has all files. SQL that cannot be divided is refused "
        "if there are more files than one work reads.",
    )
    sources: Annotated[list[Path], StopsAtFirst()] = Field(
        default_factory=list[str],
        max_length=_MAX_SOURCES,
        description="Parquet files, folders and globs, as the workers see them: paths or s3://.",
    )
    ts_column: FieldName | None = Field(None, description="The column of the result with its time.")
    merge: Merging = Field(
        Merging.AUTO,
        description="`none` runs the SQL over each group of files by itself and gives all their rows.",
    )
    with_filename: bool = Field(
        False, description="Whether `*` includes the column `filename`. SQL can always name it."
    )
    max_rows: int | None = Field(
        None, ge=1, description="If a group's result or the merged answer has more rows, that is an error."
    )
    files_per_work: int | None = Field(
        None, ge=1, le=10_000, description="How many files are one work; by default up to 32 files or 64 MiB."
    )
    timeout_s: float | None = Field(
        None,
        gt=0,
        le=_MAX_TIMEOUT_S,
        description="The query is canceled after this many seconds, including the wait in line. The default, and the "
        "most, is the coordinator's `scan.timeout_s`.",
    )
    format: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="`arrow`, `ndjson` or `csv`; without it the Accept header decides."
    )


def scan_router(service: ScanService, roots: SourceRoots | None = None) -> APIRouter:
    """`roots` bind whoever is not the user who runs this process."""
    router = APIRouter(prefix="/v1", tags=["scan"])

    @router.post("/scan", response_class=Response, responses=_RESPONSES)
    async def scan(body: ScanBody, request: Request, tenant: AskingTenant) -> Response:
        """Run one SELECT over many Parquet files, on many workers.

        Workers share the files. The answer is the one that DuckDB alone would give over all files, also if the SQL
        aggregates, sorts, limits or makes rows distinct. Rows that need no merging come in the order of the files.
        `key=value` folders in their paths are columns, and so is `filename`.

        If an answer ends before its proper end, it was broken off: `/v1/queries/{query_id}` says why.
        """
        wanted = ScanRequest(
            body.sql, tuple(body.sources), body.ts_column, body.with_filename, body.max_rows, body.merge
        )
        border = None
        if roots is not None:
            border = await service.insist_within(roots, caller_of(request.scope), wanted, tenant)
        form = choose_format(body.format, request.headers.get("accept", ""))
        return ScanResponse(service, wanted, form, tenant, body.files_per_work, body.timeout_s, border)

    _ = scan
    return router


class ScanResponse(WatchedResponse):
    """Plans and runs the scan while the client is there and has time."""

    def __init__(
        self,
        service: ScanService,
        wanted: ScanRequest,
        form: Format,
        tenant: str,
        files_per_work: int | None,
        timeout_s: float | None,
        border: Border | None = None,
    ) -> None:
        super().__init__(service.open_answers, form.value)
        self._service = service
        self._wanted = wanted
        self._form = form
        self._tenant = tenant
        self._files_per_work = files_per_work
        self._timeout_s = timeout_s
        self._border = border

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - like its siblings
        with self._service.asked(self._wanted, self._tenant) as asked:
            await self._run(send, asked)

    async def _run(self, send: Send, asked: AskedQuery) -> None:
        """In its turn, and for as long as it may take; looking for files and waiting count too."""
        allowed_s = self._service.allowed_s(self._timeout_s)
        plan: ScanPlan | None = None

        def late() -> QuarterdeckError:
            is_ours = self._timeout_s is None or self._timeout_s > allowed_s
            return QuarterdeckError(
                ErrorCode.DEADLINE_EXCEEDED,
                f"{'the scan' if plan is None else f'query {plan.query_id}'} was canceled",
                f"it had {allowed_s:g} s and was not finished",
                "ask for less, or allow more time" + (" with scan.timeout_s" if is_ours else ""),
            )

        async with self._service.admission.admitted(allowed_s) as waited_s, time_limit(allowed_s - waited_s, late):
            asked.begin()
            plan = await self._service.plan(
                self._wanted,
                tenant=self._tenant,
                files_per_work=self._files_per_work,
                border=self._border,
                query_id=asked.query_id,
            )
            with span("query", query_id=plan.query_id):
                await self._stream(plan, send)

    async def _stream(self, plan: ScanPlan, send: Send) -> None:
        headers = (
            (b"content-type", self._form.value.encode()),
            (b"x-query-id", plan.query_id.encode()),
            (b"cache-control", b"no-store"),
        )
        body = StreamedBody(send, headers)
        async with aclosing(self._chunks(plan)) as chunks:
            async for chunk in chunks:
                await body.send(chunk)
        await body.end()

    async def _chunks(self, plan: ScanPlan) -> AsyncGenerator[bytes]:
        writer = make_writer(self._form)
        try:
            async with (
                self._service.harvest(plan) as harvest,
                aclosing(harvest.results()) as results,
                aclosing(self._parts(plan, writer, results)) as parts,
            ):
                async for part in parts:
                    yield part
            end = await in_thread(writer.finish)
            if end:
                yield end
        finally:
            await in_thread(writer.close)

    async def _parts(self, plan: ScanPlan, writer: Writer, results: Results) -> AsyncGenerator[bytes]:
        """The answer, without its end."""
        order, window = plan.division.merge, plan.window()
        if order is None:
            alike = Alike() if plan.division.checks is not None else None
            async for _, artifact in results:
                batches = _batches(artifact) if alike is None else alike.checked(_batches(artifact))
                batches = batches if window is None else window.cut(batches)
                async with aclosing(_render(writer, batches, artifact.release)) as parts:
                    async for part in parts:
                        yield part
                if window is not None and window.is_full:
                    break  # leaving the harvest cancels the rest
            return
        most = plan.request.max_rows
        async with self._service.merging.answer(order, _artifacts(results)) as answer:
            batches = answer.batches if most is None else _at_most(answer.batches, most)
            async with aclosing(_render(writer, batches, answer.close, answer.token.cancel)) as parts:
                async for part in parts:
                    yield part


async def _artifacts(results: Results) -> AsyncGenerator[FetchedArtifact]:
    async for _, artifact in results:
        yield artifact


async def _render(
    writer: Writer,
    batches: Iterator[Batch],
    release: Callable[[], None],
    on_cancel: Callable[[], None] | None = None,
) -> AsyncGenerator[bytes]:
    """The rows as bytes, computed in a thread. However this ends, that has ended too, and what they are of is
    released."""
    parts = rendered(writer, batches)

    def close() -> None:
        parts.close()  # with the file that it reads
        release()

    try:
        while (part := await in_thread(lambda: next(parts, None), on_cancel=on_cancel)) is not None:
            yield part
    finally:
        await in_thread(close, on_cancel=on_cancel)


def _at_most(batches: Iterator[Batch], rows_max: int) -> Iterator[Batch]:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows > rows_max:
            raise QuarterdeckError(
                ErrorCode.RESOURCE_EXHAUSTED,
                "the answer was not sent",
                f"it has more than the {rows_max} rows that were allowed",
                "ask for fewer rows, or allow more",
                retryable=False,
            )
        yield batch


def _batches(artifact: FetchedArtifact) -> Iterator[Batch]:
    """At least one: what has no rows has columns."""
    empty = True
    for batch in artifact.read_batches():
        empty = False
        yield batch
    source = artifact.path if artifact.data is None else artifact.data
    if empty and source is not None:
        yield no_rows(source)
