"""What imports leave that were killed: never seen by who looks for Parquet files, published or removed in time."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import duckdb
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.metrics import orphans, places
from quarterdeck.metrics.catalog import Catalog, remove_import, segment_url
from quarterdeck.metrics.importing import assembly, importer
from quarterdeck.metrics.importing.errors import SourceError
from quarterdeck.metrics.importing.importer import Lake, import_file
from quarterdeck.metrics.metering import LakeMetrics, OrphanKind
from quarterdeck.metrics.orphans import OrphanCollector
from quarterdeck.metrics.places import PlaceKind
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores import local_files
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.disk_full import DiskFullError
from quarterdeck.stores.objects import ObjectStores
from tests.metrics.importing.lakes import (
    Row,
    batch,
    lake_in,
    objects_in,
    parts_in,
    played,
    stored_in,
    universe_of,
)
from tests.stores.s3 import S3Server, moto

HOUR_S = 3600.0
GRACE_S = 24 * HOUR_S


def rows(count: int) -> list[Row]:
    return [((("__name__", "up"), ("a", str(number % 5))), number * 1000, float(number)) for number in range(count)]


class Collecting:
    """A collector whose clock the test sets: hours after now."""

    def __init__(self, lake: Lake, grace_s: float = GRACE_S) -> None:
        self.hours = 0.0
        self.metrics = LakeMetrics(CollectorRegistry())
        self.collector = OrphanCollector(
            InlineDatabase(lake.database),
            lake.objects,
            lake.url,
            self.metrics,
            grace_s=grace_s,
            query_timeout_s=120.0,
            chance=lambda: 0.5,
            wall_s=lambda: time.time() + self.hours * HOUR_S,
        )

    def collect(self, hours: float = 0.0) -> int:
        self.hours = hours
        return asyncio.run(self.collector.collect())

    def collect_all(self) -> None:
        """A day later and an hour after that: what was published meanwhile is first seen, and then removed."""
        self.collect(25.0)
        self.collect(26.0)

    def publish_left(self) -> int:
        return asyncio.run(self.collector.publish_left())


def samples_shown_in(folder: Path) -> int:
    """As docs/lake.md has it."""
    pattern = folder / "lake" / "segments" / "**" / "*.parquet"
    (row,) = duckdb.execute(f"select count(*) from '{pattern}'").fetchall()
    return row[0]


def listed_in(lake: Lake) -> list[Path]:
    return sorted(Path(segment.object.url) for segment in universe_of(lake).segments)


@pytest.fixture(autouse=True)
def several_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "_SEGMENT_ROWS", 20)


class Killed(BaseException):
    """As if the process had ended here."""


def die(*_: object, **__: object) -> NoReturn:
    raise Killed


def killed_after(times: int, real: Callable[..., object]) -> Callable[..., object]:
    left = [times]

    def call(*arguments: object, **named: object) -> object:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(*arguments, **named)

    return call


# One import


def test_what_is_published_is_what_is_listed_and_what_was_staged_goes_after_a_while(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(100))), "default")
        assert objects_in(tmp_path) == listed_in(lake) != []
        collecting = Collecting(lake)
        assert collecting.collect() == 0  # a query that has begun may read what was staged
        staged = parts_in(tmp_path)
        assert collecting.collect(1.0) == len(staged) > 1
        assert parts_in(tmp_path) == []
        assert objects_in(tmp_path) == listed_in(lake)
        assert len(stored_in(lake)) == 5
        assert collecting.metrics.removed[OrphanKind.PART].value == len(staged)


POINTS: dict[str, tuple[object, str, Callable[[object], Callable[..., object]]]] = {
    "at the second put": (ObjectStores, "put", lambda real: killed_after(1, real)),  # pyright: ignore[reportArgumentType]
    "before the commit": (importer, "record_import", lambda _: die),
    "after the commit": (importer, "publish", lambda _: die),
    "at the second copy": (ObjectStores, "copy", lambda real: killed_after(1, real)),  # pyright: ignore[reportArgumentType]
    "before the end": (importer, "mark_published", lambda _: die),
}


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("point", POINTS)
def test_an_import_that_is_killed_shows_nothing_unlisted_and_loses_nothing_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, again: bool
) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch([((("__name__", "other"),), 1, 1.0)]), content="y"), "default")
        source = played(tmp_path, batch(rows(100)))
        if again:
            import_file(lake, source, "default")
        where, name, broken = POINTS[point]
        with monkeypatch.context() as patch:
            patch.setattr(where, name, broken(getattr(where, name)))
            with pytest.raises((Killed, BaseExceptionGroup)):
                import_file(lake, source, "default", again=again)
        is_listed = len(stored_in(lake)) == 6  # reads all that the catalog leads to
        assert is_listed or not again
        shown = samples_shown_in(tmp_path)
        assert shown <= 101, "nobody finds a sample twice"
        assert is_listed or shown == 1
        collecting = Collecting(lake)
        collecting.publish_left()
        assert objects_in(tmp_path) == listed_in(lake)
        collecting.collect_all()
        assert objects_in(tmp_path) == listed_in(lake)
        assert parts_in(tmp_path) == []
        assert (len(stored_in(lake)) == 6) is is_listed
        assert import_file(lake, source, "default").was_there is is_listed
        assert len(stored_in(lake)) == 6


KILLED = """
import os, signal, sys
from pathlib import Path
from contextlib import closing
from quarterdeck.metrics.importing import importer
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.stores import durable_file
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database.opening import open_database
from quarterdeck.stores.objects import ObjectStores
folder, point = Path(sys.argv[1]), sys.argv[2]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if point == "write":
    durable_file.os.fsync = die
elif point == "publish":
    importer.publish = die
elif point == "mark":
    importer.mark_published = die
with closing(open_database(folder / "lake" / "catalog.db", (METRICS_SCHEMA,))) as database:
    database.upgrade()
    lake = importer.Lake(database, ObjectStores(), str(folder / "lake" / "segments"))
    path = folder / "m.prom"
    importer.import_file(lake, importer.ImportSource(path, "prometheus", lambda: PrometheusTextReader(path)), "default")
"""


@pytest.mark.parametrize("point, listed", [("write", 0), ("publish", 1), ("mark", 1)])
def test_after_a_kill_the_collector_leaves_what_is_listed_and_nothing_else(
    tmp_path: Path, point: str, listed: int
) -> None:
    (tmp_path / "m.prom").write_text("up 1 1000\n")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), point], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    with lake_in(tmp_path) as lake:
        assert parts_in(tmp_path)
        assert len(universe_of(lake).segments) == listed
        assert len(objects_in(tmp_path)) <= listed
        collecting = Collecting(lake)
        assert collecting.publish_left() == listed
        collecting.collect_all()
        assert parts_in(tmp_path) == []
        assert objects_in(tmp_path) == listed_in(lake)
        assert len(stored_in(lake)) == listed


def test_an_import_that_still_runs_loses_nothing_to_the_collector(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        collecting, removed = Collecting(lake), list[int]()

        def collect(progress: importer.Progress) -> None:
            with closing(open_database(tmp_path / "lake" / "catalog.db", (METRICS_SCHEMA,))) as database:
                other = Collecting(Lake(database, ObjectStores(), lake.url))
                removed.append(_in_thread(lambda: other.collect(11.9)))

        import_file(lake, played(tmp_path, batch(rows(100))), "default", on_progress=collect)
        assert removed
        assert not any(removed)
        collecting.publish_left()
        assert objects_in(tmp_path) == listed_in(lake)
        assert len(stored_in(lake)) == 5


def _in_thread(work: Callable[[], int]) -> int:
    """The import has a loop of its own in this one."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def test_an_import_that_takes_longer_than_half_of_the_grace_time_fails_and_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as made:
        lake = Lake(made.database, made.objects, made.url, orphan_grace_s=100.0)
        now = [0.0]
        monkeypatch.setattr(importer.time, "monotonic", lambda: now[0])

        def slow(progress: importer.Progress) -> None:
            now[0] += 30.0 if progress.step == "writing" else 0.0

        with pytest.raises(SourceError, match="orphan_grace_s"):
            import_file(lake, played(tmp_path, batch(rows(100))), "default", on_progress=slow)
        assert universe_of(lake).segments == ()


def test_an_import_that_slept_longer_than_half_of_the_grace_time_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as made:
        lake = Lake(made.database, made.objects, made.url, orphan_grace_s=100.0)
        now, real = [0.0], time.time
        monkeypatch.setattr(importer.time, "time", lambda: real() + now[0])  # the other clock stands still meanwhile

        def sleep(progress: importer.Progress) -> None:
            now[0] = 60.0 if progress.step == "writing" else now[0]

        with pytest.raises(SourceError, match="orphan_grace_s"):
            import_file(lake, played(tmp_path, batch(rows(100))), "default", on_progress=sleep)
        assert universe_of(lake).segments == ()


def files_in(lake: Lake) -> list[Path]:
    """Files and folders."""
    return sorted(Path(lake.url).rglob("*"))


def test_an_import_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lake_in(tmp_path) as lake:
        put_one = ObjectStores.put
        left = [2]

        async def put_two(stores: ObjectStores, url: str, data: bytes) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise DiskFullError(ErrorCode.RESOURCE_EXHAUSTED, f"{url} could not be written", "no room", "")
            await put_one(stores, url, data)

        monkeypatch.setattr(ObjectStores, "put", put_two)
        with pytest.raises(DiskFullError):
            import_file(lake, played(tmp_path, batch(rows(100))), "default")
        assert left[0] < 0
        assert [path for path in files_in(lake) if path.name != "_staging"] == []


def test_who_imports_what_somebody_else_has_imported_meanwhile_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(100)))
        import_file(lake, source, "default")
        before = files_in(lake)

        def nothing(*_: object) -> None:
            """As it was when somebody looked."""

        monkeypatch.setattr(importer, "find_import", nothing)
        assert import_file(lake, source, "default").was_there
        assert files_in(lake) == before


def test_when_an_import_is_replaced_while_it_is_published_only_the_new_one_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as lake:
        source = played(tmp_path, batch(rows(100)))
        copy, began = ObjectStores.copy, list[str]()

        def replace() -> int:
            with closing(open_database(tmp_path / "lake" / "catalog.db", (METRICS_SCHEMA,))) as database:
                return import_file(Lake(database, ObjectStores(), lake.url), source, "default", again=True).segments

        async def copy_late(stores: ObjectStores, url: str, to_url: str) -> None:
            began.append(url)
            if len(began) == 1:
                assert _in_thread(replace)
            await copy(stores, url, to_url)

        monkeypatch.setattr(ObjectStores, "copy", copy_late)
        import_file(lake, source, "default")
        assert len(began) > 1
        assert objects_in(tmp_path) == listed_in(lake)
        assert samples_shown_in(tmp_path) == 100


# The collector


def test_what_was_staged_long_before_it_was_published_stays_for_queries_that_have_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as lake:
        with monkeypatch.context() as patch:
            patch.setattr(importer, "publish", die)
            with pytest.raises(Killed):
                import_file(lake, played(tmp_path, batch(rows(100))), "default")
        reading = listed_in(lake)
        collecting = Collecting(lake)
        assert collecting.publish_left() == len(reading) > 1
        assert collecting.collect(5.0) == 0
        assert all(path.exists() for path in reading)
        assert collecting.collect(5.1) == 0
        assert collecting.collect(6.0) == len(reading)
        assert [path for path in files_in(lake) if "_staging" in str(path)] == [Path(lake.url) / "_staging"]


def test_one_import_that_cannot_be_published_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_PUBLISHED_MAX", 2)
    with lake_in(tmp_path) as lake:
        lost: list[Path] = []
        for content in "ab":
            with monkeypatch.context() as patch:
                patch.setattr(importer, "publish", die)
                with pytest.raises(Killed):
                    import_file(lake, played(tmp_path, batch(rows(100)), content=content), "default")
            lost = lost or listed_in(lake)
        for path in lost:
            path.unlink()
        collecting = Collecting(lake)
        with pytest.raises(QuarterdeckError, match="was not found"):
            collecting.publish_left()
        assert len(objects_in(tmp_path)) == len(listed_in(lake)) - len(lost) > 0
        assert set(listed_in(lake)) == {*lost, *objects_in(tmp_path)}


def test_one_orphan_that_cannot_be_removed_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as lake:
        stays, goes = put(tmp_path, OURS[2]), put(tmp_path, OURS[3])
        unlink = os.unlink

        def refuse(path: str) -> None:
            if path == str(stays):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            unlink(path)

        monkeypatch.setattr(local_files.os, "unlink", refuse)
        with pytest.raises(QuarterdeckError, match="Permission denied"):
            Collecting(lake).collect(25.0)
        assert (stays.exists(), goes.exists()) == (True, False)


def put(folder: Path, place: str, data: bytes = b"data") -> Path:
    path = folder / "lake" / "segments" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


OURS = [
    "default/0123456789abcdef/00000-0123456789abcdef.parquet",
    "default/0123456789abcdef/00000-0123456789abcdef-01234567.parquet",
    "default/0123456789abcdef/.00000-0123456789abcdef.parquet-01234567.part",
    "_staging/01234567/default/0123456789abcdef/00000-0123456789abcdef-01234567.parquet.part",
    "_staging/01234567/default/0123456789abcdef/.00000-0123456789abcdef-01234567.parquet.part-89abcdef.part",
]
NOT_OURS = [
    "README.txt",
    "notes.part",
    "default/mine.parquet",
    "default/0123456789abcdef/mine.parquet",
    "default/0123456789abcdef/00000-0123456789abcdef.parquet.bak",
    "default/0123456789abcdef/deep/00000-0123456789abcdef.parquet",
    "_staging/mine/00000-0123456789abcdef-01234567.parquet.part",
    "_other/0123456789abcdef/00000-0123456789abcdef.parquet",
]


def test_only_what_has_a_name_of_ours_and_is_older_than_the_grace_time_is_removed(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10))), "default")
        listed = listed_in(lake)
        ours, others = [put(tmp_path, place) for place in OURS], [put(tmp_path, place) for place in NOT_OURS]
        collecting = Collecting(lake)
        assert collecting.collect() == 0
        assert collecting.collect(23.9) == 1  # what the import had staged
        assert collecting.collect(24.1) == len(ours)
        assert not any(path.exists() for path in ours)
        assert all(path.exists() for path in others)
        assert listed_in(lake) == listed
        assert len(stored_in(lake)) == 5
        assert collecting.metrics.removed[OrphanKind.SEGMENT].value == 2
        assert collecting.metrics.removed_bytes.value > 4 * len(ours)


def test_published_segments_stay_when_the_catalog_does_not_seem_to_be_the_lakes(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10))), "default")
    with closing(open_database(tmp_path / "lost.db", (METRICS_SCHEMA,))) as database:
        database.upgrade()
        lake = Lake(database, ObjectStores(), str(tmp_path / "lake" / "segments"))
        before = objects_in(tmp_path)
        Collecting(lake).collect(1000.0)
        import_file(lake, played(tmp_path, batch(rows(10))), "another")
        Collecting(lake).collect(1000.0)
        assert set(objects_in(tmp_path)) > set(before)


def test_nothing_is_removed_when_the_catalog_cannot_be_read_or_the_grace_is_0(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10))), "default")
        for place in OURS:
            put(tmp_path, place)
        before = sorted((tmp_path / "lake").rglob("*"))
        assert Collecting(lake, grace_s=0.0).collect(1000.0) == 0

        class Unreadable(InlineDatabase):
            async def read(self, transaction: Callable[[Connection], object]) -> NoReturn:
                raise QuarterdeckError("unavailable", "the catalog cannot be read", "", "")  # pyright: ignore[reportArgumentType]

        collecting = Collecting(lake)
        collecting.collector._database = Unreadable(lake.database)  # pyright: ignore
        with pytest.raises(QuarterdeckError):
            collecting.collect(1000.0)
        assert sorted((tmp_path / "lake").rglob("*")) == before


def test_a_removed_imports_segments_are_orphans(tmp_path: Path) -> None:
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(10)), content="a"), "default")
        kept = objects_in(tmp_path)
        second = import_file(lake, played(tmp_path, batch(rows(10)), content="b"), "default")
        lake.database.run(lambda connection: remove_import(connection, "default", second.record.import_id))
        Collecting(lake).collect(25.0)
        assert objects_in(tmp_path) == kept


def test_a_coordinator_that_knew_staged_segments_learns_that_they_were_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake_in(tmp_path) as lake:
        with monkeypatch.context() as patch:
            patch.setattr(importer, "publish", die)
            with pytest.raises(Killed):
                import_file(lake, played(tmp_path, batch(rows(100))), "default")
        catalog = Catalog(InlineDatabase(lake.database), lake.url)
        before = asyncio.run(catalog.universe("default"))
        assert all("_staging" in segment.object.url for segment in before.segments)
        Collecting(lake).publish_left()
        after = asyncio.run(catalog.universe("default"))
        assert [Path(segment.object.url) for segment in after.segments] == objects_in(tmp_path)
        assert [one.segment_id for one in after.segments] == [one.segment_id for one in before.segments]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with moto() as server:
        yield server


def test_a_bucket_is_published_and_collected_alike(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.make_bucket()
    with lake_in(tmp_path) as made:
        lake = Lake(made.database, ObjectStores(bucket.options), f"{bucket.url}/lake")
        import_file(lake, played(tmp_path, batch(rows(100))), "default")
        bucket.put(f"lake/{OURS[3]}", b"data")
        bucket.put("lake/notes.txt", b"data")
        listed = sorted(segment.object.url for segment in universe_of(lake).segments)
        found = asyncio.run(lake.objects.find(f"{lake.url}/**/*.parquet"))
        assert [ref.url for ref in found] == listed
        collecting = Collecting(lake)
        assert collecting.collect() == 0
        assert collecting.collect(1.0) == len(listed)
        assert collecting.collect(25.0) == 1
        left = asyncio.run(lake.objects.find(f"{lake.url}/**"))
        assert [ref.url for ref in left] == [*listed, f"{lake.url}/notes.txt"]


def test_a_file_system_without_second_names_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> NoReturn:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    with lake_in(tmp_path) as lake:
        import_file(lake, played(tmp_path, batch(rows(100))), "default")
        assert objects_in(tmp_path) == listed_in(lake)
        assert len(stored_in(lake)) == 5


def test_places_are_told_by_their_names() -> None:
    kinds = [PlaceKind.PUBLISHED] * 2 + [PlaceKind.UNFINISHED, PlaceKind.STAGED, PlaceKind.UNFINISHED]
    assert [places.kind_of(place) for place in OURS] == kinds
    assert [places.kind_of(place) for place in NOT_OURS] == [None] * len(NOT_OURS)
    assert places.staged(OURS[1]) == OURS[3]
    assert places.published(OURS[3]) == OURS[1]
    assert places.staged(OURS[0]) is None
    assert places.published(OURS[1]) is None
    assert segment_url("/lake", OURS[1]) == f"/lake/{OURS[1]}"
