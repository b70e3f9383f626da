"""Gets artifacts from workers over HTTP, on the coordinator, and verifies each against what was announced of it.

It keeps connections open, few to each worker. What is small stays in memory, the rest goes to disk as it comes, hashed
and written in threads. A transfer that breaks off is taken up where it broke, twice, before it costs an attempt. A
fetch that fails or is canceled, at whatever moment, leaves no file, no connection and no space taken.

The URL comes from a worker and is not believed: only http and https, only at the address with which that worker is
registered now, no redirects, and never more bytes than announced.
"""

import asyncio
import ssl as tls
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quarterdeck.core.ids import WorkerId
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkError
from quarterdeck.crew.artifacts.failures import CODES, FINAL, BrokenOffError, FetchError, FetchFailure
from quarterdeck.crew.artifacts.fetched import FetchedArtifact
from quarterdeck.crew.artifacts.format import prepare_folder
from quarterdeck.crew.artifacts.places import Places
from quarterdeck.crew.artifacts.receivers import DiskReceiver, MemoryReceiver, Receiver
from quarterdeck.crew.artifacts.verification import insist_known_version
from quarterdeck.crew.ports import FetchFailedError
from quarterdeck.http.client import (
    Answer,
    BrokenConnectionError,
    HttpClient,
    NotHttpError,
    Origin,
    SilentError,
    UnreachableError,
    split_address,
)
from quarterdeck.stores.disk import DiskBudget, DiskFullError
from quarterdeck.stores.threads import in_thread

_RESUMES: Final = 2
_ROOM_LOOK_S: Final = 0.1


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
        authorize: Callable[[Origin], str | None] | None = None,
        ssl: tls.SSLContext | None = None,
        on_begin: Callable[[AttemptId], None] = _nobody_listens,
        address_of: Callable[[WorkerId], str | None] = _nobody_knows,
    ) -> None:
        """`timeout_s` is for a whole transfer, `stall_timeout_s` for the next byte of it. `memory_limit_bytes` is for
        one artifact: up to `at_once` of them are in transfer, a quarter of these from one host. `on_begin` is told
        when a fetch has its place and begins. `address_of` tells where a worker's results are: nothing is fetched from
        elsewhere, and nothing while that is not known."""
        self.counters: Counter[str] = Counter()
        self._folder = spool_folder
        self._budget = budget
        self._timeout_s = timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._memory_limit_bytes = memory_limit_bytes
        self._places = Places(at_once, limit_per_host=max(1, at_once // 4))
        self._headers = {"Accept-Encoding": "identity"}
        self._authorize = authorize
        self._tls = ssl
        self._on_begin = on_begin
        self._address_of = address_of
        self._client: HttpClient | None = None
        self._releases: set[asyncio.Future[None]] = set()

    @property
    def under_way(self) -> int:
        """Fetches that run, or wait for a place."""
        return self._places.taken_or_waited_for

    async def start(self) -> None:
        """Empties the folder of what an earlier process left, and is ready to fetch."""
        await in_thread(lambda: prepare_folder(self._folder))
        self._client = HttpClient(
            headers=self._headers, stall_timeout_s=self._stall_timeout_s, ssl=self._tls, authorize=self._authorize
        )

    async def close(self) -> None:
        """Closes all connections; fetches must have ended. What was fetched stays until it is released."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if self._releases:
            await asyncio.wait(self._releases)

    async def fetch(self, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact) -> FetchedArtifact:
        """Brings the result here and verifies it, or raises `FetchFailedError` with worker, address and reason."""
        if self._client is None:
            raise RuntimeError("the fetcher was not started, or is closed")
        try:
            result = await self._fetch(self._client, worker_id, attempt, artifact)
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

    def _believable(self, worker_id: WorkerId, url: str) -> tuple[Origin, str]:
        """Only the address under which the worker registered: the token goes with the request, and nowhere else."""
        address = self._address_of(worker_id)
        try:
            if not address:
                raise ValueError("its worker is not registered, or with no address")
            origin, target = split_address(url)
            registered = split_address(address)[0]
        except ValueError as error:
            raise FetchError(FetchFailure.REFUSED_URL, str(error)) from error
        if origin != registered:
            raise FetchError(FetchFailure.REFUSED_URL, f"the worker registered with {address}, this is elsewhere")
        if self._tls is not None and origin.scheme != "https":
            raise FetchError(FetchFailure.REFUSED_URL, "it is not encrypted, and the crew has TLS")
        return origin, target

    async def _fetch(
        self, client: HttpClient, worker_id: WorkerId, attempt: AttemptId, artifact: Artifact
    ) -> FetchedArtifact:
        insist_known_version(artifact)
        origin, target = self._believable(worker_id, artifact.url)
        receiver = self._receiver(artifact)
        try:
            await self._wait_for_room(receiver, artifact)
            async with self._places.taken(origin):
                try:
                    async with asyncio.timeout(self._timeout_s):
                        self._on_begin(attempt)
                        await self._transfer(client, origin, target, artifact, receiver)
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

    async def _transfer(
        self, client: HttpClient, origin: Origin, target: str, artifact: Artifact, receiver: Receiver
    ) -> None:
        """All the bytes; what breaks off is taken up again."""
        for resumes_left in range(_RESUMES, -1, -1):
            try:
                await self._receive(client, origin, target, artifact, receiver)
            except BrokenOffError:
                if resumes_left == 0:
                    raise
                self.counters["resumed"] += 1
            else:
                return

    async def _receive(
        self, client: HttpClient, origin: Origin, target: str, artifact: Artifact, receiver: Receiver
    ) -> None:
        """The bytes from the first that is missing on, over one connection."""
        start = receiver.received_bytes
        try:
            answer = await client.get(origin, target, {"Range": f"bytes={start}-"} if start else None)
            try:
                _insist_fitting(answer, start, artifact.size_bytes)
                while data := await answer.read():
                    _insist_room(artifact.size_bytes - receiver.received_bytes, len(data))
                    await receiver.take(data)
            finally:
                answer.close()
        except UnreachableError as error:
            raise FetchError(FetchFailure.UNREACHABLE, f"it cannot be connected to: {error}") from error
        except SilentError as error:
            raise FetchError(FetchFailure.TIMEOUT, f"{error}, after {receiver.received_bytes} bytes") from error
        except BrokenConnectionError as error:
            raise BrokenOffError(f"the connection broke after {receiver.received_bytes} bytes: {error}") from error
        except NotHttpError as error:
            raise FetchError(FetchFailure.BROKEN, f"no HTTP is spoken there: {error}") from error
        if receiver.received_bytes < artifact.size_bytes:
            raise BrokenOffError(f"it ended after {receiver.received_bytes} of {artifact.size_bytes} bytes")


def _insist_fitting(answer: Answer, start: int, size_bytes: int) -> None:
    """The head of the answer: whether it is about the bytes we need."""
    if answer.status in {404, 410}:
        raise FetchError(FetchFailure.NOT_FOUND, f"it is gone ({answer.status})")
    if answer.status != (206 if start else 200):
        raise FetchError(FetchFailure.BAD_STATUS, f"the answer was {answer.status}")
    if start:
        expected = f"bytes {start}-{size_bytes - 1}/{size_bytes}"
        found = answer.headers.get(b"content-range", b"not said").decode("latin-1")
        if found != expected:
            raise FetchError(FetchFailure.SIZE_MISMATCH, f"the rest of it is {found}, expected was {expected}")
    length = answer.length
    if length is not None and length != size_bytes - start:
        why = f"it has {length} bytes to send, announced were {size_bytes - start}"
        raise FetchError(FetchFailure.SIZE_MISMATCH, why)


def _insist_room(missing_bytes: int, came_bytes: int) -> None:
    if came_bytes > missing_bytes:
        raise FetchError(FetchFailure.SIZE_MISMATCH, "it has more bytes than were announced")
