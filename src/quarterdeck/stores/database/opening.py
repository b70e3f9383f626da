"""Opens a database by its URL: a file is SQLite, `postgresql://` is Postgres, and nothing else is possible.

The URL may hold a password, so no error repeats it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.backend import Backend
from quarterdeck.stores.database.options import DEFAULTS, DatabaseOptions
from quarterdeck.stores.database.postgres import open_postgres
from quarterdeck.stores.database.schema import Schema
from quarterdeck.stores.database.sql import SqlDatabase
from quarterdeck.stores.database.sqlite import open_sqlite


def open_database(
    url: str | Path,
    schemas: Sequence[Schema],
    options: DatabaseOptions = DEFAULTS,
    chance: Callable[[], float] = random.random,
) -> SqlDatabase:
    """`sqlite:///relative.db`, `sqlite:////absolute.db`, the path of a file, or `postgresql://user:password@host/name`.
    Nothing is connected yet. `schemas` are what it has to have, which `upgrade` sees to. `chance` spreads out those who
    try again."""
    return SqlDatabase(_opened(url, options), schemas, options, chance)


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a database is, for everybody to read: without user and password."""

    file: Path | None
    """Of SQLite, absolute; None of a server."""
    server: str = ""

    @property
    def shown(self) -> str:
        return self.server if self.file is None else str(self.file)


def place_of(url: str) -> DatabasePlace:
    """Of a URL as `open_database` takes it.

    >>> place_of("postgresql://me:secret@db.example/lake?password=secret").shown
    'postgresql://db.example:5432/lake'
    """
    backend = url if "://" in url else f"sqlite:///{url}"
    if backend.startswith("sqlite:///"):
        return DatabasePlace(_file(backend.removeprefix("sqlite:///")).absolute())
    if not backend.startswith("postgresql://"):
        raise _refused(f"{backend.partition('://')[0]}://…", "there is no such kind of database here")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise _refused("postgresql://…", "it cannot be taken apart") from None
    named = parsed.query.get("host", "")
    host = parsed.host or (named if isinstance(named, str) else ",".join(named)) or "localhost"
    return DatabasePlace(None, f"postgresql://{host}:{parsed.port or 5432}/{parsed.database or ''}")


def _opened(url: str | Path, options: DatabaseOptions) -> Backend:
    if isinstance(url, Path):
        return open_sqlite(url, options)
    scheme, separator, rest = url.partition("://")
    match scheme if separator else "":
        case "":
            return open_sqlite(_file(url), options)
        case "sqlite":
            if not rest.startswith("/"):
                raise _refused("sqlite://…", "a third slash is missing, after which the path begins")
            return open_sqlite(_file(rest[1:]), options)
        case "postgresql":
            try:
                parsed = make_url(url)
            except (ArgumentError, ValueError):
                raise _refused("postgresql://…", "it cannot be taken apart") from None
            return open_postgres(parsed, options)
        case _:
            raise _refused(f"{scheme}://…", "there is no such kind of database here")


def _file(path: str) -> Path:
    if not path or path.startswith(":memory:"):
        raise _refused(repr(path), "a database needs a file, which all its connections share")
    if "?" in path:
        raise _refused("a path with `?`", "SQLite takes no options in its URL")
    return Path(path)


def _refused(shown: str, why: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        f"{shown} is not the URL of a database",
        why,
        "use the path of a file, sqlite:///path/to/file.db or postgresql://user:password@host/name, where a password "
        "has its special characters percent-encoded",
    )
