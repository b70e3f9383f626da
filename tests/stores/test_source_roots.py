"""Where callers may name files: below the roots, wherever a link or a glob pretends to lead."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.gate import Caller
from quarterdeck.stores.source_roots import SourceRoots


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake" / "day").mkdir(parents=True)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "lake" / "out").symlink_to(tmp_path / "secrets")
    (tmp_path / "in").symlink_to(tmp_path / "lake")
    return tmp_path / "lake"


@pytest.mark.parametrize("below", ["", "/", "/day", "/day/x.parquet", "/*", "/**/*.parquet", "/not/there"])
def test_what_is_below_a_root_may_be_read(lake: Path, below: str) -> None:
    SourceRoots([str(lake)]).insist([f"{lake}{below}"])
    SourceRoots([f"{lake}/"]).insist([f"file://{lake}{below}"])


def test_a_link_into_a_root_is_as_good(lake: Path) -> None:
    SourceRoots([str(lake)]).insist([f"{lake.parent}/in/day"])
    SourceRoots([f"{lake.parent}/in"]).insist([f"{lake}/day"])


@pytest.mark.parametrize("outside", ["", "/secrets", "/lake2", "/lak?", "/*", "/lake/out", "/lake/out/*", "/**"])
def test_what_is_outside_is_refused_and_the_setting_named(lake: Path, outside: str) -> None:
    with pytest.raises(QuarterdeckError, match="source_roots") as caught:
        SourceRoots([str(lake)]).insist([str(lake), f"{lake.parent}{outside}"])
    assert caught.value.code is ErrorCode.PERMISSION_DENIED


def test_buckets_are_told_apart() -> None:
    roots = SourceRoots(["s3://lake/logs", "s3://open"])
    roots.insist(["s3://lake/logs/day=1/*.ndjson", "s3://lake/logs", "s3://open/anything/**"])
    for outside in ("s3://lake", "s3://lake/logs2", "s3://lake/*", "s3://other/logs", "/lake/logs"):
        with pytest.raises(QuarterdeckError, match="source_roots"):
            roots.insist([outside])


def test_without_roots_nothing_may_be_read() -> None:
    with pytest.raises(QuarterdeckError, match=r"source_roots allows here \(none\)"):
        SourceRoots([]).insist(["/etc/passwd"])


def test_the_user_who_runs_the_process_may_name_anything() -> None:
    roots = SourceRoots([])
    asyncio.run(roots.insist_for(Caller(is_this_user=True), ["/etc/passwd"]))
    with pytest.raises(QuarterdeckError, match="source_roots"):
        asyncio.run(roots.insist_for(Caller(), ["/etc/passwd"]))
