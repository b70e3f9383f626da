"""Recruited workers over HTTP, to search with."""

import asyncio
import ssl as tls
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.client import Answer, HttpClientError, Origin, UnreachableError, split_address
from quarterdeck.http.tenants import headers_of
from quarterdeck.recruiter.model import Recruited
from quarterdeck.recruiter.peers import ANSWER_S, JSON_HEADERS, Peers, whole, words
from quarterdeck.recruiter.wire import worker_address
from quarterdeck.search.answer_check import AnswerCheck
from quarterdeck.search.chunk_request import RESERVATION_HEADER, encode_chunk
from quarterdeck.search.engine.plan import plan_search
from quarterdeck.search.frames import (
    CONTENT_TYPE,
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    decode_error,
    decode_progress,
    decode_report,
)
from quarterdeck.search.model import Chunk, ChunkReport, SearchSpec
from quarterdeck.search.ports import (
    ChunkAnswer,
    WorkerBrokeProtocolError,
    WorkerHasNoRoomError,
    WorkerLostError,
    WorkerNotReachedError,
)
from quarterdeck.search.stored_rows import RowLimits, StoredRows
from quarterdeck.stores.limits import MIB

_RELEASE_S: Final = 2.0
_LARGE_BYTES: Final = 8 * MIB
"""Of a frame. Workers of ours send half of that, except for a single row that is larger."""
_LARGE_AT_ONCE: Final = 4
"""Large frames that come at the same time, of all searches: each takes memory until it has come."""
_LARGE_S: Final = 60.0
"""In which a large frame has to come when it is its turn: else one that comes slowly would keep others from theirs."""


class HttpSearchWorkers(Peers):
    """Implements `ports.SearchWorkers`."""

    def __init__(
        self,
        *,
        authorize: Callable[[Origin], str | None] | None = None,
        ssl: tls.SSLContext | None = None,
        rows: RowLimits | None = None,
    ) -> None:
        """`rows` are limits for the answer of each chunk."""
        super().__init__(authorize=authorize, ssl=ssl)
        self._rows = rows or RowLimits()
        self._large_frames = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def search(
        self,
        worker: Recruited,
        spec: SearchSpec,
        chunk: Chunk,
        *,
        ask_about: Collection[str],
        on_progress: Callable[[int], None],
    ) -> ChunkAnswer:
        headers = {**JSON_HEADERS, "Accept": CONTENT_TYPE, **_headers(worker)}
        body = encode_chunk(spec, chunk, ask_about)
        try:
            answer = await self.client.post(self._origin(worker), "/worker/chunksearch", body, headers, ANSWER_S)
            try:
                if answer.status != 200:
                    raise _refusal(worker, answer.status, await whole(answer))
                check = AnswerCheck(plan_search(spec), chunk, ask_about)
                reading = _Reading(worker, answer, StoredRows(self._rows, check.rows), check, on_progress)
                return await reading.whole(self._large_frames)
            finally:
                answer.close()
        except UnreachableError as error:
            raise WorkerNotReachedError(f"{worker.addr} was not reached: {error}") from error
        except HttpClientError as error:
            raise WorkerLostError(f"{worker.addr} was lost: {error}") from error
        except FrameError as error:
            raise WorkerBrokeProtocolError(f"{worker.addr} broke the protocol: {error}") from error

    async def release(self, worker: Recruited) -> None:
        with suppress(TimeoutError, HttpClientError, WorkerLostError):  # its own time runs out, too
            async with asyncio.timeout(_RELEASE_S):
                answer = await self.client.post(self._origin(worker), "/worker/release", b"", _headers(worker))
                try:
                    await whole(answer)
                finally:
                    answer.close()

    def _origin(self, worker: Recruited) -> Origin:
        try:
            return split_address(f"{self.scheme}://{worker_address(worker.addr)}")[0]
        except ValueError as error:
            raise WorkerNotReachedError(f"{worker.addr!r} is no address: {error}") from error


class _Reading:
    """Of one answer."""

    def __init__(
        self,
        worker: Recruited,
        answer: Answer,
        rows: StoredRows,
        check: AnswerCheck,
        on_progress: Callable[[int], None],
    ) -> None:
        self._worker = worker
        self._answer = answer
        self._rows = rows
        self._check = check
        self._on_progress = on_progress
        self._decoder = FrameDecoder()
        self._report: ChunkReport | None = None

    async def whole(self, large_frames: asyncio.Semaphore) -> ChunkAnswer:
        """While a large frame is not its turn, nothing of it is read, and so the worker is held back."""
        while await self._read_some():
            if self._decoder.needs_bytes > _LARGE_BYTES:
                async with large_frames:
                    await self._read_large()
        if self._report is None:
            raise WorkerLostError(f"{self._worker.addr} was lost: its answer ended without a report")
        if self._decoder.has_rest:
            raise FrameError("something came after the report")
        return ChunkAnswer(self._rows, self._report)

    async def _read_large(self) -> None:
        needs_bytes = self._decoder.needs_bytes
        try:
            async with asyncio.timeout(_LARGE_S):
                while self._decoder.needs_bytes > _LARGE_BYTES and await self._read_some():
                    pass
        except TimeoutError:
            why = f"a frame of {needs_bytes:,} bytes did not come within {_LARGE_S:g} s"
            raise WorkerLostError(f"{self._worker.addr} was lost: {why}") from None

    async def _read_some(self) -> bool:
        data = await self._answer.read()
        for frame in self._decoder.feed(data) if data else ():
            await self._take(frame)
        return bool(data)

    async def _take(self, frame: Frame) -> None:
        if self._report is not None:
            raise FrameError("something came after the report")
        match frame.kind:
            case FrameKind.ROWS:
                await self._rows.add(frame.payload)
            case FrameKind.PROGRESS:
                self._on_progress(decode_progress(frame.payload))
            case FrameKind.REPORT:
                self._report, sent = decode_report(frame.payload)
                self._check.report(self._report, sent)
            case FrameKind.ERROR:
                raise _told(self._worker, decode_error(frame.payload))


def _refusal(worker: Recruited, status: int, text: bytes) -> Exception:
    """409: not reserved for us. 404, 405: no worker, or one of another time, has that address now."""
    if status in {404, 405, 409}:
        return WorkerNotReachedError(f"{worker.addr} answered {status}: {words(text)}")
    if not 400 <= status < 500:
        return WorkerLostError(f"{worker.addr} answered {status}: {words(text)}")
    return _told(worker, decode_error(text))


def _told(worker: Recruited, error: QuarterdeckError) -> Exception:
    """Why it was not searched to its end: what is nobody's fault may go better elsewhere."""
    if error.code is ErrorCode.RESOURCE_EXHAUSTED and error.retryable:
        return WorkerHasNoRoomError(f"{worker.addr}: {error}")
    return WorkerLostError(f"{worker.addr}: {error}") if error.row.http_status >= 500 else error


def _headers(worker: Recruited) -> dict[str, str]:
    """As whom we ask it."""
    reservation = {RESERVATION_HEADER: worker.reservation} if worker.reservation else {}
    return {**reservation, **headers_of(worker.tenant)}
