"""A database in a file, with SQLite: one writer at a time, readers beside it, any number of processes on one machine.

The write-ahead log lets readers see the state before a running write. `synchronous=FULL` waits for the disk at each
commit. With NORMAL, a power loss could undo a commit that was reported, and with it the only trace of imported files.
The price is one fsync for each transaction, in the writer's thread. A transaction that may write takes the lock at its
beginning (`BEGIN IMMEDIATE`): taken later, the lock could make it fail half-way because another was faster.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.backend import Backend, Verdict
from quarterdeck.stores.database.options import DatabaseOptions

_PRAGMAS: Final = ("foreign_keys=ON", "synchronous=FULL", "fullfsync=ON")
"""`fullfsync` matters on macOS, where an fsync leaves data in the drive's memory."""
_VERDICTS: Final = {
    sqlite3.SQLITE_BUSY: Verdict.LOST_RACE,
    sqlite3.SQLITE_LOCKED: Verdict.LOST_RACE,
    sqlite3.SQLITE_PROTOCOL: Verdict.LOST_RACE,  # others were always faster in opening the log
    sqlite3.SQLITE_CANTOPEN: Verdict.UNREACHABLE,
    sqlite3.SQLITE_PERM: Verdict.UNREACHABLE,
    sqlite3.SQLITE_FULL: Verdict.FULL,
    sqlite3.SQLITE_NOMEM: Verdict.FULL,
    sqlite3.SQLITE_READONLY: Verdict.READ_ONLY,
    sqlite3.SQLITE_CORRUPT: Verdict.DAMAGED,
    sqlite3.SQLITE_NOTADB: Verdict.DAMAGED,
    sqlite3.SQLITE_IOERR: Verdict.DAMAGED,
    sqlite3.SQLITE_IOERR_SHMSIZE: Verdict.FULL,  # the index of the log could not grow
}


def open_sqlite(path: Path, options: DatabaseOptions) -> Backend:
    """Makes the folder of the file; the file itself is made when it is first used."""
    path = path.expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise QuarterdeckError(
            ErrorCode.UNAVAILABLE,
            f"the folder of the database {path} cannot be made",
            error.strerror or str(error),
            "choose another place, or make this one writable",
            retryable=False,
        ) from None
    writer = _engine(path, options, connections=1, begin="BEGIN IMMEDIATE", query_only=False)
    reader = _engine(path, options, connections=options.readers, begin="BEGIN", query_only=True)
    return Backend(str(path), writer, reader, writer, _judge, lock_schema=_locked_already)


def _engine(path: Path, options: DatabaseOptions, *, connections: int, begin: str, query_only: bool) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # Without an isolation level the driver begins nothing by itself.
        connect_args={"isolation_level": None, "timeout": options.lock_timeout_s, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=options.pool_timeout_s,
        hide_parameters=True,
    )
    event.listen(engine, "connect", _preparation(path, query_only))
    event.listen(engine, "begin", _beginning(begin))
    return engine


def _preparation(path: Path, query_only: bool) -> Callable[[Any, object], None]:
    def prepare(connection: sqlite3.Connection, record: object) -> None:
        del record
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise QuarterdeckError(
                ErrorCode.UNAVAILABLE,
                f"the database {path} cannot be used",
                f"it has no write-ahead log there (its journal is {mode!r}), so readers would wait for writers",
                "put it on a local file system",
                retryable=False,
            )
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if query_only:
            connection.execute("PRAGMA query_only=ON")

    return prepare


def _beginning(statement: str) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin


def _judge(error: DBAPIError) -> Verdict:
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is None:  # the driver itself objects: a wrong use of it
        return Verdict.OTHER
    # The low byte is the kind of error, the rest says more about it.
    return _VERDICTS.get(code) or _VERDICTS.get(code & 0xFF, Verdict.OTHER)


def _locked_already(connection: Connection) -> None:
    """`BEGIN IMMEDIATE` keeps all other writers out, whatever they write."""
    del connection
