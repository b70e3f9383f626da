"""`POST /v1/scan`: rows streamed as they come, in the order of the files; gone when the client is.

The status is sent with the first rows, so that whatever fails before them is a proper error. What fails later cuts the
connection: half an answer cannot be taken for a whole one. `GET /v1/queries/{query_id}` says why.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.http.clientgone import ClientGoneError, run_while_connected
from quarterdeck.scan.formats import Format, Writer, choose_format, make_writer, rendered
from quarterdeck.scan.model import MAX_SQL_CHARACTERS, ScanRequest
from quarterdeck.scan.service import ScanPlan, ScanService

_DEFAULT_TENANT = "default"


class ScanBody(BaseModel):
    """What to scan."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(
        min_length=1,
        max_length=MAX_SQL_CHARACTERS,
        description="One SELECT over the view `files`. It runs over each group of files by itself.",
    )
    sources: list[str] = Field(
        default_factory=list, description="Parquet files, folders and globs, as the workers see them: paths or s3://."
    )
    ts_column: str | None = Field(None, description="The column of the result that holds its time.")
    with_filename: bool = Field(False, description="Whether `files` has a column `filename`.")
    max_rows: int | None = Field(None, ge=1, description="A group with a larger result is an error.")
    files_per_work: int | None = Field(
        None, ge=1, le=10_000, description="Files in one work; by default up to 32 files or 64 MiB."
    )
    timeout_s: float | None = Field(None, gt=0, description="After so many seconds the query is canceled.")
    format: str | None = Field(None, description="`arrow`, `ndjson` or `csv`; without it the Accept header decides.")


def scan_router(service: ScanService) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["scan"])

    @router.post("/scan", response_class=Response)
    async def scan(
        body: ScanBody,
        request: Request,
        tenant: Annotated[str, Header(alias="X-Scope-OrgID")] = _DEFAULT_TENANT,
    ) -> Response:
        """Run one SELECT over many Parquet files, on many workers."""
        form = choose_format(body.format, request.headers.get("accept", ""))
        wanted = ScanRequest(body.sql, tuple(body.sources), body.ts_column, body.with_filename, body.max_rows)
        plan = await service.plan(wanted, tenant=tenant, files_per_work=body.files_per_work)
        return ScanResponse(service, plan, form, body.timeout_s)

    _ = scan
    return router


class ScanResponse(Response):
    """Runs the scan while the client is there."""

    def __init__(self, service: ScanService, plan: ScanPlan, form: Format, timeout_s: float | None) -> None:
        super().__init__(media_type=form.value)
        self._service = service
        self._plan = plan
        self._form = form
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        with suppress(ClientGoneError):  # the query was canceled with it, and there is nobody to tell
            await run_while_connected(receive, self._run(send))

    async def _run(self, send: Send) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._stream(send)
        except TimeoutError:
            raise QuarterdeckError(
                ErrorCode.DEADLINE_EXCEEDED,
                f"query {self._plan.query_id} was canceled",
                f"it had {self._timeout_s:g} s and was not finished",
                "allow more time, or ask for less",
            ) from None

    async def _stream(self, send: Send) -> None:
        begun = False
        async with aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                if not begun:
                    begun = True
                    await self._begin(send)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if not begun:
            await self._begin(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, send: Send) -> None:
        headers = [
            (b"content-type", self._form.value.encode()),
            (b"x-query-id", self._plan.query_id.encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _chunks(self) -> AsyncGenerator[bytes]:
        writer = make_writer(self._form)
        async with self._service.harvest(self._plan) as harvest, aclosing(harvest.results()) as results:
            async for _, artifact in results:
                async with aclosing(_render(writer, artifact)) as parts:
                    async for part in parts:
                        yield part
        yield writer.finish()


async def _render(writer: Writer, artifact: FetchedArtifact) -> AsyncGenerator[bytes]:
    """The artifact's rows as bytes, computed in a thread, and the artifact released however this ends."""
    try:
        parts = rendered(writer, artifact.read_batches())
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield part
    finally:
        await asyncio.shield(asyncio.to_thread(artifact.release))
