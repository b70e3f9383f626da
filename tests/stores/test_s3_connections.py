"""What an S3 does on the wire: connections that break, stand still, or are no longer needed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import obstore
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.objects import ObjectRef, ObjectStores, S3Options
from quarterdeck.stores.parquet_cache import ParquetCache
from tests.patience import PATIENCE_S
from tests.stores.budgets import small_budget
from tests.stores.parquet import looks_like_parquet

SIZE_BYTES = 1 << 20
REF = ObjectRef("s3://lake/a.parquet", SIZE_BYTES, '"v1"')


class PlayedS3:
    """Sends half of the object, and then what the test says: breaks the connection, or goes on when it is told to."""

    def __init__(self, *, break_off: int = 0, version: str = REF.version) -> None:
        self.requests: list[str] = []
        self.go_on = asyncio.Event()
        self.half_sent = asyncio.Event()
        self.hung_up = asyncio.Event()
        self._break_off = break_off
        self._version = version
        self._serving: set[asyncio.Task[None]] = set()
        self._data = looks_like_parquet(SIZE_BYTES)

    async def end(self) -> None:
        """When all who are connected have been served."""
        self.go_on.set()
        if self._serving:
            await asyncio.wait(self._serving)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(request)
            await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    async def _answer(self, request: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start, status = 0, "200 OK"
        for line in request.lower().splitlines():
            if line.startswith("range: bytes="):
                start, status = int(line.removeprefix("range: bytes=").partition("-")[0]), "206 Partial Content"
        data = self._data[start:]
        writer.write(
            f"HTTP/1.1 {status}\r\nETag: {self._version}\r\nContent-Length: {len(data)}\r\n"
            f"Content-Range: bytes {start}-{SIZE_BYTES - 1}/{SIZE_BYTES}\r\n"
            "Last-Modified: Mon, 16 Nov 2026 13:32:26 GMT\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(data[: len(data) // 2])
        await writer.drain()
        self.half_sent.set()
        if self._break_off:
            self._break_off -= 1
            return
        gone, go_on = asyncio.create_task(reader.read()), asyncio.create_task(self.go_on.wait())
        await asyncio.wait((gone, go_on), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            self.hung_up.set()
        for task in (gone, go_on):
            task.cancel()
        await asyncio.gather(gone, go_on, return_exceptions=True)
        writer.write(data[len(data) // 2 :])
        await writer.drain()


@asynccontextmanager
async def stores_over(
    s3: PlayedS3, *, max_retries: int = 0, read_timeout_s: float = 20.0
) -> AsyncGenerator[ObjectStores]:
    server = await asyncio.start_server(s3.serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(PATIENCE_S):
        options = S3Options(
            endpoint=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            region="us-east-1",
            access_key_id="a",
            secret_access_key="b",
            allow_http=True,
            max_retries=max_retries,
            read_timeout_s=read_timeout_s,
        )
        try:
            yield ObjectStores(options)
        finally:
            await s3.end()


@asynccontextmanager
async def cache_over(
    s3: PlayedS3, tmp_path: Path, *, max_retries: int = 0, read_timeout_s: float = 20.0
) -> AsyncGenerator[ParquetCache]:
    async with stores_over(s3, max_retries=max_retries, read_timeout_s=read_timeout_s) as stores:
        cache = ParquetCache(tmp_path / "cache", small_budget(tmp_path, 4 * SIZE_BYTES), stores)
        cache.recover()
        yield cache


def test_the_version_that_was_listed_is_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        s3 = PlayedS3()
        s3.go_on.set()
        async with cache_over(s3, tmp_path) as cache, cache.open(REF) as path:
            assert path.read_bytes() == looks_like_parquet(SIZE_BYTES)
        (request,) = s3.requests
        assert 'if-match: "v1"' in request.lower()

    asyncio.run(test())


def test_a_server_that_sends_another_version_all_the_same_is_not_believed(tmp_path: Path) -> None:
    async def test() -> None:
        s3 = PlayedS3(version='"v2"')
        async with cache_over(s3, tmp_path) as cache:
            with pytest.raises(QuarterdeckError, match="changed since it was listed"):
                async with cache.open(REF):
                    pass
            await s3.hung_up.wait()
        assert list((tmp_path / "cache").iterdir()) == []

    asyncio.run(test())


async def _begin_to_stream(stores: ObjectStores) -> None:
    await anext(stores.stream(REF))


async def _read_a_range(stores: ObjectStores) -> None:
    await stores.read_range(REF, 0, SIZE_BYTES)


@pytest.mark.parametrize("read", [_begin_to_stream, _read_a_range])
def test_an_answer_that_is_not_believed_hangs_up_although_the_client_still_holds_it(
    read: Callable[[ObjectStores], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of the client lets go of it later, when the machine is busy."""
    held: list[object] = []
    get_async = obstore.get_async

    async def get_and_hold(*given: Any, **named: Any) -> object:
        held.append(await get_async(*given, **named))
        return held[-1]

    async def test() -> None:
        s3 = PlayedS3(version='"v2"')
        async with stores_over(s3) as stores:
            with pytest.raises(QuarterdeckError, match="changed since it was listed"):
                await read(stores)
            await s3.hung_up.wait()
        assert held

    monkeypatch.setattr(obstore, "get_async", get_and_hold)
    asyncio.run(test())


def test_a_connection_that_breaks_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    async def test() -> None:
        s3 = PlayedS3(break_off=1)
        s3.go_on.set()
        async with cache_over(s3, tmp_path, max_retries=2) as cache, cache.open(REF) as path:
            assert path.read_bytes() == looks_like_parquet(SIZE_BYTES)
        assert len(s3.requests) == 2

    asyncio.run(test())


def test_a_connection_that_goes_on_breaking_is_unavailable_and_leaves_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        s3 = PlayedS3(break_off=9)
        async with cache_over(s3, tmp_path) as cache:
            with pytest.raises(QuarterdeckError) as caught:
                async with cache.open(REF):
                    pass
        assert caught.value.code is ErrorCode.UNAVAILABLE
        assert caught.value.retryable
        assert REF.url in caught.value.what
        assert list((tmp_path / "cache").iterdir()) == []

    asyncio.run(test())


def test_a_connection_that_stands_still_is_given_up(tmp_path: Path) -> None:
    async def test() -> None:
        s3 = PlayedS3()
        async with cache_over(s3, tmp_path, read_timeout_s=0.2) as cache:
            with pytest.raises(QuarterdeckError) as caught:
                async with cache.open(REF):
                    pass
            assert caught.value.code is ErrorCode.UNAVAILABLE
            await s3.hung_up.wait()

    asyncio.run(test())


def test_a_download_that_nobody_waits_for_any_more_hangs_up(tmp_path: Path) -> None:
    async def test() -> None:
        s3 = PlayedS3()
        async with cache_over(s3, tmp_path) as cache:

            async def use() -> None:
                async with cache.open(REF):
                    pass

            using = asyncio.create_task(use())
            await s3.half_sent.wait()
            using.cancel()
            await asyncio.wait((using,))
            assert using.cancelled()
            await s3.hung_up.wait()
        assert list((tmp_path / "cache").iterdir()) == []

    asyncio.run(test())
