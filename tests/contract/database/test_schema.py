"""Migrations: from nothing or from an older version to the newest, once, whoever else starts at the same moment."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database import sql
from quarterdeck.stores.database.schema import MIGRATIONS, NEWEST, VERSION_TABLE, schema_version
from quarterdeck.stores.database.tables import metadata
from tests.contract.database.places import Place

UPGRADE = """
import sys
from quarterdeck.stores.database.opening import open_database
import alembic.command
database = open_database(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
database.upgrade()
database.close()
"""


def test_an_empty_database_gets_all_tables_and_the_newest_version(place: Place) -> None:
    with place.opened() as database:
        assert database.read(schema_version) is None
        database.upgrade()
        assert database.read(schema_version) == NEWEST
        assert database.read(table_names) == {*metadata.tables, VERSION_TABLE}


def test_what_the_migrations_make_is_what_the_tables_say(place: Place) -> None:
    with place.opened() as database:
        database.upgrade()
        assert database.read(differences) == []
        migrated = database.read(described)

        def make_anew(connection: Connection) -> None:
            metadata.drop_all(connection)
            metadata.create_all(connection)

        database.run(make_anew)
        assert database.read(described) == migrated


def test_a_difference_between_migrations_and_tables_is_seen(place: Place) -> None:
    with place.opened() as database:
        database.upgrade()
        database.run(lambda connection: connection.execute(text("ALTER TABLE imports ADD COLUMN extra TEXT")))
        assert [difference[0] for difference in database.read(differences)] == ["remove_column"]


def test_the_newest_version_is_the_last_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [NEWEST]
    versions = sorted(revision.revision for revision in script.walk_revisions())
    assert versions == [f"{number:04}" for number in range(1, len(versions) + 1)]  # they are compared as text


def test_a_database_of_the_newest_version_is_left_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.opened() as database:
        database.upgrade()
        monkeypatch.setattr(sql, "bring_up_to_date", lambda connection: pytest.fail("it was changed"))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        database.upgrade()


def test_a_database_that_is_newer_than_the_program_is_refused(place: Place) -> None:
    with place.opened() as database:
        database.upgrade()
        newer = f"{int(NEWEST) + 1:04}"
        database.run(lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{newer}'")))
        with pytest.raises(
            QuarterdeckError, match=f"has version {newer}, and this program knows versions up to"
        ) as caught:
            database.upgrade()
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT
        assert database.read(schema_version) == newer


def test_an_upgrade_that_fails_leaves_nothing_and_may_be_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up_to_date = sql.bring_up_to_date

    def fail_at_the_end(connection: Connection) -> None:
        bring_up_to_date(connection)
        raise ZeroDivisionError

    with place.opened() as database:
        with monkeypatch.context() as patch:
            patch.setattr(sql, "bring_up_to_date", fail_at_the_end)
            with pytest.raises(ZeroDivisionError):
                database.upgrade()
        assert database.read(table_names) == set()
        database.upgrade()
        assert database.read(schema_version) == NEWEST


def test_processes_that_start_at_once_upgrade_it_once(place: Place) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADE, place.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait() for process in processes] == [0, 0]
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
    with place.opened() as database:
        assert database.read(schema_version) == NEWEST


def test_who_waited_for_another_upgrade_finds_nothing_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process finishes after this one has looked and before it has the lock."""
    with place.opened() as database, place.opened() as other:
        is_up_to_date = sql.is_up_to_date
        looks: list[bool] = []

        def look(connection: Connection, where: str) -> bool:
            looks.append(is_up_to_date(connection, where))
            return looks[-1]

        read = database.read

        def read_then_be_overtaken(transaction: Any) -> Any:
            found = read(transaction)
            with monkeypatch.context() as patch:
                patch.setattr(sql, "is_up_to_date", is_up_to_date)
                other.upgrade()
            return found

        monkeypatch.setattr(sql, "is_up_to_date", look)
        monkeypatch.setattr(database, "read", read_then_be_overtaken)
        database.upgrade()
        assert looks == [False, True]


def table_names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def differences(connection: Connection) -> list[tuple[Any, ...]]:
    # SQLite has no identity columns: what Alembic would compare there is nothing with something.
    defaults = connection.dialect.name != "sqlite"
    context = MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": defaults}
    )
    return compare_metadata(context, metadata)


def described(connection: Connection) -> Mapping[str, object]:
    """What Alembic does not compare too: collations, names of constraints, autoincrement."""
    found = inspect(connection)
    return {
        table: (
            [
                {**column, "type": repr(column["type"]), "collation": getattr(column["type"], "collation", None)}
                for column in found.get_columns(table)
            ],
            found.get_pk_constraint(table),
            found.get_foreign_keys(table),
            sorted(found.get_unique_constraints(table), key=repr),
            sorted(found.get_indexes(table), key=repr),
            found.get_table_options(table),
        )
        for table in metadata.tables
    }
