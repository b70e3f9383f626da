"""What the parts of one process have for each other: a search recruits from the recruiter of its own process.

A part offers when it is made, under a type; who needs it asks for that type. So a capability knows of another only what
it imports anyway, and a process knows nothing of either.
"""

from typing import TypeVar

T = TypeVar("T")


class Offers:
    def __init__(self) -> None:
        self._offered: dict[type[object], object] = {}

    def put(self, kind: type[T], value: T) -> None:
        """
        >>> offers = Offers()
        >>> offers.put(int, 7)
        >>> offers.get(int), offers.get(str)
        (7, None)
        """
        if kind in self._offered:
            raise ValueError(f"two parts of a process offer {kind.__name__}")
        self._offered[kind] = value

    def get(self, kind: type[T]) -> T | None:
        """None when no part of this process has it."""
        found = self._offered.get(kind)
        assert found is None or isinstance(found, kind)
        return found
