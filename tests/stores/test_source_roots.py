"""Where callers may name files: below the roots, wherever a link or a glob pretends to lead."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.http.gate import Caller
from quarterdeck.stores.objects import ObjectStores
from quarterdeck.stores.source_roots import Border, SourceRoots
from quarterdeck.stores.store_calls import StoreCalls

STRANGER = Caller()
ResultT = TypeVar("ResultT")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake" / "day").mkdir(parents=True)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "lake" / "out").symlink_to(tmp_path / "secrets")
    (tmp_path / "in").symlink_to(tmp_path / "lake")
    return tmp_path / "lake"


def insist(roots: list[str], sources: list[str]) -> Border | None:
    return asyncio.run(SourceRoots(roots).insist_for(STRANGER, sources, ObjectStores()))


def found(roots: list[str], source: str) -> list[str]:
    """What a stranger finds."""

    async def find() -> list[str]:
        objects = ObjectStores()
        border = await SourceRoots(roots).insist_for(STRANGER, [source], objects)
        return [ref.url for ref in await objects.find(source, border)]

    return asyncio.run(find())


@pytest.mark.parametrize("below", ["", "/", "/day", "/day/x.parquet", "/*", "/**/*.parquet", "/not/there"])
def test_what_is_below_a_root_may_be_read(lake: Path, below: str) -> None:
    insist([str(lake)], [f"{lake}{below}"])
    insist([f"{lake}/"], [f"file://{lake}{below}"])


def test_a_link_into_a_root_is_as_good(lake: Path) -> None:
    insist([str(lake)], [f"{lake.parent}/in/day"])
    insist([f"{lake.parent}/in"], [f"{lake}/day"])


@pytest.mark.parametrize("outside", ["", "/secrets", "/lake2", "/lak?", "/*", "/lake/out", "/lake/out/*", "/**"])
def test_what_is_outside_is_refused_and_the_setting_named(lake: Path, outside: str) -> None:
    with pytest.raises(QuarterdeckError, match="source_roots") as caught:
        insist([str(lake)], [str(lake), f"{lake.parent}{outside}"])
    assert caught.value.code is ErrorCode.PERMISSION_DENIED


@pytest.mark.parametrize("source", ["", "/", "/*/*", "/ou?/key", "/**", "/**/key", "/*.ndjson"])
def test_a_link_that_a_folder_or_a_glob_meets_on_its_way_out_is_refused_by_name(lake: Path, source: str) -> None:
    (lake.parent / "secrets" / "key").write_text("{}")
    (lake / "fine.ndjson").write_text("{}")
    (lake / "link.ndjson").symlink_to(lake.parent / "secrets" / "key")
    with pytest.raises(QuarterdeckError, match=r"/lake/(out|link\.ndjson) may not be read.*source_roots") as caught:
        found([str(lake)], f"{lake}{source}")
    assert caught.value.code is ErrorCode.PERMISSION_DENIED


def test_a_link_that_is_not_met_or_leads_below_a_root_harms_nobody(lake: Path) -> None:
    (lake / "day" / "1.ndjson").write_text("{}")
    (lake / "again").symlink_to(lake / "day")
    (lake / "last.ndjson").symlink_to(lake / "day" / "1.ndjson")
    assert found([str(lake)], f"{lake}/day") == [f"{lake}/day/1.ndjson"]
    assert found([str(lake)], f"{lake}/a*/*") == [f"{lake}/again/1.ndjson"]
    assert found([str(lake)], f"{lake}/*.ndjson") == [f"{lake}/last.ndjson"]
    (lake.parent / "secrets" / "key").write_text("{}")
    roots = [str(lake), f"{lake}/out"]
    assert found(roots, f"{lake}/o*/*") == [f"{lake}/out/key"], "a root may itself be a link"


def test_the_user_who_runs_the_process_goes_through_any_link(lake: Path) -> None:
    (lake.parent / "secrets" / "key").write_text("{}")
    assert asyncio.run(ObjectStores().find(f"{lake}/o*/*"))


def test_buckets_are_told_apart() -> None:
    roots = ["s3://lake/logs", "s3://open"]
    insist(roots, ["s3://lake/logs/day=1/*.ndjson", "s3://lake/logs", "s3://open/anything/**"])
    for outside in ("s3://lake", "s3://lake/logs2", "s3://lake/*", "s3://other/logs", "/lake/logs"):
        with pytest.raises(QuarterdeckError, match="source_roots"):
            insist(roots, [outside])


def test_without_roots_nothing_may_be_read() -> None:
    with pytest.raises(QuarterdeckError, match=r"source_roots allows here \(none\)"):
        insist([], ["/etc/passwd"])


def test_the_user_who_runs_the_process_may_name_anything() -> None:
    asyncio.run(SourceRoots([]).insist_for(Caller(is_this_user=True), ["/etc/passwd"], ObjectStores()))
    with pytest.raises(QuarterdeckError, match="source_roots"):
        asyncio.run(SourceRoots([]).insist_for(STRANGER, ["/etc/passwd"], ObjectStores()))


def test_many_sources_are_looked_at_in_few_calls(lake: Path) -> None:
    class Counting(ObjectStores):
        calls = 0

        async def look(self, path: Path, work: Callable[[], ResultT], *, moved_bytes: int = 0) -> ResultT:
            self.calls += 1
            return await super().look(path, work, moved_bytes=moved_bytes)

    objects = Counting()
    sources = [f"{lake}/{number}.ndjson" for number in range(10_000)]
    asyncio.run(SourceRoots([str(lake)]).insist_for(STRANGER, sources, objects))
    assert objects.calls <= 100


def test_a_path_that_hangs_holds_up_its_own_file_system_alone(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it take threads that others need, or wait longer than any call to a store."""
    answers = threading.Event()

    def hanging(path: str) -> str:
        if "hung" in path:
            answers.wait(60)
        return path

    monkeypatch.setattr("os.path.realpath", hanging)

    async def ask() -> None:
        calls = StoreCalls(0.01)
        objects = ObjectStores(calls=calls)
        roots = SourceRoots(["/hung", str(lake)])
        for _ in range(3):
            with pytest.raises(QuarterdeckError, match="hung"):
                await roots.insist_for(STRANGER, ["/hung/x"], objects)
        assert objects.trouble()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("asyncio")]
        calls.timeout_s = 60.0
        await roots.insist_for(STRANGER, [f"{lake}/day"], objects)

    try:
        asyncio.run(ask())
    finally:
        answers.set()
