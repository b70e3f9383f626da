"""`/worker/chunksearch` and `/worker/release`: what a root asks of a worker that is reserved for it.

A root of ours gets frames, and a heartbeat every two seconds; other programs get lines. Disconnecting cancels the
search. The status is sent with the first bytes, so an earlier failure is a proper error. A later failure is the last
frame, or cuts the connection.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Request, Response
from starlette.types import Receive, Scope, Send

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.crew.cancel import CancelToken
from quarterdeck.http.errors import send_error
from quarterdeck.http.gate import caller_of
from quarterdeck.http.schemas import whole_schema
from quarterdeck.http.streamed_body import StreamedBody
from quarterdeck.http.tenants import AskingTenant
from quarterdeck.http.watched import WatchedResponse
from quarterdeck.recruiter.agent import AdmittedSearch, NotReservedError, ReservationAgent, SearchStoppedError
from quarterdeck.recruiter.model import Holder
from quarterdeck.search.chunk_request import RESERVATION_HEADER, ChunkBody, ChunkRequest, decode_chunk
from quarterdeck.search.executor import ChunkExecutor, ChunkRun
from quarterdeck.search.frames import CONTENT_TYPE, RowFrames, encode_error, encode_progress, encode_report
from quarterdeck.search.language.parser import parse_search
from quarterdeck.search.model import FileProblem, SearchSpec
from quarterdeck.search.piece_finding import find_pieces
from quarterdeck.search.ports import RecordBatch
from quarterdeck.search.root.running import Gatherer
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.source_roots import SourceRoots
from quarterdeck.stores.threads import in_thread

_CONFLICT: Final = 409
_LINES: Final = "application/x-ndjson"
_LOOK_S: Final = 1.0
_END_S: Final = 10.0
"""How long a root that hangs may keep a connection on which nothing but the end is missing."""
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The result rows of this chunk.", "content": {CONTENT_TYPE: {}, _LINES: {}}},
    400: {"description": "The request makes no sense, or the query cannot be understood."},
    403: {"description": "A file is outside of `source_roots`."},
    409: {"description": "The worker is not reserved, or for another search."},
    422: {"description": "It cannot be searched, and asking again does not help."},
    503: {"description": "A store cannot be reached."},
}
_TAKES: Final = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": whole_schema(ChunkBody)}}}
}


@dataclass(frozen=True, slots=True)
class ChunkService:
    """What the routes need."""

    agent: ReservationAgent
    executor: ChunkExecutor
    objects: ObjectStores
    make_gatherer: Callable[[SearchSpec], Gatherer]
    """Makes lines out of rows."""
    wall_us: Callable[[], int] = lambda: time.time_ns() // 1000
    beat_s: float = 2.0
    """How often a root hears something, at least."""


def worker_router(service: Callable[[], ChunkService], roots: SourceRoots | None = None) -> APIRouter:
    """`service` is asked for with each request: a worker can be reached before it knows under which address, and may
    raise until then. `roots` bind whoever is not the user who runs this process."""
    router = APIRouter(prefix="/worker", tags=["worker"])
    reservation_header = Header(
        alias=RESERVATION_HEADER, description="The reservation this is for; it must be the current one."
    )

    @router.post("/chunksearch", response_class=Response, responses=_RESPONSES, openapi_extra=_TAKES)
    async def chunksearch(
        request: Request, tenant: AskingTenant, reservation: Annotated[str, reservation_header] = ""
    ) -> Response:
        """Search some files, or parts of them.

        The same tenant must have recruited the worker: `POST /recruiter/recruit` gives its address and a reservation.
        Rows come as they are found: as frames, for a root that will combine many chunks, or as lines of JSON.
        """
        chunks = service()
        body = await request.body()
        asked = await in_thread(lambda: _decode(body, chunks.wall_us()))
        if roots is not None:
            urls = [piece.url for piece in asked.pieces]
            await roots.insist_for(caller_of(request.scope), urls, chunks.objects)
        frames = CONTENT_TYPE in request.headers.get("accept", "")
        return (FramesResponse if frames else LinesResponse)(chunks, asked, Holder(reservation, tenant))

    @router.post("/release", status_code=204)
    async def release(tenant: AskingTenant, reservation: Annotated[str, reservation_header] = "") -> None:
        """End the reservation: the worker may be recruited again. A search that is still running is stopped. Without
        a name this ends whichever reservation this tenant has. The name of a reservation that is over, or of another
        tenant, changes nothing."""
        service().agent.release(reservation, tenant)

    _ = (chunksearch, release)
    return router


def _decode(body: bytes, now_us: int) -> ChunkRequest:
    asked = decode_chunk(body, now_us)
    parse_search(asked.spec.query)  # what is wrong with it is told to whoever is reserved or not
    return asked


class _ChunkResponse(WatchedResponse):
    """Searches while the client is there and the worker is reserved for it."""

    def __init__(self, service: ChunkService, asked: ChunkRequest, holder: Holder) -> None:
        super().__init__()
        self._service = service
        self._asked = asked
        self._holder = holder

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - like its siblings
        try:
            async with self._service.agent.searching(self._holder.reservation, self._holder.tenant) as search:
                answer = _Answer(send, search, self._content_type)
                await self._search(search, answer)
        except NotReservedError as error:
            await send_error(send, error, _CONFLICT)
        else:
            # Not before: whoever sees the end may send the next chunk at once, and none runs any more then.
            try:
                async with asyncio.timeout(_END_S):
                    await answer.end()
            except TimeoutError:
                raise SearchStoppedError(f"its root did not take the end of the answer for {_END_S:g} s") from None

    async def _search(self, search: AdmittedSearch, answer: "_Answer") -> None:
        pieces, problems = await find_pieces(self._service.objects, self._asked.pieces)
        run = self._service.executor.run(self._asked.spec, pieces, self._asked.ask_about)
        async with _watched(run, search):
            await self._answer(run, problems, answer)

    @property
    def _content_type(self) -> str:
        raise NotImplementedError

    async def _answer(self, run: ChunkRun, problems: Sequence[FileProblem], answer: "_Answer") -> None:
        raise NotImplementedError


class FramesResponse(_ChunkResponse):
    @property
    def _content_type(self) -> str:
        return CONTENT_TYPE

    async def _answer(self, run: ChunkRun, problems: Sequence[FileProblem], answer: "_Answer") -> None:
        rows = RowFrames()
        async with answer.beating(lambda: encode_progress(run.scanned_bytes), self._service.beat_s):
            try:
                async with aclosing(run.parts(rows.of)) as frames:
                    async for frame in frames:
                        await answer.send(frame)
                last = encode_report(replace(run.report, problems=(*problems, *run.report.problems)), rows.sent)
            except QuarterdeckError as error:
                if not answer.has_begun:
                    raise
                last = encode_error(error)
            await answer.send(last)


class LinesResponse(_ChunkResponse):
    @property
    def _content_type(self) -> str:
        return _LINES

    async def _answer(self, run: ChunkRun, problems: Sequence[FileProblem], answer: "_Answer") -> None:
        token, gatherer = CancelToken(), self._service.make_gatherer(self._asked.spec)
        batches: list[RecordBatch] = []
        try:
            async with aclosing(run.parts(lambda rows: iter([list(rows)]))) as parts:
                async for part in parts:
                    batches += part
            await _send_all(answer, gatherer.add(0, batches), token)
            await _send_all(answer, gatherer.finish(token), token)
            if found := [*problems, *run.report.problems]:
                document = {"quarterdeck": {"problems": [asdict(problem) for problem in found]}}
                await answer.send(json.dumps(document, ensure_ascii=False).encode() + b"\n")
        finally:
            await in_thread(gatherer.close)


async def _send_all(answer: "_Answer", lines: Iterator[bytes], token: CancelToken) -> None:
    while (text := await in_thread(lambda: next(lines, None), on_cancel=token.cancel)) is not None:
        await answer.send(text)


class _Answer(StreamedBody):
    """What the client takes is progress; a sign of life is none."""

    def __init__(self, send: Send, search: AdmittedSearch, content_type: str) -> None:
        super().__init__(send, ((b"content-type", content_type.encode()), (b"cache-control", b"no-store")))
        self._search = search

    async def send(self, data: bytes) -> None:
        await super().send(data)
        self._search.progressed()


@asynccontextmanager
async def _watched(run: ChunkRun, search: AdmittedSearch) -> AsyncGenerator[None]:
    """While the block runs, somebody looks whether the search gets on."""

    async def look() -> None:
        seen = run.mark
        while True:
            await asyncio.sleep(_LOOK_S)
            if run.is_waiting or run.mark != seen:
                seen = run.mark
                search.progressed()

    looking = asyncio.create_task(look(), name="look whether a search gets on")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait((looking,))
