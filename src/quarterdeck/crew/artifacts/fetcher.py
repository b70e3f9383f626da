"""Gets artifacts from workers over HTTP, on the coordinator, and verifies each against what was announced of it.

It keeps connections open, few to each worker. What is small stays in memory, the rest goes to disk as it comes, hashed
and written in threads. A transfer that breaks off is taken up where it broke, twice, before it costs an attempt. A
fetch that fails or is canceled, at whatever moment, leaves no file, no connection and no space taken.

The URL comes from a worker and is not believed: only http and https, no redirects, and never more bytes than announced.
"""

import asyncio
import ssl as tls
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError
from quarterdeck.crew.artifacts.failures import CODES, FINAL, BrokenOffError, FetchError, FetchFailure
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.format import prepare_folder
from quarterdeck.crew.artifacts.places import Places
from quarterdeck.crew.artifacts.receivers import DiskReceiver, MemoryReceiver, Receiver
from quarterdeck.crew.artifacts.threads import in_thread
from quarterdeck.crew.artifacts.verification import insist_known_version
from quarterdeck.crew.ports import FetchFailedError
from quarterdeck.stores.disk import DiskBudget, DiskFullError

_RESUMES: Final = 2
_ROOM_LOOK_S: Final = 0.1
_KEEP_ALIVE_S: Final = 15.0
"""Well below the time after which a worker closes an idle connection, so that none is used in the moment it closes."""
_READ_BUFFER_BYTES: Final = 256 * 1024
"""aiohttp stops reading from the network at twice this."""


def _nobody_listens(attempt: AttemptId) -> None:
    pass


def _nobody_knows(worker_id: WorkerId) -> str | None:  # noqa: ARG001 - where no worker has registered
    return None


class ArtifactFetcher:
    """Start it, fetch, close it. `counters` has how often what happened: `fetched`, `resumed`, and each failure; and
    `bytes`, what came over the network, of fetches that failed too."""

    def __init__(
        self,
        spool_folder: Path,
        budget: DiskBudget,
        *,
        timeout_s: float,
        stall_timeout_s: float,
        memory_limit_bytes: int = 256 * 1024,
        at_once: int,
        token: str | None = None,
        ssl: tls.SSLContext | None = None,
        on_begin: Callable[[AttemptId], None] = _nobody_listens,
        address_of: Callable[[WorkerId], str | None] = _nobody_knows,
    ) -> None:
        """`timeout_s` is for a whole transfer, `stall_timeout_s` for the next byte of it. `memory_limit_bytes` is for
        one artifact: up to `at_once` of them are in transfer, a quarter of these from one host. `on_begin` is told
        when a fetch has its place and begins. `address_of` tells where a worker's results are, if that is known."""
        self.counters: Counter[str] = Counter()
        self._folder = spool_folder
        self._budget = budget
        self._timeout_s = timeout_s
        self._timeout = aiohttp.ClientTimeout(sock_connect=stall_timeout_s, sock_read=stall_timeout_s)
        self._stall_timeout_s = stall_timeout_s
        self._memory_limit_bytes = memory_limit_bytes
        self._at_once = at_once
        self._at_once_per_host = max(1, at_once // 4)
        self._places = Places(at_once, self._at_once_per_host)
        self._headers = {"Accept-Encoding": "identity"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = ssl
        self._on_begin = on_begin
        self._address_of = address_of
        self._session: aiohttp.ClientSession | None = None
        self._releases: set[asyncio.Future[None]] = set()

    @property
    def under_way(self) -> int:
        """Fetches that run, or wait for a place."""
        return self._places.taken_or_waited_for

    async def start(self) -> None:
        """Empties the folder of what an earlier process left, and is ready to fetch."""
        await in_thread(lambda: prepare_folder(self._folder))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._at_once,
                limit_per_host=self._at_once_per_host,
                keepalive_timeout=_KEEP_ALIVE_S,
                ssl=self._tls or True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            skip_auto_headers=("User-Agent", "Accept"),
            auto_decompress=False,
            timeout=self._timeout,
            read_bufsize=_READ_BUFFER_BYTES,
        )

    async def close(self) -> None:
        """Closes all connections; fetches must have ended. What was fetched stays until it is released."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._releases:
            await asyncio.wait(self._releases)

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> FetchedArtifact:
        """Brings the result here and verifies it, or raises `FetchFailedError` with worker, address and reason."""
        if self._session is None:
            raise RuntimeError("the fetcher was not started, or is closed")
        try:
            result = await self._fetch(self._session, worker_id, attempt, artifact)
        except FetchError as error:
            self.counters[error.failure] += 1
            message = f"the result of {attempt} was not had from worker {worker_id} at {artifact.url}: {error.why}"
            raise FetchFailedError(
                WorkError(CODES[error.failure], message, retryable=error.failure not in FINAL)
            ) from error
        self.counters["fetched"] += 1
        return result

    def discard(self, result: FetchedArtifact) -> None:
        """A result that nobody needs: a file is deleted in a thread, and `close` waits for that."""
        if result.path is None:
            result.release()
            return
        release = asyncio.get_running_loop().run_in_executor(None, result.release)
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)

    async def _wait_for_room(self, receiver: Receiver, artifact: Artifact) -> None:
        """A spool that is full of results nobody has read yet is no fault of this one: it waits, and takes no place."""
        patience = asyncio.get_running_loop().time() + self._timeout_s
        while True:
            try:
                await receiver.open()
            except DiskFullError:
                hopeless = artifact.size_bytes > self._budget.limits.limit_bytes
                if hopeless or asyncio.get_running_loop().time() > patience:
                    raise
                await asyncio.sleep(_ROOM_LOOK_S)
            else:
                return

    def _believable(self, worker_id: WorkerId, text: str) -> URL:
        """Only the address under which the worker registered: the token goes with the request, and nowhere else."""
        url = _believable(text)
        address = self._address_of(worker_id)
        if address and url.origin() != URL(address).origin():
            raise FetchError(FetchFailure.REFUSED_URL, f"the worker registered with {address}, this is elsewhere")
        if self._tls is not None and url.scheme != "https":
            raise FetchError(FetchFailure.REFUSED_URL, "it is not encrypted, and the crew has TLS")
        return url

    async def _fetch(
        self, session: aiohttp.ClientSession, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact
    ) -> FetchedArtifact:
        insist_known_version(artifact)
        url = self._believable(worker_id, artifact.url)
        receiver = self._receiver(artifact)
        try:
            await self._wait_for_room(receiver, artifact)
            async with self._places.taken(url.authority):
                try:
                    async with asyncio.timeout(self._timeout_s):
                        self._on_begin(attempt)
                        await self._transfer(session, url, artifact, receiver)
                        return await receiver.finish()
                except TimeoutError as error:
                    why = f"it took longer than {self._timeout_s:g} s, {receiver.received_bytes} bytes had come"
                    raise FetchError(FetchFailure.TIMEOUT, why) from error
        except DiskFullError as error:
            await receiver.abandon()
            raise FetchError(FetchFailure.DISK_FULL, str(error)) from error
        except BaseException:
            await receiver.abandon()
            raise
        finally:
            self.counters["bytes"] += receiver.received_bytes

    def _receiver(self, artifact: Artifact) -> Receiver:
        if artifact.size_bytes <= self._memory_limit_bytes:
            return MemoryReceiver(artifact)
        return DiskReceiver(artifact, self._folder, self._budget)

    async def _transfer(self, session: aiohttp.ClientSession, url: URL, artifact: Artifact, receiver: Receiver) -> None:
        """All the bytes; what breaks off is taken up again."""
        for resumes_left in range(_RESUMES, -1, -1):
            try:
                await self._receive(session, url, artifact, receiver)
            except BrokenOffError:
                if resumes_left == 0:
                    raise
                self.counters["resumed"] += 1
            else:
                return

    async def _receive(self, session: aiohttp.ClientSession, url: URL, artifact: Artifact, receiver: Receiver) -> None:
        """The bytes from the first that is missing on, over one connection."""
        start = receiver.received_bytes
        headers = {"Range": f"bytes={start}-"} if start else None
        try:
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                _insist_fitting(response, start, artifact.size_bytes)
                async for data in response.content.iter_any():
                    _insist_room(artifact.size_bytes - receiver.received_bytes, len(data))
                    await receiver.take(data)
        except aiohttp.ClientConnectorError as error:
            raise FetchError(FetchFailure.UNREACHABLE, f"it cannot be connected to: {error}") from error
        except aiohttp.ServerTimeoutError as error:
            why = f"nothing came for {self._stall_timeout_s:g} s, after {receiver.received_bytes} bytes"
            raise FetchError(FetchFailure.TIMEOUT, why) from error
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError) as error:
            why = f"the connection broke after {receiver.received_bytes} bytes: {error!r}"
            raise BrokenOffError(why) from error
        except aiohttp.ClientError as error:
            raise FetchError(FetchFailure.BROKEN, f"no HTTP is spoken there: {error!r}") from error
        if receiver.received_bytes < artifact.size_bytes:
            raise BrokenOffError(f"it ended after {receiver.received_bytes} of {artifact.size_bytes} bytes")


def _believable(text: str) -> URL:
    try:
        url = URL(text)
        believable = url.scheme in {"http", "https"} and bool(url.host) and url.user is None
    except ValueError as error:
        raise FetchError(FetchFailure.REFUSED_URL, f"that is no URL: {error}") from error
    if not believable:
        raise FetchError(FetchFailure.REFUSED_URL, "only http and https are fetched from, and no user stands in it")
    return url


def _insist_fitting(response: aiohttp.ClientResponse, start: int, size_bytes: int) -> None:
    """The head of the answer: whether it is about the bytes we need."""
    if response.status in {404, 410}:
        raise FetchError(FetchFailure.NOT_FOUND, f"it is gone ({response.status})")
    if response.status != (206 if start else 200):
        raise FetchError(FetchFailure.BAD_STATUS, f"the answer was {response.status} {response.reason}")
    if start:
        expected, found = f"bytes {start}-{size_bytes - 1}/{size_bytes}", response.headers.get("Content-Range")
        if found != expected:
            raise FetchError(FetchFailure.SIZE_MISMATCH, f"the rest of it is {found}, expected was {expected}")
    if response.content_length is not None and response.content_length != size_bytes - start:
        why = f"it has {response.content_length} bytes to send, announced were {size_bytes - start}"
        raise FetchError(FetchFailure.SIZE_MISMATCH, why)


def _insist_room(missing_bytes: int, came_bytes: int) -> None:
    if came_bytes > missing_bytes:
        raise FetchError(FetchFailure.SIZE_MISMATCH, "it has more bytes than were announced")
