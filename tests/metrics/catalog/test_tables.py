"""The tables of the catalog, as those who write and read it rely on them."""

from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from quarterdeck.metrics.tables import METRICS_SCHEMA, catalog_versions, imports, metric_metadata, segments
from quarterdeck.stores.database.inserts import insert_into
from tests.contract.database.places import Place

LARGE = 2**62


@pytest.fixture
def catalog(place: Place) -> Place:
    with place.opened(schemas=[METRICS_SCHEMA]) as database:
        database.upgrade()
        database.run(lambda connection: add_import(connection, "i1", "f1"))
    return place


def add_import(connection: Connection, import_id: str, fingerprint: str) -> None:
    connection.execute(
        insert(imports).values(
            import_id=import_id,
            tenant="default",
            source="somewhere",
            fingerprint=fingerprint,
            sample_count=LARGE,
            series_count=LARGE,
            imported_at_ms=LARGE,
        )
    )


def segment(url: str, **other: Any) -> dict[str, Any]:
    numbers = dict.fromkeys(("min_ts_ms", "max_ts_ms", "row_count", "series_count", "size_bytes"), LARGE)
    return {
        "import_id": "i1",
        "tenant": "default",
        "shard": 0,
        "shard_count": 1,
        "url": url,
        "version": "v",
        **numbers,
        "checksum": "c",
        "label_index": b"\x00\xff",
        **other,
    }


def add_segment(connection: Connection, url: str, **other: Any) -> int:
    key = connection.execute(insert(segments).values(segment(url, **other))).inserted_primary_key
    assert key is not None
    return key[0]


def test_a_later_segment_has_a_larger_id_also_when_the_last_one_was_deleted(catalog: Place) -> None:
    with catalog.opened() as database:
        first = database.run(lambda connection: add_segment(connection, "a"))
        database.run(lambda connection: connection.execute(delete(segments)))
        assert database.run(lambda connection: add_segment(connection, "b")) > first


def test_many_segments_are_inserted_at_once_and_come_back_as_they_were(catalog: Place) -> None:
    with catalog.opened() as database:
        rows = [segment(f"s{number}") for number in range(500)]
        database.run(lambda connection: connection.execute(insert(segments), rows))
        statement = select(*(column for column in segments.c if column.name != "segment_id")).order_by("segment_id")
        assert [dict(row) for row in database.read(lambda c: c.execute(statement).mappings().all())] == rows


def test_the_segments_of_an_import_go_with_it(catalog: Place) -> None:
    with catalog.opened() as database:
        database.run(lambda connection: add_segment(connection, "a"))
        database.run(lambda connection: connection.execute(delete(imports)))
        assert database.read(lambda c: c.execute(select(func.count()).select_from(segments)).scalar_one()) == 0


def test_a_segment_needs_its_import(catalog: Place) -> None:
    with catalog.opened() as database, pytest.raises(IntegrityError):
        database.run(lambda connection: add_segment(connection, "a", import_id="unknown"))


def test_nothing_is_imported_twice_and_no_object_is_named_twice(catalog: Place) -> None:
    with catalog.opened() as database:
        with pytest.raises(IntegrityError):
            database.run(lambda connection: add_import(connection, "i2", "f1"))
        database.run(lambda connection: add_segment(connection, "a"))
        with pytest.raises(IntegrityError):
            database.run(lambda connection: add_segment(connection, "a"))


def test_text_is_ordered_by_its_bytes(catalog: Place) -> None:
    names = ["a", "B", "_", "ä", "b", "A", "Z", "😀", "\uffff"]
    with catalog.opened() as database:
        rows = [{"tenant": "t", "metric": name, "type": "", "help": "", "unit": ""} for name in names]
        database.run(lambda connection: connection.execute(insert(metric_metadata), rows))
        statement = select(metric_metadata.c.metric).order_by(metric_metadata.c.metric)
        found = database.read(lambda connection: connection.execute(statement).scalars().all())
    assert found == sorted(names, key=str.encode)


def test_an_insert_may_say_what_becomes_of_a_row_that_is_there(catalog: Place) -> None:
    def bump(connection: Connection) -> int:
        statement = insert_into(connection, catalog_versions).values(tenant="t", version=1)
        counted = statement.on_conflict_do_update(
            index_elements=["tenant"], set_={"version": catalog_versions.c.version + 1}
        )
        return connection.execute(counted.returning(catalog_versions.c.version)).scalar_one()

    def describe(connection: Connection) -> None:
        statement = insert_into(connection, metric_metadata)
        replacing = statement.on_conflict_do_update(
            index_elements=["tenant", "metric"], set_={"help": statement.excluded.help}
        )
        rows = [{"tenant": "t", "metric": m, "type": "", "help": h, "unit": ""} for m, h in (("m", "1"), ("n", "2"))]
        connection.execute(replacing, rows)
        connection.execute(replacing, [{**rows[0], "help": "3"}])

    with catalog.opened() as database:
        assert [database.run(bump), database.run(bump), database.run(bump)] == [1, 2, 3]
        database.run(describe)
        statement = select(metric_metadata.c.help).order_by(metric_metadata.c.metric)
        assert database.read(lambda connection: connection.execute(statement).scalars().all()) == ["3", "2"]
