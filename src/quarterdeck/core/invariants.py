"""How the machines report that something is true which must never be."""

from collections.abc import Iterable
from typing import TypeAlias

Claim: TypeAlias = tuple[bool, str, tuple[object, ...]]
"""Whether it holds, and what to say if not: put into words only then, because claims are checked after every step."""


class InvariantError(AssertionError):
    """A machine's records contradict each other: a bug of ours."""


def insist(claims: Iterable[Claim]) -> None:
    """Raises if any claim does not hold, naming all that do not."""
    broken = [words % about for holds, words, about in claims if not holds]
    if broken:
        raise InvariantError("; ".join(broken))
