"""How a database is used: how many connections, and how long each thing may take."""

from dataclasses import dataclass
from typing import Final

from quarterdeck.core.backoff import Backoff


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    readers: int = 4
    """How many transactions may read at once. Too few makes them wait for each other; each one more is a connection,
    of which a Postgres has few."""

    connect_timeout_s: int = 5
    """How long a connection to Postgres may take to be made. Too low fails where the network is slow, too high keeps
    everybody waiting for a server that is down. libpq takes no less than 2."""

    lock_timeout_s: float = 5.0
    """How long a statement waits for what another transaction holds before that counts as a lost race. Too low gives
    up on transactions that are only slow, too high hides one that hangs."""

    idle_transaction_max_s: float = 60.0
    """After this long with nothing said inside a transaction, Postgres ends the connection: a process that was stopped
    must not hold its locks for ever."""

    pool_timeout_s: float = 30.0
    """How long to wait for a connection that other threads of this process use."""

    attempts: int = 10
    """How often a transaction is tried if it loses a race each time. Too low fails under contention; too high keeps its
    caller waiting: each attempt may take `lock_timeout_s`."""

    backoff: Backoff = Backoff(base_s=0.005, cap_s=0.5, jitter=0.5)
    """How long to wait before trying again."""

    def __post_init__(self) -> None:
        if self.readers < 1:
            raise ValueError(f"readers is {self.readers}: at least one is needed")
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}: at least one is needed")


DEFAULTS: Final = DatabaseOptions()
