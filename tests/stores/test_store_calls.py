"""Calls that hang: they are given up in time and told of, and nobody else waits for them."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores import local_files
from quarterdeck.stores import objects as objects_module
from quarterdeck.stores.mounts import Mounts
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.stores.parquet_cache import ParquetCache
from quarterdeck.stores.store_calls import StoreCalls
from tests.stores.budgets import small_budget
from tests.stores.parquet import looks_like_parquet

SOON_S = 0.3
LONG_S = 60.0


class Hung:
    """A folder `hung` whose files do not answer until the test says so, on a mount of its own, and one beside it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, own_mount: bool, threads: int = 2) -> None:
        self.path = folder / "hung" / "a.log"
        self.beside = folder / "well" / "b.log"
        for path in (self.path, self.beside):
            path.parent.mkdir()
            path.write_bytes(b"0123456789")
        table = folder / "mountinfo"
        point = str(folder / "hung") if own_mount else "/nowhere"
        table.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / {point} rw - nfs server:/x rw\n")
        self.calls = StoreCalls(SOON_S, threads=threads, mounts=Mounts(table))
        self.stores = ObjectStores(calls=self.calls)
        self.answers = threading.Event()
        self.entered = threading.Semaphore(0)
        well = objects_module.read_range
        hung = str(self.path.parent)

        def read_range(path: str, *arguments: object) -> bytes:
            if path.startswith(hung):
                self.entered.release()
                self.answers.wait()
            return well(path, *arguments)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(objects_module, "read_range", read_range)

    async def read(self, path: Path) -> bytes:
        """Its first bytes, with all the time there is for finding it."""
        self.calls.timeout_s = LONG_S
        ref = await self.stores.head(str(path))
        self.calls.timeout_s = SOON_S if path == self.path else LONG_S
        return await self.stores.read_range(ref, 0, 4)

    async def refused(self, path: Path) -> QuarterdeckError:
        with pytest.raises(QuarterdeckError) as caught:
            await self.read(path)
        return caught.value


@pytest.fixture(params=[True, False], ids=["own mount", "same mount"])
def hung(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hung]:
    scene = Hung(tmp_path, monkeypatch, own_mount=request.param)
    yield scene
    scene.answers.set()


async def wait_until_nothing_hangs(stores: ObjectStores) -> None:
    while stores.trouble():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_a_call_that_hangs_is_given_up_and_named_and_others_go_on_and_it_recovers(hung: Hung) -> None:
    async def scene() -> None:
        error = await hung.refused(hung.path)
        assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
        assert str(hung.path) in error.what
        assert f"did not answer within {SOON_S:g} s" in error.why
        assert await hung.read(hung.beside) == b"0123"
        (told,) = hung.stores.trouble()
        assert told.startswith(f"1 call to the object store hangs: {hung.path} for ")
        figures = hung.stores.figures()
        assert (figures.hanging, figures.timed_out) == (1, 1)
        hung.answers.set()
        await wait_until_nothing_hangs(hung.stores)
        hung.calls.timeout_s = LONG_S
        assert await hung.stores.read_range(await hung.stores.head(str(hung.path)), 0, 4) == b"0123"
        assert hung.stores.figures().hanging == 0

    asyncio.run(scene())


def test_when_all_threads_of_a_mount_hang_it_is_refused_at_once_and_other_mounts_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = Hung(tmp_path, monkeypatch, own_mount=True)

    async def scene() -> None:
        for _ in range(2):
            await hung.refused(hung.path)
        hung.calls.timeout_s = LONG_S
        with pytest.raises(QuarterdeckError) as caught:
            await hung.stores.head(str(hung.path))  # would take a minute, were it tried
        assert caught.value.code is ErrorCode.UNAVAILABLE
        assert f"2 calls to {hung.path.parent} hang already" in caught.value.why
        assert await hung.read(hung.beside) == b"0123"
        assert hung.stores.trouble()[0].startswith("2 calls to the object store hang: ")
        hung.answers.set()
        await wait_until_nothing_hangs(hung.stores)
        assert (await hung.stores.head(str(hung.path))).size_bytes == 10

    asyncio.run(scene())


def test_a_walk_into_a_mount_that_hangs_takes_no_threads_of_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = Hung(tmp_path, monkeypatch, own_mount=True)
    scandir = os.scandir

    def scan(path: str) -> object:
        if path == str(hung.path.parent):
            hung.entered.release()
            hung.answers.wait()
        return scandir(path)

    monkeypatch.setattr(local_files.os, "scandir", scan)

    async def scene() -> None:
        hung.calls.timeout_s = LONG_S
        finding = [asyncio.create_task(hung.stores.find(str(tmp_path))) for _ in range(2)]
        for _ in finding:
            await asyncio.to_thread(hung.entered.acquire)
        assert await hung.read(hung.beside) == b"0123"
        hung.answers.set()
        for each in finding:
            assert str(hung.path) in [ref.url for ref in await each]

    asyncio.run(scene())


def test_who_never_gets_a_thread_is_told_so_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = Hung(tmp_path, monkeypatch, own_mount=True, threads=1)

    async def scene() -> None:
        ref = await hung.stores.look(hung.path, lambda: None) or await hung.stores.head(str(hung.path))
        hung.calls.timeout_s = LONG_S
        first = asyncio.create_task(hung.stores.read_range(ref, 0, 4))
        await asyncio.to_thread(hung.entered.acquire)
        hung.calls.timeout_s = SOON_S
        with pytest.raises(QuarterdeckError, match="its turn did not come"):
            await hung.stores.head(str(hung.path))
        hung.answers.set()
        assert await first == b"0123"

    hung.calls.timeout_s = LONG_S
    asyncio.run(scene())


def test_a_stream_has_its_deadline_for_each_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = Hung(tmp_path, monkeypatch, own_mount=True)

    async def scene() -> None:
        hung.calls.timeout_s = LONG_S
        ref = await hung.stores.head(str(hung.path))
        hung.calls.timeout_s = SOON_S
        async with aclosing(hung.stores.stream(ref)) as chunks:
            with pytest.raises(QuarterdeckError, match="did not answer"):
                await anext(chunks)
        hung.answers.set()

    asyncio.run(scene())


def test_more_calls_than_threads_are_all_done(tmp_path: Path) -> None:
    stores = ObjectStores(calls=StoreCalls(LONG_S, threads=3))
    (tmp_path / "a").write_bytes(b"x" * 100)

    async def scene() -> list[bytes]:
        ref = await stores.head(str(tmp_path / "a"))
        return await asyncio.gather(*(stores.read_range(ref, at, at + 1) for at in range(100)))

    assert asyncio.run(scene()) == [b"x"] * 100


def test_no_call_waits_for_another_while_a_thread_may_begin(tmp_path: Path) -> None:
    calls = StoreCalls(LONG_S, threads=2)
    path = str(tmp_path)

    async def scene() -> None:
        for spent in range(500):
            await calls.run(path, lambda: None)
            met = threading.Barrier(2)  # neither ends before both have begun
            first = asyncio.create_task(calls.run(path, met.wait))
            await asyncio.sleep(0)
            for _ in range(spent):
                pass  # so that the thread is somewhere else each time
            await asyncio.gather(first, calls.run(path, met.wait))

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        asyncio.run(scene())
    finally:
        sys.setswitchinterval(interval_s)


def test_who_is_canceled_leaves_at_once_and_a_write_is_waited_for(tmp_path: Path) -> None:
    stores = ObjectStores()
    entered, answers = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        answers.wait()

    async def scene() -> None:
        looking = asyncio.create_task(stores.look(tmp_path / "a", wait))
        await asyncio.to_thread(entered.wait)
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        answers.set()
        putting = asyncio.create_task(stores.put(str(tmp_path / "b"), b"data"))
        await asyncio.sleep(0)
        putting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await putting

    asyncio.run(scene())
    assert (tmp_path / "b").read_bytes() == b"data"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_file_in_place_whose_disk_hangs_does_not_hold_up_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(looks_like_parquet(100))
    calls = StoreCalls(LONG_S)
    stores = ObjectStores(calls=calls)
    cache = ParquetCache(tmp_path / "cache", small_budget(tmp_path, 1000), stores)
    answers = threading.Event()

    def hang(*_: object) -> None:
        answers.wait()

    async def scene() -> None:
        ref = await stores.head(str(path))
        async with cache.open(ref):
            pass
        monkeypatch.setattr("quarterdeck.stores.parquet_cache.check_unchanged", hang)
        calls.timeout_s = SOON_S
        with pytest.raises(QuarterdeckError, match="did not answer"):
            async with cache.open(ref):
                pass
        answers.set()

    asyncio.run(scene())


def test_a_bucket_that_does_not_answer_is_given_up_in_time() -> None:
    async def scene() -> None:
        accepted: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options = S3Options(f"http://127.0.0.1:{port}", "us-east-1", "a", "hush", allow_http=True)
        stores = ObjectStores(options, timeout_s=SOON_S)
        for pattern in ("s3://lake/a.parquet", "s3://lake/*.parquet", "s3://lake/**"):
            with pytest.raises(QuarterdeckError) as caught:
                await stores.find(pattern)
            assert caught.value.code is ErrorCode.UNAVAILABLE
            assert "s3://lake/" in caught.value.what
            assert "did not answer within" in caught.value.why
        assert stores.figures().timed_out == 3
        for writer in accepted:
            writer.close()
        server.close()
        await server.wait_closed()

    asyncio.run(scene())


def test_no_more_requests_to_a_bucket_begin_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects_module, "_BUCKET_CALLS_MAX", 3)
    begun, most = 0, 0

    def head(_: object, key: str) -> "asyncio.Task[dict[str, object]]":
        """Under way from now on, as those of the store are, whether somebody awaits it or not."""
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        return asyncio.create_task(answer(key))

    async def answer(key: str) -> dict[str, object]:
        nonlocal begun
        await asyncio.sleep(0)
        begun -= 1
        return {"path": key, "size": 5, "e_tag": '"x"'}

    monkeypatch.setattr(objects_module.obstore, "head_async", head)

    async def scene() -> None:
        stores = ObjectStores(S3Options("http://127.0.0.1:1", "us-east-1", "a", "hush", allow_http=True))
        found = await asyncio.gather(*(stores.head(f"s3://lake/{number}") for number in range(12)))
        assert [ref.size_bytes for ref in found] == [5] * 12

    asyncio.run(scene())
    assert most == 3


ENDS = """
import asyncio, threading
from pathlib import Path
from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.stores.objects import ObjectStores
async def main():
    try:
        await ObjectStores(timeout_s=0.05).look(Path("/x"), threading.Event().wait)
    except QuarterdeckError as error:
        print(error.code)
asyncio.run(main())
"""


def test_a_call_that_hangs_does_not_keep_the_process_from_ending() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "unavailable\n"


def test_mounts_are_told_by_their_names(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    lines = ["/", "/mnt", "/mnt/deep", r"/two\040words"]
    table.write_text("".join(f"1 0 8:1 / {point} rw - ext4 /dev/a rw\n" for point in lines))
    mounts = Mounts(table)
    asked = ["/a", "/mnt", "/mnt/a", "/mnt/deep", "/mnt/deep/a/b", "/mnt/deeper/a", "/mnts/a", "/two words/a"]
    found = ["/", "/mnt", "/mnt", "/mnt/deep", "/mnt/deep", "/mnt", "/", "/two words"]
    assert [mounts.of(path) for path in asked] == found
    assert [mounts.of(path) for path in asked] == found  # remembered now
    assert Mounts(tmp_path / "none").of("/mnt/a") == "/"


def test_a_new_mount_is_found_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    table = tmp_path / "mountinfo"
    table.write_text("")
    mounts = Mounts(table, lambda: now[0])
    assert mounts.of("/mnt/a") == "/"
    table.write_text("1 0 8:1 / /mnt rw - ext4 /dev/a rw\n")
    assert mounts.of("/mnt/a") == "/"
    now[0] = 10.0
    assert mounts.of("/mnt/a") == "/mnt"
