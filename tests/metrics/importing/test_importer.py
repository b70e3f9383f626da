"""An import is there as a whole or not at all, and only once."""

import asyncio
import os
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics.catalog import list_imports, remove_import
from quarterdeck.metrics.importing import assembly
from quarterdeck.metrics.importing.errors import SourceError
from quarterdeck.metrics.importing.importer import Imported, ImportSource, Lake, Progress, import_file
from quarterdeck.metrics.importing.parquet import ParquetReader
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.metrics.promql.labels import METRIC_NAME, Labels
from quarterdeck.stores.objects import ObjectStores
from tests.metrics.importing.lakes import Row, batch, lake_in, objects_in, parts_in, played, stored_in, universe_of

UP: Labels = ((METRIC_NAME, "up"), ("job", "a"))
BROKEN = SourceError("it cannot be imported", "it is cut off", "mend it")


def rows(count: int, series: int = 5) -> list[Row]:
    return [(((METRIC_NAME, "up"), ("i", str(i % series))), 1_000 * i, float(i)) for i in range(count)]


def imports_in(lake: Lake, tenant: str = "default") -> int:
    return len(lake.database.read(lambda connection: list_imports(connection, tenant)))


def test_what_was_imported_can_be_read(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        imported = import_file(lake, played(tmp_path, batch(rows(100)), batch(rows(50))), "default")
        assert (imported.record.sample_count, imported.record.series_count, imported.duplicates) == (100, 5, 50)
        assert imported.segments == 1
        assert imported.size_bytes == objects_in(tmp_path)[0].stat().st_size
        assert sum(len(some) for some in stored_in(lake).values()) == 100


def test_the_same_file_is_imported_once(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(10)))
        first = import_file(lake, source, "default")
        before = objects_in(tmp_path)
        copy = tmp_path / "copy.om"
        copy.write_bytes((tmp_path / "played.om").read_bytes())
        for again in (source, replace(source, path=copy)):
            second = import_file(lake, again, "default")
            assert (second.was_there, second.record, second.segments) == (True, first.record, 0)
        assert objects_in(tmp_path) == before
        assert len(universe_of(lake).segments) == 1


def test_another_content_tenant_number_of_shards_or_way_to_read_it_is_another_import(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(10)))
        assert not import_file(lake, source, "default").was_there
        assert not import_file(lake, source, "other").was_there
        assert not import_file(lake, replace(source, options="otherwise"), "default").was_there
        assert not import_file(lake, source, "default", shard_count=2).was_there
        assert not import_file(lake, played(tmp_path, batch(rows(10)), content="y"), "default").was_there
        assert (imports_in(lake), imports_in(lake, "other")) == (4, 1)


def test_a_removed_import_can_be_imported_again(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(10)))
        first = import_file(lake, source, "default")
        lake.database.run(lambda connection: remove_import(connection, "default", first.record.import_id))
        assert stored_in(lake) == {}
        assert not import_file(lake, source, "default").was_there
        assert len(stored_in(lake)) == 5


def test_importing_again_mends_segments_that_were_lost_or_damaged(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(10)))
        first = import_file(lake, source, "default")
        (path,) = objects_in(tmp_path)
        whole = path.read_bytes()
        path.write_bytes(b"damaged")
        second = import_file(lake, source, "default", again=True)
        assert not second.was_there
        assert (imports_in(lake), len(universe_of(lake).segments)) == (1, 1)
        assert second.record.import_id == first.record.import_id
        (mended,) = objects_in(tmp_path)
        assert mended.read_bytes() == whole
        assert not path.exists()
        assert len(stored_in(lake)) == 5


def test_importing_again_deletes_objects_that_nobody_needs_any_more(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10))), "default")
        (before,) = objects_in(tmp_path)
        changed = played(tmp_path, batch([*rows(10), *rows(12)[10:]]))  # as after a reader was mended
        import_file(lake, changed, "default", again=True)
        (after,) = objects_in(tmp_path)
        assert after != before
        assert sum(len(some) for some in stored_in(lake).values()) == 12


@pytest.mark.usefixtures("often_full")
def test_a_file_that_breaks_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        parts = [batch(rows(100)) for _ in range(3)]
        staged = 0

        def look(_: object) -> None:
            nonlocal staged
            staged = max(staged, len(parts_in(tmp_path)))

        with pytest.raises(SourceError, match="cut off"):
            import_file(lake, played(tmp_path, *parts, breaks=BROKEN), "default", on_progress=look)
        assert staged, "segments had been written"
        assert not parts_in(tmp_path)
        assert not objects_in(tmp_path)
        assert (universe_of(lake).version, imports_in(lake)) == (0, 0)
        assert not import_file(lake, played(tmp_path, *parts), "default").was_there
        assert len(stored_in(lake)) == 5


def test_a_crash_before_the_catalog_knows_leaves_nothing_and_the_next_try_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(100)))
        with monkeypatch.context() as patch:
            patch.setattr(lake.database, "run", crash)
            with pytest.raises(SystemExit):
                import_file(lake, source, "default")
        assert len(parts_in(tmp_path)) == 1
        assert not objects_in(tmp_path)
        assert universe_of(lake).segments == ()
        assert not import_file(lake, source, "default").was_there
        assert len(objects_in(tmp_path)) == 1
        assert len(stored_in(lake)) == 5


def crash(*_: object) -> None:
    raise SystemExit


@pytest.fixture
def often_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "GATHERED_SAMPLES", 100)
    monkeypatch.setattr(assembly, "_SEGMENT_ROWS", 20)


@pytest.mark.usefixtures("often_full")
@pytest.mark.parametrize("shard_count", [None, 1, 4])
def test_a_large_file_is_written_in_several_parts_and_the_later_sample_counts(
    tmp_path: Path, shard_count: int | None
) -> None:
    with lake_in(tmp_path) as lake:
        old = [batch(rows(100)) for _ in range(3)]
        new = batch([(labels, time, -1.0) for labels, time, _ in rows(10)])
        imported = import_file(lake, played(tmp_path, *old, new), "default", shard_count=shard_count)
        assert imported.segments == len(objects_in(tmp_path)) == len(universe_of(lake).segments) > 3
        stored = stored_in(lake)
        expected = {
            (labels, time): value for labels, time, value in [*rows(100), *((a, b, -1.0) for a, b, _ in rows(10))]
        }
        assert sum(len(some) for some in stored.values()) == len(expected)
        with_new = {labels: dict(some) for labels, some in stored.items()}
        assert all(with_new[labels][time] == as_bits(value) for (labels, time), value in expected.items())


def as_bits(value: float) -> bytes:
    return struct.pack("d", value)


def test_a_file_without_samples_is_imported_and_there_is_nothing(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        imported = import_file(lake, played(tmp_path), "default")
        assert (imported.record.sample_count, imported.segments) == (0, 0)
        assert import_file(lake, played(tmp_path), "default").was_there


@pytest.mark.parametrize("tenant", ["a/b", ".", "..", "é ?#%2F", "a" * 100])
def test_any_tenant_has_a_folder_of_its_own_in_the_lake(tmp_path: Path, tenant: str) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10))), tenant)
        (segment,) = universe_of(lake, tenant).segments
        (path,) = objects_in(tmp_path)
        assert len(path.relative_to(lake.url).parts) == 3
        found = asyncio.run(lake.objects.head(segment.object.url))
        assert segment.object.is_met_by(found)
        assert len(stored_in(lake, tenant)) == 5


def test_two_imports_of_one_file_at_the_same_time_are_one(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake, lake_in(tmp_path) as other:
        source = played(tmp_path, batch(rows(10)))
        faster: list[Imported] = []

        def overtake(progress: Progress) -> None:
            if progress.step == "writing" and not faster:
                thread = threading.Thread(target=lambda: faster.append(import_file(other, source, "default")))
                thread.start()
                thread.join()

        assert import_file(lake, source, "default", on_progress=overtake).was_there
        assert [one.was_there for one in faster] == [False]
        assert (imports_in(lake), len(universe_of(lake).segments)) == (1, 1)
        assert len(stored_in(lake)) == 5


class NoRoom(ObjectStores):
    """A store that takes two objects and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 2

    async def put(self, url: str, data: bytes) -> None:
        if not self.left:
            raise QuarterdeckError(ErrorCode.UNAVAILABLE, f"{url} cannot be written", "it is full", "make room")
        self.left -= 1
        await super().put(url, data)


@pytest.mark.usefixtures("often_full")
def test_what_the_store_says_is_told_as_it_is_and_nothing_is_imported(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, *(batch(rows(100)) for _ in range(3)))
        with pytest.raises(QuarterdeckError, match="make room"):
            import_file(replace(lake, objects=NoRoom()), source, "default")
        assert (universe_of(lake).version, imports_in(lake)) == (0, 0)
        assert not import_file(lake, source, "default").was_there


@pytest.mark.parametrize(("kind", "code"), [("nothing", ErrorCode.NOT_FOUND), ("folder", ErrorCode.INVALID_ARGUMENT)])
def test_a_file_that_is_not_there_is_told(tmp_path: Path, kind: str, code: ErrorCode) -> None:
    (tmp_path / "folder").mkdir()

    def never() -> Any:
        raise AssertionError("it is not opened")

    with lake_in(tmp_path) as lake, pytest.raises(SourceError) as caught:
        import_file(lake, ImportSource(tmp_path / kind, "", never), "default")
    assert caught.value.code is code
    assert kind in caught.value.message


def test_progress_is_told_from_checking_to_writing(tmp_path: Path) -> None:
    told: list[Progress] = []
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10)), batch(rows(10))), "default", on_progress=told.append)
    assert list(dict.fromkeys(one.step for one in told)) == ["checking", "reading", "sorting", "writing"]
    assert [one.samples for one in told if one.step == "reading"] == [10, 20]
    assert told[-1].segments == 1


@pytest.mark.parametrize("name", ["m.prom", "m.parquet"])
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with lake_in(tmp_path) as lake:
        with pytest.raises(SourceError, match="it is a FIFO"):
            import_file(lake, ImportSource(path, "x", lambda: PrometheusTextReader(path)), "default")
        assert imports_in(lake) == 0
    for read in (PrometheusTextReader, ParquetReader):
        with pytest.raises(SourceError, match="it is a FIFO"):
            list(read(path).batches())


def test_a_file_whose_name_is_no_utf_8_is_imported_and_its_name_kept_escaped(tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/odd-\xff.om"))
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(10)))
        (tmp_path / "played.om").rename(path)
        import_file(lake, replace(source, path=path), "default")
        (record,) = lake.database.read(lambda connection: list_imports(connection, "default"))
        assert record.source.endswith(r"odd-\udcff.om")


def test_an_import_is_listed_with_the_times_of_its_first_and_its_last_sample(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        imported = import_file(lake, played(tmp_path, batch(rows(100))), "default")
        empty = import_file(lake, played(tmp_path, content="nothing"), "default")
        assert (imported.record.first_ms, imported.record.last_ms) == (0, 99_000)
        assert (empty.record.first_ms, empty.record.last_ms) == (None, None)
        listed = lake.database.read(lambda connection: list_imports(connection, "default"))
        assert sorted(listed, key=lambda one: one.sample_count) == [empty.record, imported.record]


def test_what_is_no_file_is_known_by_its_options_and_listed_by_its_name(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        made = replace(played(tmp_path, batch(rows(10))), path=None, name="made for a test")
        assert import_file(lake, made, "default").record.source == "made for a test"
        assert import_file(lake, made, "default").was_there
        assert not import_file(lake, replace(made, options="others"), "default").was_there
