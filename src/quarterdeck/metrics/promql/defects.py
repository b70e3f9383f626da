"""Mistakes of ours, told from what may pass.

An exception that nobody raised on purpose is deterministic: the same query over the same samples meets it again, on
whichever worker. So it is final, and says which operation met it. What may pass stays what it is: the system's errors,
of files above all, too little memory, and a caller that has gone.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.metrics.promql.errors import DefectError
from quarterdeck.metrics.promql.kernels.threads import Stopped

PASSING: Final = (QuarterdeckError, Stopped, OSError, MemoryError)
"""What was raised on purpose, and what retrying may cure."""

_LONGEST: Final = 300
"""Characters that are told of an operation, and of what it met."""


@contextmanager
def named_defects(doing: Callable[[], str]) -> Generator[None]:
    """What breaks within the block, and has no name yet, gets one."""
    try:
        yield
    except PASSING:
        raise
    except Exception as error:
        raise defect(doing(), error) from error


def defect(doing: str, error: Exception) -> DefectError:
    """What is told of a mistake.

    >>> print(defect("rate", KeyError("up")).why)
    rate failed with KeyError: 'up', which is a defect of Quarterdeck
    """
    text = str(error)
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return DefectError(_shown(doing), _shown(reason))


def _shown(text: str) -> str:
    """A selector may be as long as a query, and an exception may quote an array."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
