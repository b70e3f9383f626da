"""Scans on a worker, with real files, a real cache, real artifacts and a real disk budget."""

import asyncio
import io
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.core.ids import LeafId, QueryId, WorkId
from quarterdeck.core.workcoord.model import (
    Artifact,
    AttemptId,
    WorkError,
    WorkKey,
    WorkSpec,
)
from quarterdeck.crew.artifacts.spool import ArtifactSpool
from quarterdeck.crew.executors import Executors
from quarterdeck.crew.ports import ExecutionFailedError
from quarterdeck.engines.contained_scan import ContainedScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.scan import executor
from quarterdeck.scan.executor import ScanExecutor
from quarterdeck.scan.model import SCAN, ScanTask, encode_task
from quarterdeck.stores.disk import DiskBudget, DiskLimits, Owner
from quarterdeck.stores.objects import ObjectRef, ObjectStores
from quarterdeck.stores.parquet_cache import ParquetCache
from quarterdeck.stores.shelf import Entry, Standing
from tests.engines import odd_engine
from tests.engines.lake import overwrite, write_parquet
from tests.leaks import no_leaks
from tests.patience import PATIENCE_S

MIB = 1024 * 1024
LIMITS = EngineLimits(threads=2, memory_limit_bytes=64 * MIB, idle_databases=2)
BILLIONS = "SELECT count(*) AS n FROM files a, range(10000000) b WHERE a.v * b.range % 7 = 3"
ENDLESS_ROWS = "SELECT a.v + b.range AS n, hash(b.range) AS h FROM files a, range(10000000000) b"

_pq: Any = pyarrow.parquet


def attempt_of(number: int, attempt: int = 1) -> AttemptId:
    return AttemptId(WorkKey(QueryId("q"), LeafId("l"), WorkId(f"w{number}")), attempt)


def spec_of(number: int, payload: bytes) -> WorkSpec:
    return WorkSpec(attempt_of(number).key, SCAN, payload)


class Worker:
    """What a worker needs for scans, in a folder. What it reads is copied into the cache, what it writes is a file."""

    def __init__(
        self, folder: Path, scanner: ContainedScanner, *, limit_bytes: int = 256 * MIB, memory_limit_bytes: int = 0
    ) -> None:
        self.lake = folder / "lake"
        self.lake.mkdir()
        self.artifacts = folder / "artifacts"
        self.cached = folder / "cache"
        self.budget = DiskBudget(folder, DiskLimits(limit_bytes, step_bytes=MIB))
        self.objects = ObjectStores()
        self.cache = ParquetCache(self.cached, self.budget, self.objects, copy_local=True)
        self.spool = ArtifactSpool(
            self.artifacts,
            self.budget,
            lambda: "http://worker:1",
            lambda attempt: None,
            memory_limit_bytes=memory_limit_bytes,
        )
        self.cache.recover()
        self.spool.recover()
        self.executors = Executors({SCAN: ScanExecutor(scanner, self.cache)}, self.spool, slots=4)

    async def scan(self, sql: str, *files: ObjectRef, number: int = 1, **options: Any) -> Artifact:
        return await self.scan_payload(encode_task(ScanTask(sql, files, **options)), number)

    async def scan_payload(self, payload: bytes, number: int = 1, attempt: int = 1) -> Artifact:
        spec = spec_of(number, payload)
        artifact = await self.executors.execute(attempt_of(number, attempt), spec, lambda fraction: None)
        assert isinstance(artifact, Artifact)
        return artifact

    async def files(self, count: int = 3) -> list[ObjectRef]:
        for number in range(count):
            start = number * 1000
            columns = {"ts": range(start, start + 1000), "v": range(1000), "name": [f"n{number}"] * 1000}
            write_parquet(self.lake / f"{number}.parquet", columns)
        return await self.objects.find(str(self.lake / "*.parquet"))

    def rows(self, artifact: Artifact) -> list[dict[str, Any]]:
        file = self.spool.find(artifact.url.rpartition("/")[2])
        assert file is not None
        return _pq.read_table(file.path or io.BytesIO(file.data or b"")).to_pylist()

    def entries(self) -> list[Entry]:
        return list(self.budget._entries.values())  # pyright: ignore[reportPrivateUsage]

    def forget_cache(self) -> None:
        """As if room had been needed: the next scan has to download again."""
        for entry in self.entries():
            if entry.owner is Owner.CACHE and not entry.pins:
                self.budget.remove(entry.key)

    def check_that_nothing_is_left(self) -> None:
        """But for whole files in the cache."""
        self.budget.check_invariants()
        assert len(self.spool) == self.spool.memory_bytes == 0
        assert not list(self.artifacts.iterdir())
        figures = self.budget.figures()
        assert figures.artifact_bytes == 0
        assert figures.cache_bytes == sum(path.stat().st_size for path in self.cached.iterdir())
        assert sorted(entry.path for entry in self.entries()) == sorted(self.cached.iterdir())
        assert not [entry.key for entry in self.entries() if entry.pins]
        assert not self.cache._on_their_way  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(scope="module")
def scanner() -> Iterator[ContainedScanner]:
    # With much patience: a process that is replaced would count as left behind.
    scanner = ContainedScanner(LIMITS, at_once=4, patience_s=PATIENCE_S)
    scanner.warm_up()
    yield scanner
    scanner.close()


@pytest.fixture
def worker(tmp_path: Path, scanner: ContainedScanner) -> Worker:
    return Worker(tmp_path, scanner)


def play(worker: Worker, scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await scene()
        finally:
            assert await worker.executors.close(timeout_s=PATIENCE_S)

    asyncio.run(main())


async def failure_of(scan: Coroutine[Any, Any, Artifact]) -> WorkError:
    with pytest.raises(ExecutionFailedError) as caught:
        await scan
    return caught.value.error


def test_the_rows_of_a_scan_are_its_artifact(worker: Worker) -> None:
    async def scene() -> None:
        files = await worker.files()
        sql = "SELECT name, count(*) AS n, max(ts) AS ts FROM files WHERE v >= 500 GROUP BY name ORDER BY name"
        artifact = await worker.scan(sql, *files, ts_column="ts")
        assert worker.rows(artifact) == [
            {"name": "n0", "n": 500, "ts": 999},
            {"name": "n1", "n": 500, "ts": 1999},
            {"name": "n2", "n": 500, "ts": 2999},
        ]
        assert (artifact.row_count, artifact.min_ts, artifact.max_ts) == (3, 999, 2999)
        assert artifact.url.startswith("http://worker:1/artifacts/")
        await worker.executors.drop(attempt_of(1))
        worker.check_that_nothing_is_left()

    play(worker, scene)


def test_a_second_scan_of_the_same_files_downloads_nothing(worker: Worker) -> None:
    async def scene() -> None:
        files = await worker.files()
        first = await worker.scan("SELECT sum(v) AS s FROM files", *files, number=1)
        second = await worker.scan("SELECT sum(v) AS s FROM files", *files, number=2)
        assert worker.rows(first) == worker.rows(second) == [{"s": 3 * 499_500}]
        assert (worker.cache.misses, worker.cache.hits) == (3, 3)

    play(worker, scene)


def test_a_scan_of_no_files_computes_a_constant(worker: Worker) -> None:
    async def scene() -> None:
        assert worker.rows(await worker.scan("SELECT 1 AS one")) == [{"one": 1}]

    play(worker, scene)


def test_a_scan_that_finds_no_rows_has_an_artifact_with_its_columns(worker: Worker) -> None:
    async def scene() -> None:
        artifact = await worker.scan("SELECT ts, v FROM files WHERE v < 0", *await worker.files(), ts_column="ts")
        assert (artifact.row_count, artifact.min_ts, artifact.max_ts) == (0, 0, 0)
        assert worker.rows(artifact) == []

    play(worker, scene)


def test_the_column_filename_has_the_addresses_of_the_objects(worker: Worker) -> None:
    async def scene() -> None:
        files = await worker.files(2)
        artifact = await worker.scan("SELECT DISTINCT filename FROM files ORDER BY 1", *files, with_filename=True)
        assert worker.rows(artifact) == [{"filename": file.url} for file in files]

    play(worker, scene)


def test_progress_rises_from_the_files_to_the_rows(worker: Worker) -> None:
    seen = list[float]()

    async def scene() -> None:
        payload = encode_task(ScanTask("SELECT * FROM files", tuple(await worker.files())))
        await worker.executors.execute(attempt_of(1), spec_of(1, payload), seen.append)

    play(worker, scene)
    assert seen
    assert seen == sorted(seen)
    assert all(0 < fraction <= 1 for fraction in seen)


@pytest.mark.parametrize(
    "sql, options, code, why",
    [
        ("SELECT nothing FROM files", {}, ErrorCode.INVALID_ARGUMENT, '"nothing" not found'),
        ("COPY files TO 'a.csv'", {}, ErrorCode.INVALID_ARGUMENT, "kind COPY"),
        ("SELECT v, ts AS v FROM files", {}, ErrorCode.INVALID_ARGUMENT, "more than one of its columns is called v"),
        (
            "SELECT 1 AS a, 1 AS b, 1 AS c, 1 AS d, 1 AS e, 1 AS f, 1 AS a, 1 AS b, 1 AS c, 1 AS d, 1 AS e, 1 AS f",
            {},
            ErrorCode.INVALID_ARGUMENT,
            "more than one of its columns is called a, b, c, d, e, ...",
        ),
        ("SELECT INTERVAL 1 DAY AS i", {}, ErrorCode.WORK_FAILED, "column i is of the type INTERVAL"),
        ("SELECT [union_value(k := 1)] AS u", {}, ErrorCode.WORK_FAILED, "column u is of the type UNION"),
        ("SELECT v FROM files", {"ts_column": "ts"}, ErrorCode.INVALID_ARGUMENT, "no column 'ts'"),
        ("SELECT v FROM files", {"max_rows": 2999}, ErrorCode.RESOURCE_EXHAUSTED, "more than the 2999 rows"),
        ("SELECT list(v) AS l FROM files, range(9999)", {}, ErrorCode.RESOURCE_EXHAUSTED, "more memory"),
    ],
)
def test_a_scan_that_cannot_succeed_says_why_and_leaves_nothing(
    worker: Worker, sql: str, options: dict[str, Any], code: ErrorCode, why: str
) -> None:
    async def scene() -> None:
        error = await failure_of(worker.scan(sql, *await worker.files(), **options))
        assert error.code == code
        assert not error.retryable
        assert why in error.message
        worker.check_that_nothing_is_left()

    play(worker, scene)


def test_a_row_has_a_limit_and_many_rows_together_do_not(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MAX_ROW_BYTES", 10_000)

    async def scene() -> None:
        error = await failure_of(worker.scan("SELECT repeat('x', 1250 * range::INT) AS s FROM range(9)"))
        assert error.code == ErrorCode.WORK_FAILED
        assert "a row has 10,00" in error.message
        assert "may have 10,000" in error.message
        assert (await worker.scan("SELECT repeat('x', 9000) AS s FROM range(9)")).row_count == 9

    play(worker, scene)


def test_as_many_rows_as_are_allowed_are_fine(worker: Worker) -> None:
    async def scene() -> None:
        assert (await worker.scan("SELECT v FROM files", *await worker.files(), max_rows=3000)).row_count == 3000

    play(worker, scene)


def test_a_payload_that_is_no_task_fails_for_good(worker: Worker) -> None:
    async def scene() -> None:
        error = await failure_of(worker.scan_payload(b"not a task"))
        assert error.code == ErrorCode.PROTOCOL
        assert not error.retryable

    play(worker, scene)


def test_a_damaged_file_is_named(worker: Worker) -> None:
    async def scene() -> None:
        await worker.files()
        overwrite(worker.lake / "1.parquet", -60, 20)
        files = await worker.objects.find(str(worker.lake / "*.parquet"))
        error = await failure_of(worker.scan("SELECT sum(v) FROM files", *files))
        assert error.code == ErrorCode.WORK_FAILED
        assert files[1].url in error.message
        worker.check_that_nothing_is_left()

    play(worker, scene)


def test_a_file_that_is_gone_is_named_and_the_others_are_let_go(worker: Worker) -> None:
    async def scene() -> None:
        files = await worker.files()
        (worker.lake / "2.parquet").unlink()
        error = await failure_of(worker.scan("SELECT sum(v) FROM files", *files))
        assert error.code == ErrorCode.NOT_FOUND
        assert files[2].url in error.message
        worker.check_that_nothing_is_left()

    play(worker, scene)


def test_a_full_disk_may_be_better_elsewhere_and_nothing_is_left_on_it(
    tmp_path: Path, scanner: ContainedScanner
) -> None:
    worker = Worker(tmp_path, scanner, limit_bytes=2 * MIB)

    async def scene() -> None:
        error = await failure_of(worker.scan(ENDLESS_ROWS, *await worker.files()))
        assert error.code == ErrorCode.RESOURCE_EXHAUSTED
        assert error.retryable
        worker.check_that_nothing_is_left()
        assert (await worker.scan("SELECT 1 AS one", number=2)).row_count == 1

    play(worker, scene)


def test_a_released_artifact_goes_before_one_that_is_waited_for(worker: Worker) -> None:
    async def scene() -> None:
        await worker.scan("SELECT 1 AS one", number=1)
        wanted = await worker.scan("SELECT 2 AS two", number=2)
        worker.executors.release(attempt_of(1))
        standings = {entry.key: entry.standing for entry in worker.entries()}
        assert standings.pop(wanted.url.rpartition("/")[2]) is Standing.WANTED
        assert list(standings.values()) == [Standing.ACKNOWLEDGED]

    play(worker, scene)


# Canceling


@pytest.mark.parametrize("sql", [BILLIONS, ENDLESS_ROWS])
def test_a_heavy_scan_stops_soon_after_its_cancel_and_leaves_nothing(worker: Worker, sql: str) -> None:
    async def stops_in_time(number: int, files: list[ObjectRef]) -> bool:
        task = asyncio.create_task(worker.scan(sql, *files, number=number))
        await asyncio.sleep(0.05)  # into the middle of a query that takes for ever
        assert not task.done()
        began_s = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took_s = time.monotonic() - began_s
        worker.check_that_nothing_is_left()
        return took_s < 0.1

    async def scene() -> None:
        files = await worker.files()
        for number in range(20):  # a machine that is busy with other things may be late; once in time is enough
            if await stops_in_time(number, files):
                return
        pytest.fail("it was late each time")

    play(worker, scene)


def test_two_hundred_cancels_at_any_moment_leave_no_thread_file_pin_or_space(
    tmp_path: Path, scanner: ContainedScanner
) -> None:
    worker = Worker(tmp_path, scanner, memory_limit_bytes=MIB)
    chance = random.Random(1)
    ends = {"finished": 0, "canceled": 0}
    statements = ["SELECT v, ts FROM files", "SELECT name, sum(v) AS s FROM files GROUP BY name", ENDLESS_ROWS]

    async def one(number: int, files: list[ObjectRef]) -> None:
        chosen = files[: chance.randint(0, len(files))]
        sql = chance.choice(statements) if chosen else "SELECT range AS n FROM range(100000)"
        task = asyncio.create_task(worker.scan(sql, *chosen, number=number))
        if chance.random() < 0.3:
            for _ in range(chance.randint(0, 30)):  # some steps of the loop: files are being opened
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(chance.random() * 0.03)
        if chance.random() < 0.3:
            worker.forget_cache()
        task.cancel()
        try:
            await task
            ends["finished"] += 1
            await worker.executors.drop(attempt_of(number))
        except asyncio.CancelledError:
            ends["canceled"] += 1

    async def scene() -> None:
        files = await worker.files()
        for begin in range(0, 200, 8):
            await asyncio.gather(*(one(number, files) for number in range(begin, begin + 8)))
        worker.check_that_nothing_is_left()
        artifact = await worker.scan("SELECT sum(v) AS s FROM files", *files, number=1000)
        assert worker.rows(artifact) == [{"s": 3 * 499_500}]
        await worker.executors.drop(attempt_of(1000))
        worker.check_that_nothing_is_left()

    with no_leaks():
        play(worker, scene)
    assert sum(ends.values()) == 200
    assert ends["canceled"] >= 20, "one in three would never end by itself"


def test_warming_up_starts_the_processes_that_the_first_scans_need(tmp_path: Path) -> None:
    scanner = ContainedScanner(LIMITS, at_once=2)
    worker = Worker(tmp_path, scanner)

    async def scene() -> None:
        await worker.executors.warm_up()
        assert len(scanner.processes) == 2

    try:
        play(worker, scene)
    finally:
        scanner.close()


def test_errors_of_the_cache_reach_the_asker_as_they_are(worker: Worker) -> None:
    async def scene() -> None:
        error = await failure_of(worker.scan("SELECT 1 AS one", ObjectRef("gopher://nowhere", 1, "v")))
        assert error.code == ErrorCode.INVALID_ARGUMENT

    play(worker, scene)


# The engine's process


@pytest.fixture
def odd_worker(tmp_path: Path) -> Iterator[Worker]:
    """Its engine does what no engine should, when it is asked to."""
    scanner = ContainedScanner(LIMITS, at_once=2, engine=odd_engine.ENGINE)
    yield Worker(tmp_path, scanner)
    scanner.close()


def test_an_engine_that_dies_fails_its_work_alone_which_another_worker_may_try(odd_worker: Worker) -> None:
    async def scene() -> None:
        files = await odd_worker.files()
        beside = asyncio.create_task(odd_worker.scan("SELECT count(*) AS n FROM range(30000000)", number=1))
        error = await failure_of(odd_worker.scan(odd_engine.CRASH, *files, number=2))
        assert error.code == ErrorCode.UNAVAILABLE
        assert error.retryable
        assert error.culprit, "whoever gives out works learns that it was this one"
        assert "the engine process ended by SIGSEGV while it ran this query" in error.message
        assert odd_worker.rows(await beside) == [{"n": 30_000_000}]
        artifact = await odd_worker.scan("SELECT sum(v) AS s FROM files", *files, number=3)
        assert odd_worker.rows(artifact) == [{"s": 3 * 499_500}]
        for number in (1, 3):
            await odd_worker.executors.drop(attempt_of(number))
        odd_worker.check_that_nothing_is_left()

    play(odd_worker, scene)


@pytest.mark.parametrize("sql", [odd_engine.DEAF, odd_engine.HOLD])
def test_a_cancel_that_an_engine_does_not_obey_costs_its_process_and_not_the_slot(odd_worker: Worker, sql: str) -> None:
    async def scene() -> None:
        deaf = [asyncio.create_task(odd_worker.scan(sql, number=number)) for number in range(4)]  # all slots
        await asyncio.sleep(0.05)
        for task in deaf:
            task.cancel()
        await asyncio.wait(deaf)
        assert all(task.cancelled() for task in deaf)
        assert odd_worker.rows(await odd_worker.scan("SELECT 1 AS one", number=9)) == [{"one": 1}]
        await odd_worker.executors.drop(attempt_of(9))
        odd_worker.check_that_nothing_is_left()

    play(odd_worker, scene)


@pytest.mark.parametrize("count", [3_000, 20_000])
def test_thousands_of_parentheses_never_reach_an_engine(tmp_path: Path, count: int) -> None:
    scanner = ContainedScanner(LIMITS, at_once=1)
    worker = Worker(tmp_path, scanner)

    async def scene() -> None:
        sql = f"SELECT 1 FROM {'(' * count}files{')' * count}"
        error = await failure_of(worker.scan(sql, *await worker.files()))
        assert error.code == ErrorCode.INVALID_ARGUMENT
        assert not error.retryable
        assert "deep within each other" in error.message
        assert scanner.host_pid is None

    play(worker, scene)
    scanner.close()
