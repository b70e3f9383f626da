"""A database that blocks: for programs without an event loop, and the base of `threaded` and `inline`.

Several threads may use it. Those that write wait for each other here, before they would wait in the database.
"""

import random
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from quarterdeck.stores.database.backend import Backend, Verdict
from quarterdeck.stores.database.failures import DatabaseClosedError, always_late, none_free, translated
from quarterdeck.stores.database.options import DEFAULTS, DatabaseOptions
from quarterdeck.stores.database.schema import (
    Schema,
    bring_up_to_date,
    check_apart,
    is_newest,
    schema_version,
    versions_at_once,
)

T = TypeVar("T")


class SqlDatabase:
    """Transactions with retries, and errors that say what happened. `port.Database` says what each method promises."""

    def __init__(
        self,
        backend: Backend,
        schemas: Sequence[Schema],
        options: DatabaseOptions = DEFAULTS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        check_apart(schemas)
        self.place: Final = backend.place
        self.readers: Final = options.readers
        self._backend: Final = backend
        self._schemas: Final = tuple(schemas)
        self._options: Final = options
        self._chance: Final = chance
        self._lock: Final = threading.Lock()
        self._closed: Final = threading.Event()
        self._under_way = 0

    def __repr__(self) -> str:
        return f"SqlDatabase({self.place})"

    def run(self, transaction: Callable[[Connection], T]) -> T:
        return self._tried(self._backend.writer, transaction)

    def read(self, transaction: Callable[[Connection], T]) -> T:
        return self._tried(self._backend.reader, transaction)

    def upgrade(self) -> None:
        """All of the schemas, or none when one of them fails."""
        if self._all_are_newest():
            return

        def change(connection: Connection) -> None:
            self._backend.lock_schema(connection)
            for schema in self._schemas:
                if not is_newest(schema, schema_version(connection, schema), self.place):
                    bring_up_to_date(connection, schema)

        self._tried(self._backend.upgrader, change)

    def close(self) -> None:
        """Takes nothing new and ends what waits to be tried again. Connections are closed now, or by the last
        transaction that is under way when it ends."""
        with self._lock:
            self._closed.set()
            in_use = self._under_way > 0
        if not in_use:
            self._disconnect()

    def _all_are_newest(self) -> bool:
        """Most starts end here, with one query for all schemas."""
        if not self._schemas:
            return True
        try:
            found = self.read(lambda connection: versions_at_once(connection, self._schemas))
        except DBAPIError:  # a table is missing; any other error will come again at the closer look
            return False
        return all(is_newest(schema, found.get(schema.owner), self.place) for schema in self._schemas)

    def _tried(self, engine: Engine, transaction: Callable[[Connection], T]) -> T:
        with self._in_use():
            attempt = 0
            while not self._closed.is_set():
                attempt += 1
                try:
                    return self._once(engine, transaction)
                except _LostRace as lost:
                    if attempt == self._options.attempts:
                        raise always_late(self.place, attempt, lost.error) from lost.error
                self._closed.wait(self._options.backoff.delay_s(attempt, self._chance()))
            raise DatabaseClosedError(self.place)

    @contextmanager
    def _in_use(self) -> Generator[None]:
        with self._lock:
            if self._closed.is_set():
                raise DatabaseClosedError(self.place)
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                is_last = self._closed.is_set() and self._under_way == 0
            if is_last:
                self._disconnect()

    def _disconnect(self) -> None:
        self._backend.reader.dispose()
        self._backend.writer.dispose()

    def _once(self, engine: Engine, transaction: Callable[[Connection], T]) -> T:
        committing = False
        try:
            with engine.connect() as connection, connection.begin():
                result = transaction(connection)
                committing = True
            return result  # noqa: TRY300 - leaving the block is what commits
        except PoolTimeoutError as error:
            raise none_free(self.place, self._options.pool_timeout_s) from error
        except DBAPIError as error:
            verdict = self._backend.judge(error)
            if verdict is Verdict.LOST_RACE:
                raise _LostRace(error) from error
            reading = engine is self._backend.reader
            ours = translated(error, verdict, self.place, reading=reading, committing=committing)
            if ours is None:
                raise
            raise ours from error


class _LostRace(Exception):
    def __init__(self, error: DBAPIError) -> None:
        super().__init__(error)
        self.error: Final = error
