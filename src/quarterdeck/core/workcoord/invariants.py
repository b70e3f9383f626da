"""How the machines report that something is true which must never be."""

from collections.abc import Iterable


class InvariantError(AssertionError):
    """A machine's records contradict each other: a bug of ours."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__("; ".join(broken))
        self.broken = broken


def insist(claims: Iterable[tuple[bool, str]]) -> None:
    """Raises if any claim does not hold, naming all that do not."""
    broken = [claim for holds, claim in claims if not holds]
    if broken:
        raise InvariantError(broken)
