"""The simulated database: real tables and real transactions in memory, and answers that may be late or lost.

Each transaction runs in place, on the loop. Before and after it time passes, so a process may die, or be paused, before
it began or when it is committed already. What is ever committed about a thing is kept by triggers, beside the code
that is tried.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Connection, Engine, StaticPool, create_engine, event

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.core.ids import Fence
from quarterdeck.crew.declared.tables import DECLARED_SCHEMA
from quarterdeck.stores.database.backend import Backend, Verdict
from quarterdeck.stores.database.fences.checked import under_fence
from quarterdeck.stores.database.fences.tables import FENCES_SCHEMA
from quarterdeck.stores.database.leadership.tables import LEADERSHIP_SCHEMA
from quarterdeck.stores.database.sql import SqlDatabase

if TYPE_CHECKING:
    from quarterdeck.simulation.declared.world import DeclaredWorld

T = TypeVar("T")

_LATENCY_S: Final = (0.0005, 0.01)
_HISTORY: Final = """
CREATE TABLE history (number INTEGER PRIMARY KEY, thing_id, generation, worker_id, state, fence, pinned_to);
CREATE TRIGGER declared AFTER INSERT ON declared_things BEGIN
  INSERT INTO history (thing_id, generation, worker_id, state, fence, pinned_to)
  VALUES (NEW.thing_id, NEW.generation, NEW.worker_id, NEW.state, NEW.fence, NEW.pinned_to); END;
CREATE TRIGGER changed AFTER UPDATE ON declared_things BEGIN
  INSERT INTO history (thing_id, generation, worker_id, state, fence, pinned_to)
  VALUES (NEW.thing_id, NEW.generation, NEW.worker_id, NEW.state, NEW.fence, NEW.pinned_to); END;
CREATE TRIGGER gone AFTER DELETE ON declared_things BEGIN
  INSERT INTO history (thing_id, generation, worker_id, state, fence, pinned_to)
  VALUES (OLD.thing_id, OLD.generation, OLD.worker_id, 'gone', OLD.fence, OLD.pinned_to); END;
"""


@dataclass(frozen=True, slots=True)
class Past:
    """A thing as it was once committed."""

    thing_id: str
    generation: int
    worker_id: str | None
    state: str
    fence: int
    pinned_to: str | None


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _engine_on(connection: sqlite3.Connection) -> Engine:
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _database_on(engine: Engine) -> SqlDatabase:
    backend = Backend("in memory", engine, engine, engine, lambda _: Verdict.OTHER, lambda _: None)
    return SqlDatabase(backend, [DECLARED_SCHEMA, FENCES_SCHEMA, LEADERSHIP_SCHEMA])


@cache
def _empty() -> bytes:
    """A database with its schema, as the migrations make it: they take longer than a whole play."""
    connection = _memory()
    _database_on(_engine_on(connection)).upgrade()
    connection.executescript(_HISTORY)
    return connection.serialize()


class Disk:
    """What all coordinators share."""

    def __init__(self) -> None:
        self._connection: Final = _memory()
        self._connection.deserialize(_empty())
        self.database: Final = _database_on(_engine_on(self._connection))
        self._seen = 0

    def ask(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        """For whoever watches."""
        return self._connection.execute(statement, values).fetchall()

    def news(self) -> list[Past]:
        """What was committed since it was asked last."""
        rows = self.ask("SELECT * FROM history WHERE number > ? ORDER BY number", self._seen)
        if rows:
            self._seen = rows[-1][0]
        return [Past(*row[1:]) for row in rows]

    def release(self) -> None:
        """Whoever looks next may lead: as when the lease of the leader is over."""
        self._connection.execute("UPDATE leaders SET holder = NULL, beat = beat + 1")

    @property
    def fence(self) -> int:
        """The highest that was seen."""
        return self.ask("SELECT highest FROM fences")[0][0]

    def close(self) -> None:
        self._connection.close()


class SimulatedDatabase:
    """`stores.database.port.Database`, as each coordinator has it."""

    def __init__(self, world: "DeclaredWorld") -> None:
        self._world: Final = world

    async def run(self, transaction: Callable[[Connection], T]) -> T:
        return await self._do(lambda: self._world.disk.database.run(transaction))

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        return await self._do(lambda: self._world.disk.database.read(transaction))

    async def fenced(self, fence: Fence, transaction: Callable[[Connection], T]) -> T:
        return await self.run(under_fence(fence, transaction))

    async def upgrade(self) -> None:
        """It has its schema."""

    async def close(self) -> None:
        """It outlives the process."""

    async def _do(self, work: Callable[[], T]) -> T:
        await self._pass_time()
        result = work()
        self._world.watcher.committed(self._world.disk.news(), self._world.disk.fence)
        await self._pass_time()
        return result

    async def _pass_time(self) -> None:
        low, high = _LATENCY_S
        await asyncio.sleep(low + (high - low) * self._world.chance.random())


def failure() -> QuarterdeckError:
    return QuarterdeckError(ErrorCode.UNAVAILABLE, "nothing is known", "the database went away", "ask again")
