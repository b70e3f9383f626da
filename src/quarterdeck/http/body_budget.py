"""`BodyBudget`: the memory that the bodies of all requests together may use until they are answered.

Small bodies do not count, so that whoever fills the budget does not keep ordinary requests out.
"""

from typing import Final

FREE_BYTES: Final = 8 * 1024
"""Of each body. Many times an ordinary query; times the most connections it is what a budget allows besides."""


class BodyBudget:
    """Shared by all connections of a server."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes: Final = limit_bytes
        self.used_bytes = 0
        self.refused = 0
        """Requests whose body had no room."""

    def take(self, held_bytes: int, more_bytes: int) -> bool:
        """Room for more of a body of which so much is held; False when there is none."""
        wanted_bytes = counted(held_bytes + more_bytes) - counted(held_bytes)
        if self.used_bytes + wanted_bytes > self.limit_bytes:
            self.refused += 1
            return False
        self.used_bytes += wanted_bytes
        return True

    def give_back(self, held_bytes: int) -> None:
        """Everything that was taken for a body."""
        self.used_bytes -= counted(held_bytes)


def counted(held_bytes: int) -> int:
    """What of a body counts.

    >>> counted(100), counted(10_000)
    (0, 1808)
    """
    return max(0, held_bytes - FREE_BYTES)
