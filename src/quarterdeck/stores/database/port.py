"""The database as the rest of Quarterdeck sees it: functions that are called with a connection, inside a transaction.

A transaction function is plain and blocks. It executes SQLAlchemy Core statements and returns values of its own, not
results that are still read from the connection. It neither commits nor rolls back. After an error of the database the
transaction is over. To go on after an error, run the statement in a savepoint: `with connection.begin_nested()`.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from quarterdeck.core.ids import Fence

T = TypeVar("T")


class Database(Protocol):
    """One database, used from one event loop."""

    async def run(self, transaction: Callable[[Connection], T]) -> T:
        """Calls it in a transaction that may write, as if no other ran at the same time: committed when it returns,
        rolled back when it raises.

        It is called again, on a new connection state, when the database says that it lost a race with another
        transaction. So it must have no effect but on the database. Whoever stops waiting does not stop it: it is
        committed as a whole or not at all, and which of the two is not known then.
        """
        ...

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        """Calls it in a transaction that cannot write and never waits for one that does. It sees everything that was
        committed before it began, and nothing that is committed while it runs. It may be called again, too."""
        ...

    async def fenced(self, fence: Fence, transaction: Callable[[Connection], T]) -> T:
        """As `run`, in a database with the schema of fences. The transaction also stores the fence, and raises
        `DeposedError` without a change if the database has seen a higher one."""
        ...

    async def upgrade(self) -> None:
        """Brings an empty or older database to the newest schema. Any number of processes may do so at once."""
        ...

    async def close(self) -> None:
        """Takes nothing new, waits a limited time for what was asked for, and lets go of all connections."""
        ...
