"""The memory that everything which runs in a process shares: who has how much, and who goes when it is not enough.

Whatever may take much opens an account, says what it is about to take, and closes the account when it has ended. While
all of it fits, that is all. Beyond the limit whoever has the most goes, by name, so that small ones go on: if that is
who asks, it is refused, else it is told to end. What was told to end counts no longer, since it is about to be free.

Accounts are estimates. What the process really takes is watched by `memory_watch`, which says when it is short: then
nobody may become heavy, and the largest goes when that is not enough.

Any thread may use it. It knows no query and no clock.
"""

import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)

FREE_BYTES: Final = 1 << 20
"""What every account has from the start, and the least that is added to one: what is small asks nobody."""
HEAVY_BYTES: Final = 64 << 20
"""An account beyond this is heavy: while memory is short none becomes so, and ending a lesser one helps nobody."""
_SHOWN: Final = 80
"""So many characters of a query are told."""


class MemoryShortError(QuarterdeckError):
    """Something was refused or ended because the process has no memory for it."""

    def __init__(self, who: str, why: str, setting: str) -> None:
        super().__init__(
            ErrorCode.RESOURCE_EXHAUSTED,
            f"{who} was ended",
            why,
            f"ask for fewer series, a shorter range or a longer step, ask when less runs, or raise {setting}",
            retryable=False,
        )
        self.args = (who, why, setting)


class Account:
    """What one part of one query has taken. Use it from one thread at a time; anybody may end it."""

    __slots__ = ("_budget", "_end", "bytes", "ended", "is_open", "owner", "what")

    def __init__(self, budget: "MemoryBudget", owner: str, what: str, end: Callable[[MemoryShortError], None]) -> None:
        self._budget: Final = budget
        self.owner: Final = owner
        """Whose it is: the accounts of one owner are counted together, and end together."""
        self.what: Final = what
        self._end: Callable[[MemoryShortError], None] = end
        self.bytes: int = FREE_BYTES
        """What it may take without asking."""
        self.ended: MemoryShortError | None = None
        """Why it is to end; set before anybody is told."""
        self.is_open: bool = True

    @property
    def name(self) -> str:
        """For errors and logs."""
        return f"{self.owner} ({self.what})"

    def draw(self, total_bytes: int) -> int:
        """Ask for this much altogether; what is granted is at least that. Raises `MemoryShortError`."""
        return self._budget.draw(self, total_bytes)

    def give_back(self, total_bytes: int) -> int:
        """Need no more than this from now on; what is still granted."""
        return self._budget.give_back(self, total_bytes)

    def close(self) -> None:
        """It has ended, and what it took is free; again is fine. Whoever would have been told is let go of."""
        self._budget.close(self)
        self._end = _nobody

    def __enter__(self) -> "Account":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self) -> None:
        """Tell whoever runs that it is to end."""
        assert self.ended is not None
        self._end(self.ended)


class MemoryBudget:
    """One for a process."""

    def __init__(self, limit_bytes: int = sys.maxsize, setting: str = "memory_bytes") -> None:
        """`setting` is what a person would raise."""
        self.limit_bytes: int = limit_bytes
        self.setting: Final = setting
        self.is_short: bool = False
        """Whether the process really takes nearly as much as it may; `memory_watch` knows."""
        self.used_bytes: int = 0
        """Of accounts that were not told to end."""
        self.ended: int = 0
        """How many owners were refused or told to end so far."""
        self._lock: Final = threading.Lock()
        self._accounts: Final[dict[Account, None]] = {}

    def open(self, owner: str, what: str, end: Callable[[MemoryShortError], None]) -> Account:
        """A new account. `end` is called from any thread, once, when it is to end; it must be quick and not raise."""
        shown = " ".join(what[: 4 * _SHOWN].split())
        account = Account(self, owner, shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…", end)
        with self._lock:
            self._accounts[account] = None
            self.used_bytes += account.bytes
        return account

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._accounts

    @property
    def ending_bytes(self) -> int:
        """What those have who were told to end and have not yet: it is about to be free."""
        with self._lock:
            return sum(account.bytes for account in self._accounts if account.ended is not None)

    def draw(self, account: Account, total_bytes: int) -> int:
        """See `Account.draw`."""
        wanted = -(-total_bytes // FREE_BYTES) * FREE_BYTES
        told: list[Account] = []
        try:
            with self._lock:
                self._make_room(account, wanted, told)
                self.used_bytes += wanted - account.bytes
                account.bytes = wanted
        finally:
            self._tell(told, account)
        return wanted

    def give_back(self, account: Account, total_bytes: int) -> int:
        """See `Account.give_back`."""
        kept = max(FREE_BYTES, -(-total_bytes // FREE_BYTES) * FREE_BYTES)
        with self._lock:
            if account.ended is None and account.is_open and kept < account.bytes:
                self.used_bytes -= account.bytes - kept
                account.bytes = kept
        return account.bytes

    def close(self, account: Account) -> None:
        """See `Account.close`."""
        with self._lock:
            if account.is_open:
                account.is_open = False
                del self._accounts[account]
                if account.ended is None:
                    self.used_bytes -= account.bytes

    def end_largest(self, why: str) -> str | None:
        """Tell whoever has the most to end, if that is worth it; its name."""
        told: list[Account] = []
        with self._lock:
            owner, size_bytes = self._largest()
            if owner is None or size_bytes < HEAVY_BYTES:
                return None
            self._end(owner, f"it has {_mib(size_bytes)}, the most of all, and {why}", told)
        self._tell(told)
        return told[0].name

    # With the lock

    def _make_room(self, account: Account, wanted: int, told: list[Account]) -> None:
        if account.ended is not None:
            raise account.ended
        assert account.is_open, "it has ended"
        more = wanted - account.bytes
        if more <= 0:
            return
        if self.is_short and account.bytes <= HEAVY_BYTES < wanted:
            why = f"it needs {_mib(wanted)} and the process is short of memory, with {self.setting} nearly used up"
            self._refuse(account, why, told)
        while self.used_bytes + more > self.limit_bytes:
            owner, size_bytes = self._largest()
            asks = more + sum(one.bytes for one in self._live() if one.owner == account.owner)
            together = (
                f"all that runs needs {_mib(self.used_bytes + more)} together, of {_mib(self.limit_bytes)} that "
                f"{self.setting} leaves for it"
            )
            if owner is None or owner == account.owner or size_bytes <= asks:
                self._refuse(account, f"it needs {_mib(asks)}, the most of all, and {together}", told)
            self._end(owner, f"it has {_mib(size_bytes)}, the most of all, and {together}", told)

    def _refuse(self, account: Account, why: str, told: list[Account]) -> NoReturn:
        self._end(account.owner, why, told)
        assert account.ended is not None
        raise account.ended

    def _end(self, owner: str, why: str, told: list[Account]) -> None:
        for account in [one for one in self._live() if one.owner == owner]:
            account.ended = MemoryShortError(account.name, why, self.setting)
            self.used_bytes -= account.bytes
            told.append(account)
        self.ended += 1

    def _largest(self) -> tuple[str | None, int]:
        sizes: dict[str, int] = {}
        for account in self._live():
            sizes[account.owner] = sizes.get(account.owner, 0) + account.bytes
        owner = max(sizes, key=sizes.__getitem__, default=None)
        return owner, 0 if owner is None else sizes[owner]

    def _live(self) -> list[Account]:
        return [account for account in self._accounts if account.ended is None]

    # Without it

    @staticmethod
    def _tell(told: list[Account], asks: Account | None = None) -> None:
        """Whoever asks hears of it by the error."""
        for owner in dict.fromkeys(account.owner for account in told):
            errors = [account.ended for account in told if account.owner == owner]
            _log.warning("memory is short: the largest goes", error=str(errors[0]))
        for account in told:
            if account is not asks:
                account.tell()


def _nobody(_: MemoryShortError) -> None:
    """Is told when an account is closed in the moment in which it is to end."""


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"
