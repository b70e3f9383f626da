"""An engine's process that ended while somebody waited for its answer."""

import signal
from typing import Final

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

_PERHAPS: Final = {
    signal.SIGKILL: " (perhaps by the kernel, for want of memory)",
    signal.SIGABRT: " (it met what it could not go on with, perhaps want of memory)",
}


class EngineDiedError(QuarterdeckError):
    """The query, a file or the machine did that. Another worker's try shows which: what ended two engines is at fault,
    and whoever gives out works gives it to nobody else."""

    def __init__(self, how: str, with_its_host: bool = False) -> None:
        super().__init__(
            ErrorCode.UNAVAILABLE,
            "the query got no answer",
            f"the engine process {how} while it ran this query",
            "see whether one of its files is damaged; report it, with the query, if none is",
            retryable=True,
        )
        self.args = (how, with_its_host)  # from which copy and pickle make it anew
        self.ended_its_engine: Final = not with_its_host
        """This query, and no other, ran in it. Engines that went because their host did went for no query's sake."""


def how_it_ended(status: int) -> str:
    """From what `os.waitpid` tells.

    >>> how_it_ended(11), how_it_ended(256)
    ('ended by SIGSEGV', 'ended with exit code 1')
    """
    number = status & 0x7F
    if not number:
        return f"ended with exit code {status >> 8}"
    try:
        known = signal.Signals(number)
    except ValueError:
        return f"ended by signal {number}"
    return f"ended by {known.name}{_PERHAPS.get(known, '')}"
