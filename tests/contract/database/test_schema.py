"""Schemas: from nothing or from an older version to the newest, once, whoever else starts at the same moment, and each
owner's by itself."""

import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, Inspector, event, insert, inspect, select, text

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.crew.declared.tables import DECLARED_SCHEMA
from quarterdeck.metrics.tables import METRICS_SCHEMA
from quarterdeck.stores.database import schema as module
from quarterdeck.stores.database import sql
from quarterdeck.stores.database.columns import new_metadata
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.leadership.tables import LEADERSHIP_SCHEMA
from quarterdeck.stores.database.schema import Schema, schema_version
from tests.contract.database.places import Place
from tests.contract.database.toys import EARLIER_FRUIT, FRUIT, TOOLS, fruits, tools

BOTH: Final = (FRUIT, TOOLS)
ALL: Final = (*BOTH, METRICS_SCHEMA, FENCES_SCHEMA, LEADERSHIP_SCHEMA, DECLARED_SCHEMA)
"""A schema that comes in is added here: its migrations are compared with its tables."""

UPGRADE = """
import sys
from quarterdeck.stores.database.opening import open_database
from tests.contract.database.toys import FRUIT, TOOLS
import alembic.command
database = open_database(sys.argv[1], [FRUIT, TOOLS])
print("ready", flush=True)
sys.stdin.read()
database.upgrade()
database.close()
"""

each_schema = pytest.mark.parametrize("schema", ALL, ids=lambda schema: schema.owner)


def versions(connection: Connection) -> dict[str, str | None]:
    return {each.owner: schema_version(connection, each) for each in BOTH}


NEWEST: Final = {each.owner: each.newest for each in BOTH}


def test_an_empty_database_gets_all_tables_and_the_newest_versions(place: Place) -> None:
    with place.opened(schemas=BOTH) as database:
        assert database.read(versions) == {"fruit": None, "tools": None}
        database.upgrade()
        assert database.read(versions) == NEWEST
        assert database.read(table_names) == {"fruits", "tools", "uses", "fruit_schema", "tools_schema"}


def test_a_database_that_needs_no_schema_is_left_empty(place: Place) -> None:
    with place.opened() as database:
        database.upgrade()
        assert database.read(table_names) == set()


def test_an_older_schema_is_brought_to_the_newest_and_keeps_its_rows(place: Place) -> None:
    with place.opened(schemas=[EARLIER_FRUIT]) as database:
        database.upgrade()
        database.run(lambda connection: connection.execute(text("INSERT INTO fruits (name) VALUES ('pear')")))
    with place.opened(schemas=[FRUIT]) as database:
        database.upgrade()
        assert database.read(lambda c: c.execute(select(fruits.c.name, fruits.c.colour)).all()) == [("pear", None)]
        assert database.read(versions)["fruit"] == "0002"


def test_a_schema_that_comes_later_joins_and_disturbs_nobody(place: Place) -> None:
    with place.opened(schemas=[TOOLS]) as database:
        database.upgrade()
        database.run(lambda connection: connection.execute(insert(tools).values(tool="saw")))
    with place.opened(schemas=BOTH) as database:
        database.upgrade()
        assert database.read(versions) == NEWEST
        assert database.read(lambda connection: connection.execute(select(tools.c.tool)).scalars().all()) == ["saw"]


def test_a_schema_of_another_owner_is_left_alone_however_new_it_is(place: Place) -> None:
    with place.opened(schemas=[TOOLS]) as database:
        database.upgrade()
        database.run(lambda connection: connection.execute(text("UPDATE tools_schema SET version_num = '0099'")))
    with place.opened(schemas=[FRUIT]) as database:
        database.upgrade()
        assert database.read(versions) == {"fruit": FRUIT.newest, "tools": "0099"}


def test_two_that_have_a_name_or_a_table_in_common_are_refused(place: Place) -> None:
    other = replace(TOOLS, owner="others", metadata=new_metadata(), version_table="others_schema")
    for clash, what in [
        (replace(other, owner="fruit"), "owner fruit"),
        (replace(other, version_table="fruit_schema"), "table fruit_schema"),
        (replace(other, metadata=FRUIT.metadata), "table fruits"),
    ]:
        with pytest.raises(ValueError, match=f"the schemas of fruit and of .* both have the {what}"):
            place.opened(schemas=[FRUIT, clash]).__enter__()


@pytest.mark.parametrize("name", ["", "a b", "x'; DROP TABLE fruits; --"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    for change in ({"owner": name}, {"version_table": name}):
        with pytest.raises(ValueError, match="must be a plain name"):
            replace(FRUIT, **change)


@each_schema
def test_what_the_migrations_make_is_what_the_tables_say(place: Place, schema: Schema) -> None:
    with place.opened(schemas=[schema]) as database:
        database.upgrade()
        assert database.read(table_names) == {*schema.metadata.tables, schema.version_table}
        assert database.read(differences(schema)) == []
        migrated = database.read(described(schema))

        def make_anew(connection: Connection) -> None:
            schema.metadata.drop_all(connection)
            schema.metadata.create_all(connection)

        database.run(make_anew)
        assert database.read(described(schema)) == migrated


def test_a_difference_between_migrations_and_tables_is_seen(place: Place) -> None:
    with place.opened(schemas=[FRUIT]) as database:
        database.upgrade()
        database.run(lambda connection: connection.execute(text("ALTER TABLE fruits ADD COLUMN extra TEXT")))
        assert [difference[0] for difference in database.read(differences(FRUIT))] == ["remove_column"]


@each_schema
def test_the_newest_version_is_the_last_migration(schema: Schema) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(module.__file__).parent / "migrating"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", str(schema.migrations))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [schema.newest]
    found = sorted(revision.revision for revision in script.walk_revisions())
    assert found == [f"{number:04}" for number in range(1, len(found) + 1)]  # they are compared as text


def test_a_database_of_the_newest_versions_is_left_alone_after_one_query(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(connection: Connection, schema: Schema) -> None:
        pytest.fail(f"{schema.owner} was changed")

    with place.opened(schemas=BOTH) as database:
        database.upgrade()
    monkeypatch.setattr(sql, "bring_up_to_date", change)
    with place.opened(schemas=BOTH) as database:
        database.read(lambda _: None)  # what making a connection takes
        with statements() as seen:
            database.upgrade()
        assert [each for each in seen if not each.startswith("BEGIN")] == [
            "SELECT 'fruit', version_num FROM fruit_schema UNION ALL SELECT 'tools', version_num FROM tools_schema"
        ]


def test_a_start_that_finds_the_newest_versions_imports_no_alembic(sqlite_place: Place) -> None:
    with sqlite_place.opened(schemas=BOTH) as database:
        database.upgrade()
    program = UPGRADE.replace("import alembic.command\n", "") + "assert 'alembic' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program, sqlite_place.url], input=b"", check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("schemas", [[EARLIER_FRUIT], [TOOLS, EARLIER_FRUIT]], ids=["alone", "beside one to be made"])
def test_a_schema_that_is_newer_than_the_program_is_refused_by_its_owners_name(
    place: Place, schemas: Sequence[Schema]
) -> None:
    with place.opened(schemas=[FRUIT]) as database:
        database.upgrade()
    with place.opened(schemas=schemas) as database:
        with pytest.raises(
            QuarterdeckError, match="its schema of fruit has version 0002, and this program knows versions up to 0001"
        ) as caught:
            database.upgrade()
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT
        assert database.read(versions) == {"fruit": "0002", "tools": None}


def test_an_upgrade_that_fails_leaves_nothing_of_any_owner_and_may_be_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up_to_date = sql.bring_up_to_date

    def fail_at_the_end(connection: Connection, schema: Schema) -> None:
        bring_up_to_date(connection, schema)
        if schema is BOTH[-1]:
            raise ZeroDivisionError

    with place.opened(schemas=BOTH) as database:
        with monkeypatch.context() as patch:
            patch.setattr(sql, "bring_up_to_date", fail_at_the_end)
            with pytest.raises(ZeroDivisionError):
                database.upgrade()
        assert database.read(table_names) == set()
        database.upgrade()
        assert database.read(versions) == NEWEST


def test_migrations_may_be_in_a_folder_whose_name_has_anything_in_it(sqlite_place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "a folder: 100%, and (more)"
    folder.mkdir()
    for file in FRUIT.migrations.glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    with sqlite_place.opened(schemas=[replace(FRUIT, migrations=folder)]) as database:
        database.upgrade()
        assert database.read(versions)["fruit"] == FRUIT.newest


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
        assert database.read(versions) == NEWEST


def test_who_waited_for_another_upgrade_finds_nothing_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process finishes after this one has looked and before it has the lock."""
    changed: list[Schema] = []
    bring_up_to_date = sql.bring_up_to_date

    def change(connection: Connection, schema: Schema) -> None:
        changed.append(schema)
        bring_up_to_date(connection, schema)

    with place.opened(schemas=BOTH) as database, place.opened(schemas=BOTH) as other:
        read = database.read

        def read_then_be_overtaken(transaction: Any) -> Any:
            try:
                return read(transaction)
            finally:
                other.upgrade()
                monkeypatch.setattr(sql, "bring_up_to_date", change)

        monkeypatch.setattr(database, "read", read_then_be_overtaken)
        database.upgrade()
        assert changed == []


@contextmanager
def statements() -> Generator[list[str]]:
    """All that is executed, by whatever connection."""
    seen: list[str] = []

    def see(connection: Connection, cursor: object, statement: str, *others: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", see)


def table_names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def differences(schema: Schema) -> Callable[[Connection], list[tuple[Any, ...]]]:
    def compare(connection: Connection) -> list[tuple[Any, ...]]:
        # SQLite has no identity columns: what Alembic would compare there is nothing with something.
        defaults = connection.dialect.name != "sqlite"
        options = {"version_table": schema.version_table, "compare_type": True, "compare_server_default": defaults}
        return compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata)

    return compare


def described(schema: Schema) -> Callable[[Connection], Mapping[str, object]]:
    """What Alembic does not compare too: collations, names of constraints, autoincrement."""

    def describe(connection: Connection) -> Mapping[str, object]:
        found = inspect(connection)
        return {table: described_table(found, table) for table in schema.metadata.tables}

    return describe


def described_table(found: Inspector, table: str) -> object:
    return (
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
