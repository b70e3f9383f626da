"""Recruiters and workers over HTTP: to register with, to recruit from, to search with."""

import asyncio
import json
import ssl as tls
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.http.client import (
    Answer,
    HttpClient,
    HttpClientError,
    NotHttpError,
    Origin,
    UnreachableError,
    split_address,
)
from quarterdeck.recruiter.answer_check import AnswerCheck
from quarterdeck.recruiter.chunk_request import RESERVATION_HEADER, encode_chunk
from quarterdeck.recruiter.engine.plan import plan_search
from quarterdeck.recruiter.frames import (
    CONTENT_TYPE,
    Frame,
    FrameDecoder,
    FrameError,
    FrameKind,
    decode_error,
    decode_progress,
    decode_report,
)
from quarterdeck.recruiter.model import Chunk, ChunkReport, Offer, Recruited, SearchSpec
from quarterdeck.recruiter.ports import (
    ChunkAnswer,
    Registered,
    RegistrationFailedError,
    WorkerBrokeProtocolError,
    WorkerLostError,
    WorkerNotReachedError,
)
from quarterdeck.recruiter.stored_rows import RowLimits, StoredRows
from quarterdeck.recruiter.wire import parse_directive, parse_given, worker_address
from quarterdeck.stores.limits import MIB

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 10.0
"""Beyond what was agreed on, before a peer counts as silent. Workers give a sign of life every two seconds."""
_RELEASE_S: Final = 2.0
_LARGE_BYTES: Final = 8 * MIB
"""Of a frame. Workers of ours send half of that, except for a single row that is larger."""
_LARGE_AT_ONCE: Final = 4
"""Large frames that come at the same time, of all searches: each takes memory until it has come."""
_LARGE_S: Final = 60.0
"""In which a large frame has to come when it is its turn: else one that comes slowly would keep others from theirs."""
_DOCUMENT_BYTES: Final = 16 * MIB
"""More than the longest answer that makes sense."""
_JSON: Final = {"Content-Type": "application/json"}


def _nobody_listens(why: str) -> None:
    """Where nobody reads the log."""


class _Peers:
    """What the three have in common: connections with the crew's token, and its TLS."""

    def __init__(
        self, *, authorize: Callable[[Origin], str | None] | None = None, ssl: tls.SSLContext | None = None
    ) -> None:
        self._scheme = "http" if ssl is None else "https"
        self._client = HttpClient(
            headers={"Accept-Encoding": "identity"}, stall_timeout_s=_CONNECT_S, ssl=ssl, authorize=authorize
        )

    async def close(self) -> None:
        """When nothing of it is under way any more."""
        await self._client.close()

    async def _ask_recruiter(self, url: str, path: str, document: object, patience_s: float) -> bytes:
        """The answer, or a `RegistrationFailedError` with the reason."""
        try:
            origin, prefix = split_address(url)
            body = json.dumps(document, separators=(",", ":")).encode()
            answer = await self._client.post(origin, f"{prefix.rstrip('/')}{path}", body, _JSON, patience_s)
            try:
                text = await _whole(answer)
            finally:
                answer.close()
        except (HttpClientError, ValueError) as error:
            raise RegistrationFailedError(f"{url}: {error}") from error
        if answer.status != 200:
            raise RegistrationFailedError(f"{url} answered {answer.status}: {_words(text)}")
        return text


class HttpRegistry(_Peers):
    """Implements `ports.Registry`."""

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        document = {
            "addr": offer.addr,
            "node_name": offer.node,
            "timeout": max(1, round(timeout_s * 1000)),
            "labels": sorted(offer.labels),
            "slots": offer.slots,
        }
        text = await self._ask_recruiter(recruiter, "/recruiter/register", document, timeout_s + _ANSWER_S)
        try:
            return parse_directive(text)
        except ValueError as error:
            raise RegistrationFailedError(f"{recruiter} answered what cannot be understood: {error}") from error


class HttpRecruiting(_Peers):
    """Implements `ports.Recruiting`: one recruiter by chance first, then the next ones for what is missing."""

    def __init__(
        self,
        recruiters: Sequence[str],
        chance: Random,
        *,
        authorize: Callable[[Origin], str | None] | None = None,
        ssl: tls.SSLContext | None = None,
        on_trouble: Callable[[str], None] = _nobody_listens,
    ) -> None:
        """`on_trouble` is told why a recruiter was passed over."""
        super().__init__(authorize=authorize, ssl=ssl)
        self._recruiters = tuple(dict.fromkeys(recruiters))
        self._chance = chance
        self._on_trouble = on_trouble

    async def recruit(self, number: int, label: str) -> Sequence[Recruited]:
        found: list[Recruited] = []
        for recruiter in self._chance.sample(self._recruiters, len(self._recruiters)):
            missing = number - len(found)
            if missing <= 0:
                break
            document: dict[str, object] = {"number_requested": missing}
            if label:
                document["label"] = label
            try:
                text = await self._ask_recruiter(recruiter, "/recruiter/recruit", document, _CONNECT_S)
                found += parse_given(text, missing)
            except RegistrationFailedError as error:
                self._on_trouble(str(error))
            except ValueError as error:
                self._on_trouble(f"{recruiter} answered what cannot be understood: {error}")
        return found


class HttpSearchWorkers(_Peers):
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
        headers = {**_JSON, "Accept": CONTENT_TYPE, **_reservation(worker)}
        body = encode_chunk(spec, chunk, ask_about)
        try:
            answer = await self._client.post(self._origin(worker), "/worker/chunksearch", body, headers, _ANSWER_S)
            try:
                if answer.status != 200:
                    raise _refusal(worker, answer.status, await _whole(answer))
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
                answer = await self._client.post(self._origin(worker), "/worker/release", b"", _reservation(worker))
                try:
                    await _whole(answer)
                finally:
                    answer.close()

    def _origin(self, worker: Recruited) -> Origin:
        try:
            return split_address(f"{self._scheme}://{worker_address(worker.addr)}")[0]
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


async def _whole(answer: Answer) -> bytes:
    pieces, length = list[bytes](), 0
    while data := await answer.read():
        pieces.append(data)
        length += len(data)
        if length > _DOCUMENT_BYTES:
            raise NotHttpError("the answer is longer than any that makes sense")
    return b"".join(pieces)


def _refusal(worker: Recruited, status: int, text: bytes) -> Exception:
    """409: not reserved for us. 404, 405: no worker, or one of another time, has that address now."""
    if status in {404, 405, 409}:
        return WorkerNotReachedError(f"{worker.addr} answered {status}: {_words(text)}")
    if not 400 <= status < 500:
        return WorkerLostError(f"{worker.addr} answered {status}: {_words(text)}")
    return decode_error(text)


def _told(worker: Recruited, error: QuarterdeckError) -> Exception:
    """Why a search that had begun was not finished: what is nobody's fault may go better elsewhere."""
    return WorkerLostError(f"{worker.addr}: {error}") if error.row.http_status >= 500 else error


def _reservation(worker: Recruited) -> dict[str, str]:
    return {RESERVATION_HEADER: worker.reservation} if worker.reservation else {}


def _words(text: bytes) -> str:
    """What an answer says that is an error, in few words."""
    try:
        return str(decode_error(text))
    except FrameError:
        return text[:200].decode("utf-8", "replace")
