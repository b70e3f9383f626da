"""Scans whose rows make one answer: groups, sorted, limited and distinct rows of several works, and what is refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.workcoord.model import WorkError
from quarterdeck.engines.duckdb_scan import DuckDbScanner
from quarterdeck.engines.limits import EngineLimits
from quarterdeck.http.errors import AnswerCutOffError
from quarterdeck.scan import division
from quarterdeck.scan.merging import MergeLimits
from tests.engines.divided import write
from tests.engines.kept_database import connected
from tests.http.asked import Answer
from tests.scan.asking import error_of, play
from tests.scan.scanned import Client, Port, numbers

FILES = 5


def write_lake(folder: Path) -> None:
    """Files that differ in what they have, one of them without rows, and what is no Parquet file."""
    for number in range(FILES):
        sql = f"""SELECT range AS id, ['a', 'b', NULL][range % 3 + 1] AS host, (range % 7)::DECIMAL(9, 2) AS price,
            range % 5 / 4 AS ms FROM range({number * 11})"""
        place = folder / f"day=2026-11-0{number + 1}" / "part.parquet"
        place.parent.mkdir()
        write(sql, place)
    for name in ("README.md", "rows.json", "_SUCCESS", ".part.parquet.crc"):
        (folder / name).write_text("no Parquet")


def alone(folder: Path, sql: str) -> list[dict[str, Any]]:
    """What DuckDB says, as lines of JSON tell it."""
    with connected() as database:
        files = f"read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
        database.execute(f"CREATE TEMP VIEW files AS SELECT * FROM {files}")
        rows = database.sql(sql).to_arrow_table()
        database.register("rows", rows)
        lines = database.sql("SELECT to_json(rows)::VARCHAR FROM rows").fetchall()
    return [json.loads(line) for (line,) in lines]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only to be read."""
    folder = tmp_path_factory.mktemp("lake")
    write_lake(folder)
    return folder


@pytest.fixture(scope="module")
def scanner() -> Iterator[DuckDbScanner]:
    """It keeps the databases of the lake's files from test to test: a new one costs more than a scan."""
    scanner = DuckDbScanner(EngineLimits(threads=1, memory_limit_bytes=256 * 1024 * 1024, idle_databases=2 * FILES))
    scanner.warm_up()
    yield scanner
    scanner.close()


class Scan:
    """Plays a scenario with a worker that really scans."""

    def __init__(self, folder: Path, lake: Path, scanner: DuckDbScanner) -> None:
        self._folder = folder
        self._lake = lake
        self._scanner = scanner

    def __call__(self, asking: Callable[[Port], Awaitable[None]]) -> None:
        async def scenario(port: Port) -> None:
            port.lake = self._lake
            port.scan_really(self._scanner)
            await asking(port)

        play(self._folder, scenario)

    def with_other(self, sql: str, asking: Callable[[Port], Awaitable[None]]) -> None:
        """With a lake of its own, whose first file has the rows of the SQL."""
        self._lake = self._folder / "other"
        self._lake.mkdir()
        write_lake(self._lake)
        write(sql, self._lake / "day=2026-11-01" / "part.parquet")
        self(asking)


@pytest.fixture
def scan(tmp_path: Path, lake: Path, scanner: DuckDbScanner) -> Scan:
    return Scan(tmp_path, lake, scanner)


def lines(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


@pytest.mark.parametrize(
    "sql",
    [
        "select host, count(*) n, sum(price) total, avg(ms) from files group by host order by n, host",
        "select count(*) from files",
        "select sum(id) from files where id < 0",
        "select id, host from files order by id desc, day limit 7 offset 2",
        "select id from files limit 3",
        "select id, day from files limit 12 offset 9",
        "select distinct host from files order by host nulls first",
        "select host, count(distinct id) n from files group by all having n > 2 order by 1",
        "select day, max(id) from files group by day order by day desc",
        "select count(*) from files where day >= '2026-11-04'",
        "select * from files order by all limit 4",
        "select median(ms) from files",
        "select id, row_number() over (order by id, day) r from files order by r limit 3",
        "select 42 as n",
        "select host, sum(id) as price from files group by host having price > 300 order by price",
        "select upper(host) as host, count(*) as n from files group by host order by n desc",
        "with big as (select * from files where id > 3) select host, min(id) from big group by host order by host",
    ],
)
def test_an_answer_over_several_works_is_the_one_over_all_files(scan: Scan, sql: str) -> None:
    async def asking(port: Port) -> None:
        assert lines(await port.ask(sql=sql)) == alone(port.lake, sql)

    scan(asking)


def test_a_file_is_called_by_its_source_and_no_star_has_its_name(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        rows = lines(await port.ask(sql="select filename, count(*) n from files group by filename order by 1"))
        assert rows == [
            {"filename": f"{port.lake}/day=2026-11-0{number + 1}/part.parquet", "n": number * 11}
            for number in range(1, FILES)
        ]
        (row,) = lines(await port.ask(sql="select * from files where filename like '%/day=2026-11-05/%' and id = 3"))
        assert list(row) == ["id", "host", "price", "ms", "day"]

    scan(asking)


def test_files_of_folders_that_do_not_fit_are_not_read(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        assert lines(await port.ask(sql="select sum(id) s from files where day = '2026-11-03'")) == [{"s": 231}]
        assert [len(task.files) for task in port.tasks.values()] == [1]

    scan(asking)


def test_who_asks_for_parts_gets_the_rows_of_each_work(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        rows = lines(await port.ask(sql="select count(*) n from files", merge="none"))
        assert rows == [{"n": number * 11} for number in range(FILES)]
        assert port.merger.planned == []

    scan(asking)


def test_a_single_work_runs_the_sql_as_it_is(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        sql = "select host, count(*) n from files group by host order by n, host"
        assert lines(await port.ask(sql=sql, files_per_work=100)) == alone(port.lake, sql)
        assert port.merger.planned == []

    scan(asking)


def test_sql_that_does_not_divide_is_refused_before_any_work_and_the_merge_to_write_is_shown(
    scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(division, "TOGETHER_FILES", FILES - 1)

    async def asking(port: Port) -> None:
        answer = await port.ask(sql="select host, median(ms) m from files group by host")
        assert error_of(answer) == (400, "invalid_argument")
        said = answer.json["error"]
        assert "median of parts does not make median of the whole" in said["why"]
        assert "quarterdeck scan 'SELECT host, ms FROM files' SOURCES" in said["next_step"]
        assert "--merge 'SELECT host, median(ms) AS m FROM parts AS files GROUP BY host'" in said["next_step"]
        assert port.tasks == {}

    scan(asking)


def test_whether_sql_is_refused_does_not_depend_on_files_per_work(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "TOGETHER_FILES", FILES)

    async def asking(port: Port) -> None:
        for files_per_work in (1, 2, FILES):
            assert (await port.ask(sql="select median(ms) m from files", files_per_work=files_per_work)).status == 200

    scan(asking)


def test_a_name_that_is_a_column_and_a_result_is_refused(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        answer = await port.ask(sql="select id % 2 as host, count(host) n from files group by 1")
        assert error_of(answer) == (400, "invalid_argument")
        assert (
            "host is a column of the files and also the name of a column of the result" in answer.json["error"]["why"]
        )

    scan(asking)


def test_files_whose_columns_have_different_types_are_not_merged(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        answer = await port.ask(sql="select count(id) from files")
        assert error_of(answer) == (422, "work_failed")
        assert "column id is VARCHAR in some files and BIGINT in others" in answer.json["error"]["why"]

    scan.with_other("SELECT 'x' AS id", asking)


def test_rows_of_files_whose_columns_have_different_types_are_no_answer(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        for sql in ("select id from files", "select id from files limit 500"):
            with pytest.raises(AnswerCutOffError) as caught:  # rows were on their way when it was seen
                await port.ask(sql=sql)
            assert "column id is VARCHAR in some files and BIGINT in others" in str(caught.value.__cause__)
            (told,) = port.service.log.documents(1)  # for whom the answer was cut off
            assert told["state"] == "failed"
            assert "column id is VARCHAR" in str(told["error"])
        assert len(lines(await port.ask(sql="select id::bigint id from files", merge="none"))) == 111

    scan.with_other("SELECT '7' AS id", asking)


def test_a_merged_answer_may_have_no_more_rows_than_were_allowed(scan: Scan) -> None:
    async def asking(port: Port) -> None:
        sql = "select id, count(*) from files group by id"
        assert len(lines(await port.ask(sql=sql, max_rows=44))) == 44
        assert error_of(await port.ask(sql=sql, max_rows=43)) == (429, "resource_exhausted")

    scan(asking)


def test_parts_that_take_too_much_disk_are_refused(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asking(port: Port) -> None:
        monkeypatch.setattr(port.service.merging, "_limits", MergeLimits(at_once=1, parts_bytes=2_000))
        answer = await port.ask(sql="select id, count(*) from files group by id")
        assert error_of(answer) == (429, "resource_exhausted")
        assert "2,000 bytes" in answer.json["error"]["why"]

    scan(asking)


def test_a_part_that_is_not_of_one_kind_with_the_others_is_no_answer(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=numbers(2))
        answer = await port.ask(sql="select sum(n) from files")
        assert answer.json["error"]["code"] == "protocol"
        assert "does not tell what it is" in answer.json["error"]["why"]

    play(tmp_path, scenario)


def test_a_work_that_fails_fails_the_answer(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=WorkError("work_failed", "the SQL failed: no such column", retryable=False))
        assert error_of(await port.ask(sql="select sum(n) from files")) == (422, "work_failed")

    play(tmp_path, scenario)


def test_a_client_that_goes_while_parts_are_collected_leaves_nothing(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        port.put(a=numbers(1), b=None)
        client = Client(port.body(sql="select sum(n) from files"))

        async def leave() -> None:
            while port.fetched < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            client.gone.set()

        await asyncio.gather(leave(), port.app(client.scope, client.receive, client.send))
        while not port.canceled:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    play(tmp_path, scenario)


def test_a_folder_without_parquet_says_what_it_has(tmp_path: Path) -> None:
    async def scenario(port: Port) -> None:
        (port.lake / "README.md").write_text("words")
        answer = await port.ask()
        assert error_of(answer) == (404, "not_found")
        assert "there is README.md" in answer.json["error"]["why"]

    play(tmp_path, scenario)
