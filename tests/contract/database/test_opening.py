"""A database by its URL, and what is said of one that cannot be."""

import sys
import traceback
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.opening import open_database, place_of
from quarterdeck.stores.database.options import DatabaseOptions
from tests.contract.database.places import make_counter, value


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_file_is_named_by_its_path_or_by_a_url_and_its_folder_is_made(tmp_path: Path, form: str) -> None:
    file = tmp_path / "new folder" / "a%20b.db"
    database = open_database(form.format(file), ())
    database.run(make_counter)
    database.close()
    assert file.is_file()
    assert str(file) == database.place


def test_a_relative_path_stays_what_it_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    database = open_database("sqlite:///here.db", ())
    monkeypatch.chdir("/")
    database.run(make_counter)
    database.close()
    assert (tmp_path / "here.db").is_file()


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:s3cret@host/name",
        "postgres://user:s3cret@host/name",
        "postgresql+asyncpg://user:s3cret@host/name",
        "postgresql://user:s3cret@host:port/name",
        "sqlite://s3cret.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///s3cret.db?mode=ro",
        "",
    ],
)
def test_anything_else_is_refused_with_what_is_possible_and_without_what_may_be_a_password(url: str) -> None:
    with pytest.raises(QuarterdeckError, match=r"sqlite:///path/to/file.db or postgresql://") as caught:
        open_database(url, ())
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "s3cret" not in "".join(traceback.format_exception(caught.value)).replace(repr(url), "")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@127.0.0.1:1/name",
        "postgresql://user@127.0.0.1:1/name?password=s3cret",
        "postgresql://127.0.0.1:1/name?user=user&password=s3cret&sslpassword=s3cret",
    ],
)
def test_a_password_is_neither_in_the_name_of_a_database_nor_in_an_error(url: str) -> None:
    database = open_database(url, (), DatabaseOptions(connect_timeout_s=2))
    with pytest.raises(QuarterdeckError, match=r"127.0.0.1:1/name cannot be reached") as caught:
        database.read(value)
    database.close()
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert caught.value.retryable
    told = "".join(traceback.format_exception(caught.value)) + repr(database) + database.place
    assert "s3cret" not in told.replace(url, "")


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(QuarterdeckError, match=r"install `quarterdeck\[postgres\]`"):
        open_database("postgresql://user@host/name", ())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuarterdeckError, match="file/inside/c") as caught:
        open_database(tmp_path / "file" / "inside" / "c.db", ())
    assert not caught.value.retryable


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="readers is 0: at least one is needed"):
        DatabaseOptions(readers=0)
    with pytest.raises(ValueError, match="attempts is 0: at least one is needed"):
        DatabaseOptions(attempts=0)


def test_a_server_that_is_not_there_matters_only_when_it_is_asked() -> None:
    open_database("postgresql://user@127.0.0.1:1/name", ()).close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@db.example:6543/lake?sslpassword=s3cret", "postgresql://db.example:6543/lake"),
        ("postgresql://me:s3cret@/lake?host=/run/pg", "postgresql:///run/pg:5432/lake"),
        ("postgresql:///lake?password=s3cret", "postgresql://localhost:5432/lake"),
        ("sqlite:////var/lake/catalog.db", "/var/lake/catalog.db"),
        ("/var/lake/catalog.db", "/var/lake/catalog.db"),
    ],
)
def test_a_place_is_told_without_what_opens_it(url: str, shown: str) -> None:
    assert place_of(url).shown == shown


@pytest.mark.parametrize("url", ["mysql://u:s3cret@h/d", "postgresql://u:s3cret@h:port/d", ""])
def test_the_place_of_what_is_no_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(QuarterdeckError) as caught:
        place_of(url)
    assert "s3cret" not in str(caught.value)
