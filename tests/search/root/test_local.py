"""Searches in this process alone, with the real engine over real files of every kind."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs] - it has none
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.contained import ContainedEngine
from quarterdeck.search.engine.contained_search import ContainedSearcher
from quarterdeck.search.model import Order
from quarterdeck.search.root import alone, splitting
from quarterdeck.search.root.local import open_local_search
from quarterdeck.search.root.planning import SearchRequest
from quarterdeck.search.root.running import Progress, Rows, RunningSearch, SearchEvent, Status
from tests.engines.idle_processes import end_idle
from tests.patience import PATIENCE_S

_arrow: Any = pyarrow
_parquet: Any = pyarrow.parquet

FILES = 8
LINES = 200
AT_ONCE = 2


def record(number: int) -> dict[str, Any]:
    return {
        "ts": f"2026-11-01T00:{number // 60:02}:{number % 60:02}Z",
        "id": number,
        "level": ("info", "warn", "error")[number % 3],
        "size": number * 7 % 101,
        "http": {"path": f"/api/{number % 5}"},
    }


RECORDS = [record(number) for number in range(FILES * LINES)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of each kind; what belongs together in time is in several of them."""
    folder = tmp_path_factory.mktemp("logs")
    for number in range(FILES):
        records = RECORDS[number::FILES]
        text = "".join(json.dumps(each) + "\n" for each in records).encode()
        match number % 4:
            case 0:
                (folder / f"{number}.ndjson").write_bytes(text)
            case 1:
                (folder / f"{number}.log.gz").write_bytes(gzip.compress(text))
            case 2:
                (folder / f"{number}.jsonl.zst").write_bytes(_arrow.Codec("zstd").compress(text, asbytes=True))
            case _:
                _parquet.write_table(_arrow.Table.from_pylist(records), folder / f"{number}.parquet")
    (folder / "README.txt").write_text("not to be searched")
    return folder


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "PART_BYTES_MIN", 3000)
    monkeypatch.setattr(splitting, "PART_BYTES_MAX", 3000)


class OneEngine(ContainedSearcher):
    """Keeps its processes from search to search: they take half a second to start, and each another fifth."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def engine() -> Iterator[OneEngine]:
    """Made before the first test. With much patience: a process that is replaced would count as left behind."""
    engine = OneEngine(at_once=AT_ONCE, memory_limit_bytes=256 * 1024**2, patience_s=PATIENCE_S)
    ContainedEngine.warm_up(engine)
    yield engine
    ContainedSearcher.close(engine)


@pytest.fixture(autouse=True)
def one_engine(engine: OneEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before, host = engine.processes, engine.host_pid

    def given(*, at_once: int, memory_limit_bytes: int) -> OneEngine:
        assert at_once == AT_ONCE
        assert memory_limit_bytes >= 256 * 1024**2
        return engine

    monkeypatch.setattr(alone, "ContainedSearcher", given)
    yield
    end_idle(engine, but=before)  # beside the searches, a sample may have had one of its own
    assert engine.host_pid == host


class Answer:
    def __init__(self, running: RunningSearch, events: list[SearchEvent]) -> None:
        self.running = running
        self.rows = [
            json.loads(line) for event in events if isinstance(event, Rows) for line in event.data.splitlines()
        ]
        self.progress = [event for event in events if isinstance(event, Progress)]

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows]


def search(query: str, *sources: Path, **options: Any) -> Answer:
    async def run() -> Answer:
        request = SearchRequest(query, tuple(map(str, sources)), **options)
        async with (
            asyncio.timeout(PATIENCE_S),
            open_local_search(request, at_once=AT_ONCE) as running,
            aclosing(running.events()) as events,
        ):
            found = [event async for event in events]
        return Answer(running, found)

    return asyncio.run(run())


def test_records_of_all_files_come_in_the_order_of_time(logs: Path) -> None:
    answer = search("*", logs)
    assert answer.rows == RECORDS
    assert answer.running.status is Status.OK
    assert answer.running.plan.files == FILES
    assert answer.progress[-1].bytes_done == answer.progress[-1].bytes


def test_a_condition_and_a_summary_are_over_all_chunks(logs: Path) -> None:
    wanted = [each for each in RECORDS if each["level"] == "error" and each["size"] >= 50]
    assert search("level=error size>=50", logs).rows == wanted
    sizes = sum(each["size"] for each in wanted)
    assert search("level=error size>=50 | count(), sum(size)", logs).rows == [{"count": len(wanted), "sum_size": sizes}]


def test_as_they_stand_in_the_files_records_come_one_file_after_the_other(logs: Path) -> None:
    wanted = [each["id"] for number in range(FILES) for each in RECORDS[number::FILES]]
    assert search("*", logs, order=Order.INPUT).ids == wanted
    assert sorted(search("*", logs, order=Order.NONE).ids) == sorted(wanted)


def test_a_head_ends_the_search_early(logs: Path) -> None:
    answer = search("level=warn | head 3", logs, order=Order.INPUT)
    assert answer.ids == [each["id"] for each in RECORDS[::FILES] if each["level"] == "warn"][:3]
    assert answer.progress[-1].chunks_done < answer.progress[-1].chunks


def test_a_range_of_time_is_from_its_start_to_before_its_end(logs: Path) -> None:
    wanted = list(range(60, 120))
    assert search("*", logs, start="2026-11-01T00:01:00Z", end="2026-11-01T00:02:00Z").ids == wanted
    assert search("[2026-11-01T00:01:00Z, 2026-11-01T00:02:00Z]", logs).ids == wanted


def test_files_that_are_damaged_are_told_and_the_rest_is_searched(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "good.log").write_text('{"ts": 1, "id": 1}\nnothing\n{"ts": 2, "id": 2}\n')
    (tmp_path / "bad.log.gz").write_bytes(b"\x1f\x8b\x08\x00nonsense")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    answer = search("*", tmp_path)
    assert answer.ids == [1, 2]
    assert answer.running.status is Status.PARTIAL
    problems = {Path(problem.url).name: problem.lines for problem in answer.running.problems.told()}
    assert problems == {"good.log": 1, "bad.log.gz": 0, "bad.parquet": 0}


def test_with_nothing_but_damaged_files_it_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.log.gz").write_bytes(b"\x1f\x8b\x08\x00nonsense")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(QuarterdeckError, match=r"bad\.log\.gz.*bad\.parquet") as raised:
        search("level=error", tmp_path)
    assert raised.value.code is ErrorCode.WORK_FAILED


@pytest.mark.parametrize("query", ["levle=error", "* | cut levle", "* | count() by levle", "not levle=error"])
def test_a_field_that_no_record_has_is_an_error_that_knows_the_likely_one(logs: Path, query: str) -> None:
    with pytest.raises(
        QuarterdeckError, match=r"none of the 8 files has a field `levle`; did you mean `level`"
    ) as raised:
        search(query, logs)
    assert raised.value.code is ErrorCode.INVALID_ARGUMENT


def test_of_parquet_alone_it_is_known_before_the_search(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningSearch, "events", None)  # it does not come to that
    with pytest.raises(QuarterdeckError, match="none of the 2 files has a field `levl`"):
        search("http.path=/api/1 levl=error", *logs.glob("*.parquet"))


def test_fields_within_others_are_found(logs: Path) -> None:
    assert search("http.path=/api/2", logs).rows == [each for each in RECORDS if each["http"]["path"] == "/api/2"]


def test_a_field_that_only_one_record_in_a_late_file_has_is_no_error(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.log").write_text('{"ts": 1, "id": 1}\n' * 9)
    with (tmp_path / "17.log").open("a") as file:
        file.write('{"ts": 2, "id": 7, "rare": {"deep": 1}}\n')
    assert search("rare.deep=1", tmp_path).ids == [7]


def test_what_was_stopped_leaves_nothing_behind(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "ContainedSearcher", ContainedSearcher)  # also nothing of an engine of its own

    async def run() -> None:
        request = SearchRequest("*", (str(logs),), order=Order.NONE)
        async with open_local_search(request, at_once=AT_ONCE) as running, aclosing(running.events()) as events:
            async for event in events:
                if isinstance(event, Rows):
                    break

    asyncio.run(run())
