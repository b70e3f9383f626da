"""Random searches over random chunks of the same logs in every kind of file, compared with plain SQL in DuckDB."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quarterdeck.crew.cancel import CancelToken
from quarterdeck.recruiter.engine.chunk_search import ChunkSearcher
from quarterdeck.recruiter.engine.gathering import Gathering
from quarterdeck.recruiter.model import SearchSpec
from tests.recruiter.engine.plain_sql import RandomSearch, draw
from tests.recruiter.engine.random_logs import RandomLogs, write_random_logs

SEARCHES, GROUPS = 300, 10


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RandomLogs]:
    logs = write_random_logs(tmp_path_factory.mktemp("logs"))
    yield logs
    logs.database.close()


@pytest.fixture
def searcher() -> Iterator[ChunkSearcher]:
    searcher = ChunkSearcher(at_once=1, memory_limit_bytes=1024**3)
    yield searcher
    searcher.close()


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_searches_give_what_plain_sql_gives(
    group: int, logs: RandomLogs, searcher: ChunkSearcher, tmp_path: Path
) -> None:
    for number in range(group, SEARCHES, GROUPS):
        chance = Random(number)
        drawn = draw(chance)
        ours = searched(searcher, drawn, logs, chance, tmp_path)
        theirs = asked(logs, drawn.sql)
        assert same(ours, theirs, ordered=drawn.ordered), f"seed {number}: {drawn.search}\n{drawn.sql}"


def test_a_difference_would_be_seen() -> None:
    assert same([{"a": 1, "b": 2.0}], [{"a": 1, "b": 2}], ordered=True)
    assert not same([{"a": 1}], [{"a": 2}], ordered=True)
    assert not same([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}], ordered=True)
    assert same([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}], ordered=False)
    assert not same([{"a": "1"}], [{"a": 1}], ordered=True)
    assert not same([{"a": 1}], [], ordered=False)


def searched(
    searcher: ChunkSearcher, drawn: RandomSearch, logs: RandomLogs, chance: Random, folder: Path
) -> list[dict[str, Any]]:
    """As workers and a root would: chunks in any order, put together."""
    spec = SearchSpec(drawn.search, now_us=0, time_field="ts")
    chunks = list(enumerate(logs.chunks(chance)))
    chance.shuffle(chunks)
    gathering = Gathering(spec, folder, memory_bytes=64 * 1024**2, disk_bytes=1024**3)
    try:
        text = b""
        for number, pieces in chunks:
            with searcher.search(spec, pieces, CancelToken()) as rows:
                batches = list(rows)
                assert rows.report.problems == ()
            text += b"".join(gathering.add(number, batches))
        text += b"".join(gathering.finish(CancelToken()))
    finally:
        gathering.close()
    found = [json.loads(line) for line in text.splitlines()]
    return [{"id": row["id"]} for row in found] if drawn.sql.startswith("SELECT id ") else found


def asked(logs: RandomLogs, sql: str) -> list[dict[str, Any]]:
    cursor = logs.database.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], *, ordered: bool) -> bool:
    if not ordered:
        ours, theirs = (
            sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str)) for rows in (ours, theirs)
        )
    return len(ours) == len(theirs) and all(_alike(one, other) for one, other in zip(ours, theirs, strict=True))


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return math.isclose(one, other, rel_tol=1e-12)
    return type(one) is type(other) and one == other
