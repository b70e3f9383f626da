"""A database on a Postgres server, through psycopg.

Transactions that write are SERIALIZABLE, so that they mean the same as in SQLite: as if one ran after the other. With a
lower level, two transactions that each look before they write could both find nothing, and only in a cluster. The price
is a retry if two touched the same rows. Transactions that read are REPEATABLE READ: one state, no waiting, and never a
retry.
"""

from typing import Final

from sqlalchemy import URL, Connection, QueuePool, create_engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.stores.database.backend import Backend, Verdict
from quarterdeck.stores.database.options import DatabaseOptions

_SCHEMA_LOCK: Final = 0x7175_6172_7465_7264
"""The number of the advisory lock for changes of the schema: any number that nobody else in the database uses."""
_VERDICTS: Final = {
    "40001": Verdict.LOST_RACE,  # serialization_failure
    "40P01": Verdict.LOST_RACE,  # deadlock_detected
    "55P03": Verdict.LOST_RACE,  # lock_not_available
    "25006": Verdict.READ_ONLY,  # read_only_sql_transaction
    "25P03": Verdict.UNREACHABLE,  # idle_in_transaction_session_timeout
    "3D000": Verdict.UNREACHABLE,  # invalid_catalog_name: there is no such database
    "58030": Verdict.DAMAGED,  # io_error
    "XX001": Verdict.DAMAGED,  # data_corrupted
    "XX002": Verdict.DAMAGED,  # index_corrupted
}
_VERDICTS_OF_CLASSES: Final = {
    "08": Verdict.UNREACHABLE,  # connection exceptions
    "28": Verdict.UNREACHABLE,  # invalid authorization
    "53": Verdict.FULL,  # insufficient resources
    "57P": Verdict.UNREACHABLE,  # the server ends, or is not up yet
}


def open_postgres(url: URL, options: DatabaseOptions) -> Backend:
    """Of what the query of the URL may say (`sslmode`, `host` of a socket…), all goes to libpq."""
    url = url.set(drivername="postgresql+psycopg")
    mine = {
        "application_name": "quarterdeck",
        "client_encoding": "utf8",
        "connect_timeout": options.connect_timeout_s,
        # A peer that went away without a word is noticed within half a minute.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 4,
        "tcp_user_timeout": 30_000,
        "options": f"-c lock_timeout={_ms(options.lock_timeout_s)} "
        f"-c idle_in_transaction_session_timeout={_ms(options.idle_transaction_max_s)}",
    }
    arguments = {name: value for name, value in mine.items() if name not in url.query}
    try:
        writer = create_engine(
            url,
            connect_args=arguments,
            isolation_level="SERIALIZABLE",
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            pool_timeout=options.pool_timeout_s,
            pool_pre_ping=True,
            hide_parameters=True,
        )
        reader = create_engine(
            url,
            connect_args=arguments,
            execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
            poolclass=QueuePool,
            pool_size=options.readers,
            max_overflow=0,
            pool_timeout=options.pool_timeout_s,
            pool_pre_ping=True,
            hide_parameters=True,
        )
    except ImportError as error:
        raise QuarterdeckError(
            ErrorCode.INVALID_ARGUMENT,
            "a Postgres database cannot be used",
            f"its driver is not installed ({error})",
            "install `quarterdeck[postgres]`, or use a SQLite file",
        ) from error
    # Who waited for the lock of the schema must see what the one before has done.
    upgrader = writer.execution_options(isolation_level="READ COMMITTED")
    return Backend(_place(url), writer, reader, upgrader, _judge, _lock_schema)


def _ms(duration_s: float) -> int:
    return round(duration_s * 1000)


def _place(url: URL) -> str:
    """The URL without password, and without its query, in which there may be one too."""
    socket_or_host = url.query.get("host")
    host = url.host or (socket_or_host if isinstance(socket_or_host, str) else "")
    return URL.create("postgresql", url.username, None, host or None, url.port, url.database).render_as_string()


def _judge(error: DBAPIError) -> Verdict:
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is None:
        # libpq gives no state when it could not connect, or when the connection broke.
        gone = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        return Verdict.UNREACHABLE if gone else Verdict.OTHER
    return _VERDICTS.get(state) or next(
        (verdict for start, verdict in _VERDICTS_OF_CLASSES.items() if state.startswith(start)), Verdict.OTHER
    )


def _lock_schema(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SCHEMA_LOCK})
