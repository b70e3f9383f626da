"""What is asked for, and what travels to a worker."""

import json
from dataclasses import replace

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.engines.scan_file import PathColumn
from quarterdeck.engines.sql_plan import PartChecks
from quarterdeck.scan.model import MAX_SQL_CHARACTERS, ScanRequest, ScanTask, decode_task, encode_task
from quarterdeck.stores.objects import ObjectRef

TASK = ScanTask(
    "SELECT v FROM files WHERE name = 'größer'",
    (ObjectRef("s3://lake/a.parquet", 12, '"e"'), ObjectRef("/data/b.parquet", 0, "0-17")),
    ts_column="ts",
    with_filename=True,
    max_rows=1000,
)


PART = replace(
    TASK,
    path_columns=(PathColumn("date", "DATE"), PathColumn("n", "BIGINT")),
    values=(("2026-11-01", "1"), (None, "2")),
    part=PartChecks("SELECT sum(v) FROM files", "SELECT * FROM files", None, ("v",), ("s",)),
)


@pytest.mark.parametrize("task", [TASK, PART, ScanTask("SELECT 1")])
def test_a_task_arrives_as_it_was_sent(task: ScanTask) -> None:
    assert decode_task(encode_task(task)) == task


def test_a_task_says_its_version() -> None:
    assert json.loads(encode_task(TASK))["version"] == 2


def changed(**fields: object) -> bytes:
    return json.dumps(json.loads(encode_task(TASK)) | fields).encode()


def without(field: str) -> bytes:
    known = json.loads(encode_task(TASK))
    del known[field]
    return json.dumps(known).encode()


@pytest.mark.parametrize(
    "payload, why",
    [
        (b"", "all of it: "),
        (b"\xff\x00garbage", "all of it: "),
        (b"[]", "all of it: "),
        (encode_task(TASK)[:-20], "all of it: "),
        (changed(version=1), "version: "),
        (without("version"), "version: "),
        (without("sql"), "sql: "),
        (changed(sql=""), "sql: "),
        (changed(sql="x" * (MAX_SQL_CHARACTERS + 1)), "sql: "),
        (changed(sql=7), "sql: "),
        (changed(files=[{"url": "a"}]), "files.0.size_bytes: "),
        (changed(files=[{"url": "a", "size_bytes": -1, "version": "v"}]), "files.0.size_bytes: "),
        (changed(max_rows=0), "max_rows: "),
        (changed(max_rows="7"), "max_rows: "),
        (changed(something="new"), "something: "),
        (changed(path_columns=[{"name": "a", "kind": "BLOB"}]), "path_columns.0.kind: "),
        (changed(path_columns=[{"name": "a", "kind": "DATE"}]), "its task has other values"),
    ],
)
def test_what_is_no_task_is_refused_and_the_place_is_named(payload: bytes, why: str) -> None:
    with pytest.raises(QuarterdeckError) as caught:
        decode_task(payload)
    assert caught.value.code is ErrorCode.PROTOCOL
    assert not caught.value.retryable
    assert why in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "sql, max_rows, why",
    [
        (" \n", None, "it has no SQL"),
        ("x" * (MAX_SQL_CHARACTERS + 1), None, "100,001 characters"),
        ("SELECT 1", 0, "max_rows is 0"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(sql: str, max_rows: int | None, why: str) -> None:
    with pytest.raises(QuarterdeckError, match=why) as caught:
        ScanRequest(sql, max_rows=max_rows)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize("count", [3_000, 20_000])
def test_sql_that_no_engine_should_read_is_refused_when_it_is_asked_for_and_when_it_arrives(count: int) -> None:
    sql = "SELECT " + "(" * count + "1" + ")" * count
    with pytest.raises(QuarterdeckError, match="more than 64 deep within each other") as asked:
        ScanRequest(sql)
    with pytest.raises(QuarterdeckError, match="more than 64 deep within each other") as arrived:
        decode_task(changed(sql=sql))
    assert asked.value.code is arrived.value.code is ErrorCode.INVALID_ARGUMENT
    assert not arrived.value.retryable
