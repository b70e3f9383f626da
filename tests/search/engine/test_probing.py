from pathlib import Path

import duckdb
import pytest

from quarterdeck.search.engine.pieces import DamagedPieceError
from quarterdeck.search.engine.probing import probe
from tests.search.engine.searched import IN_THIS_PROCESS, Bench, whole

WAYS = IN_THIS_PROCESS

FIELDS = {"ts", "a", "a.b", "a.b.c", "n", "x.y"}
LINES = ({"ts": 1, "a": {"b": {"c": [1]}}}, "bad", {"n": None, "x.y": 1}, "[1]")


@pytest.mark.parametrize("suffix", ["ndjson", "ndjson.gz", "ndjson.zst"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_the_first_lines_tell_the_fields(bench: Bench, suffix: str, in_memory: bool) -> None:
    path = bench.write(f"log.{suffix}", *LINES)
    assert probe(whole(path, in_memory=in_memory)).fields == FIELDS


@pytest.mark.parametrize("suffix", ["ndjson", "ndjson.gz", "ndjson.zst"])
def test_a_sample_that_is_cut_off_is_good_enough(bench: Bench, suffix: str) -> None:
    path = bench.write(f"log.{suffix}", *LINES, *({"late": i * 7919 % 104729} for i in range(100_000)))
    path.write_bytes(path.read_bytes()[:200_000])
    assert probe(whole(path)).fields == FIELDS | {"late"}


def test_a_schema_tells_the_fields(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as database:
        database.execute(f"COPY (SELECT 1 AS ts, {{'b': {{'c': 1}}}} AS a, [1] AS l) TO '{path}' (FORMAT parquet)")
    assert probe(whole(path)).fields == {"ts", "a", "a.b", "a.b.c", "l"}


def test_what_cannot_be_read_is_told(bench: Bench) -> None:
    (bench.folder / "x.parquet").write_text("garbage")
    (bench.folder / "x.ndjson.gz").write_text("garbage")
    for name in ("x.parquet", "x.ndjson.gz", "gone.ndjson", "gone.ndjson.zst", "gone.parquet"):
        with pytest.raises(DamagedPieceError):
            probe(whole(bench.folder / name))
