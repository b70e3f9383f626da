"""The catalog: whoever asks after an import sees it, and nothing is read again that has not changed."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from quarterdeck.metrics import catalog as module
from quarterdeck.metrics import tables
from quarterdeck.metrics.catalog import (
    Catalog,
    ImportRecord,
    NewSegment,
    find_import,
    list_imports,
    record_import,
    remove_import,
    segment_url,
)
from quarterdeck.metrics.model import MetricMetadata, Segment
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.metrics.universe import Universe
from quarterdeck.stores.database.inline import InlineDatabase
from quarterdeck.stores.database.sql import SqlDatabase
from quarterdeck.stores.objects import ObjectRef
from tests.contract.database.places import Place

T = TypeVar("T")


class Counted(InlineDatabase):
    """Counts what is read."""

    def __init__(self, database: SqlDatabase) -> None:
        super().__init__(database)
        self.reads = 0

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        self.reads += 1
        return await super().read(transaction)


@pytest.fixture
def database(place: Place) -> Iterator[SqlDatabase]:
    with place.opened(schemas=[METRICS_SCHEMA]) as opened:
        opened.upgrade()
        yield opened


def record(number: int, tenant: str = "default") -> ImportRecord:
    """With the times of `new`."""
    name, source = f"{tenant}-{number}", f"{number}.om"
    return ImportRecord(name, tenant, source, f"print-{number}", 10 * number, number, number, -5, 2**53)


def new(place: str, shard: int = 0) -> NewSegment:
    return NewSegment(shard, 4, place, 100, "xxh3_128:0", -5, 2**53, 7, 3, b"\x00index\xff")


def imported(database: SqlDatabase, number: int, *places: str, tenant: str = "default") -> None:
    segments = [new(place) for place in places]
    database.run(lambda connection: record_import(connection, record(number, tenant), segments, {}))


def places_of(universe: Universe) -> list[str]:
    return [segment.object.url.removeprefix("/lake/") for segment in universe.segments]


def asked(catalog: Catalog, tenant: str = "default") -> Universe:
    return asyncio.run(catalog.universe(tenant))


def test_a_segment_comes_back_as_it_was_with_its_place_in_the_lake(database: SqlDatabase) -> None:
    database.run(lambda connection: record_import(connection, record(1), [new("t/a", 3)], {}))
    (segment,) = asked(Catalog(Counted(database), "s3://bucket/deep")).segments
    url = "s3://bucket/deep/t/a"
    assert segment == Segment(
        segment.segment_id, 3, 4, ObjectRef(url, 100, ""), "xxh3_128:0", -5, 2**53, 7, 3, b"\x00index\xff"
    )
    assert segment_url("s3://bucket", "t/a") == "s3://bucket/t/a"
    assert segment_url("/lake/", "t/a") == "/lake/t/a"


def test_nothing_is_read_again_until_something_has_changed(database: SqlDatabase) -> None:
    counted = Counted(database)
    catalog = Catalog(counted, "/lake")
    imported(database, 1, "a", "b")
    first = asked(catalog)
    assert counted.reads == 2
    assert asked(catalog) is first
    assert counted.reads == 3
    imported(database, 2, "c")
    second = asked(catalog)
    assert places_of(second) == ["a", "b", "c"]
    assert second.segments[:2] == first.segments
    assert second.segments[0] is first.segments[0], "what is known is not read again"
    assert second.version > first.version
    assert counted.reads == 5


def test_two_coordinators_see_each_others_imports(database: SqlDatabase) -> None:
    one, other = Catalog(Counted(database), "/lake"), Catalog(Counted(database), "/lake")
    assert places_of(asked(one)) == []
    for number in range(1, 4):
        imported(database, number, f"s{number}")
        assert places_of(asked(one)) == places_of(asked(other)) == [f"s{at}" for at in range(1, number + 1)]


def test_what_was_removed_is_gone_and_an_import_after_it_is_there(database: SqlDatabase) -> None:
    catalog = Catalog(Counted(database), "/lake")
    imported(database, 1, "a", "b")
    imported(database, 2, "c")
    before = {segment.segment_id for segment in asked(catalog).segments}
    assert sorted(database.run(lambda connection: remove_import(connection, "default", "default-2"))) == ["c"]
    assert places_of(asked(catalog)) == ["a", "b"]
    assert sorted(database.run(lambda connection: remove_import(connection, "default", "default-1"))) == ["a", "b"]
    imported(database, 3, "d", "e", "f")
    universe = asked(catalog)
    assert places_of(universe) == ["d", "e", "f"]
    assert not before & {segment.segment_id for segment in universe.segments}, "no number is used twice"
    assert database.read(lambda connection: find_import(connection, "default", "print-1")) is None


def test_tenants_do_not_see_each_other(database: SqlDatabase) -> None:
    catalog = Catalog(Counted(database), "/lake")
    imported(database, 1, "a", tenant="one")
    imported(database, 1, "b", tenant="two")
    first = asked(catalog, "one")
    imported(database, 2, "c", tenant="two")
    assert asked(catalog, "one") is first
    assert places_of(asked(catalog, "two")) == ["b", "c"]
    assert asked(catalog, "nobody").segments == ()
    database.run(lambda connection: remove_import(connection, "two", "one-1"))
    assert places_of(asked(catalog, "one")) == ["a"]


def test_many_who_ask_at_once_are_answered_from_one_load(database: SqlDatabase) -> None:
    counted = Counted(database)
    catalog = Catalog(counted, "/lake")
    imported(database, 1, "a")

    async def ask_together() -> list[Universe]:
        return list(await asyncio.gather(*(catalog.universe("default") for _ in range(20))))

    found = asyncio.run(ask_together())
    assert all(one is found[0] for one in found)
    assert counted.reads == 20 + 1


def test_who_asks_for_nobody_leaves_nothing_behind(database: SqlDatabase) -> None:
    catalog = Catalog(Counted(database), "/lake")
    for number in range(100):
        asked(catalog, f"nobody-{number}")
    assert not vars(catalog)["_universes"]
    assert not vars(catalog)["_loading"]


def test_the_same_content_is_recorded_once_and_nothing_of_the_second_try_remains(database: SqlDatabase) -> None:
    imported(database, 1, "a")
    recorded = database.run(lambda connection: record_import(connection, record(1), [new("b")], {}))
    assert (recorded.record, recorded.was_there) == (record(1), True)
    catalog = Catalog(Counted(database), "/lake")
    assert places_of(asked(catalog)) == ["a"]
    assert database.read(lambda connection: list_imports(connection, "default")) == [record(1)]


def test_an_import_that_replaces_another_takes_its_place(database: SqlDatabase) -> None:
    imported(database, 1, "a", "b")
    segments = [new("b"), new("c")]
    recorded = database.run(lambda connection: record_import(connection, record(1), segments, {}, replace=True))
    assert not recorded.was_there
    assert places_of(asked(Catalog(Counted(database), "/lake"))) == ["b", "c"]
    assert database.read(lambda connection: list_imports(connection, "default")) == [record(1)]


def test_a_catalog_that_was_restored_to_an_earlier_state_is_read_anew(database: SqlDatabase) -> None:
    catalog = Catalog(Counted(database), "/lake")
    imported(database, 1, "a")
    imported(database, 2, "b")
    assert places_of(asked(catalog)) == ["a", "b"]

    def restore(connection: Connection) -> None:
        remove_import(connection, "default", "default-2")
        connection.execute(tables.catalog_versions.update().values(version=1))

    database.run(restore)
    assert places_of(asked(catalog)) == ["a"]


def test_imports_are_listed_the_latest_last(database: SqlDatabase) -> None:
    for number in (3, 1, 2):
        imported(database, number, f"s{number}")
    assert database.read(lambda connection: list_imports(connection, "default")) == [record(1), record(2), record(3)]
    assert database.read(lambda connection: list_imports(connection, "other")) == []


def test_more_segments_than_one_statement_takes_are_all_there(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_IN_A_STATEMENT", 7)
    imported(database, 1, *(f"{at:02}" for at in range(30)))
    assert places_of(asked(Catalog(Counted(database), "/lake"))) == [f"{at:02}" for at in range(30)]


def test_the_last_word_about_a_metric_counts(database: SqlDatabase) -> None:
    catalog = Catalog(Counted(database), "/lake")
    for number, text in ((1, "old"), (2, "new")):
        metadata = {"up": MetricMetadata("up", "gauge", text, "s")}
        database.run(
            lambda connection, number=number, metadata=metadata: record_import(connection, record(number), [], metadata)
        )
    found = asyncio.run(catalog.metadata("default"))
    assert found == {"up": MetricMetadata("up", "gauge", "new", "s")}
    assert asyncio.run(catalog.metadata("other")) == {}
