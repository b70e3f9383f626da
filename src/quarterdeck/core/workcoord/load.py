"""How many attempts of each kind somebody has, and whether there is room for one more.

Each kind has a place of its own. Of the first of each kind one is charged together, and so is everything beyond the
first: with a limit of 1 there is room for one attempt of every kind, with a limit of n for n of one kind, and for no
more than n - 1 beyond the first of each. So a kind that takes long never takes the last place from the others.

Both sides reckon with this, for credit and for slots. It has no meaning of its own for "running" or "outstanding".
"""

from typing import Final, TypeVar

from quarterdeck.core.workcoord.kinds import WorkKind

T = TypeVar("T")

_LIGHT_IN_A_ROW: Final = 4
"""Turns that light works have while others wait, before one of these has its turn."""


class Load:
    """`charged` is what counts against a limit.

    >>> load = Load()
    >>> for kind in (WorkKind("leaf"), WorkKind("leaf"), WorkKind("scan")):
    ...     load.add(kind)
    >>> load.total, load.charged
    (3, 2)
    """

    __slots__ = ("_of_kind", "charged", "total")

    def __init__(self) -> None:
        self._of_kind: dict[WorkKind, int] = {}
        self.total = 0
        self.charged = 0

    def of_kind(self, kind: WorkKind) -> int:
        return self._of_kind.get(kind, 0)

    def has_room(self, kind: WorkKind, limit: int) -> bool:
        """Whether one more of a kind keeps to the limit."""
        charged = self.charged
        return charged < limit or (charged == limit > 0 and kind not in self._of_kind)

    def add(self, kind: WorkKind) -> None:
        number = self._of_kind.get(kind, 0)
        if number or not self.total:
            self.charged += 1
        self._of_kind[kind] = number + 1
        self.total += 1

    def remove(self, kind: WorkKind) -> None:
        number = self._of_kind[kind] - 1
        self.total -= 1
        if number:
            self._of_kind[kind] = number
            self.charged -= 1
        else:
            del self._of_kind[kind]
            if not self.total:
                self.charged = 0

    def clear(self) -> None:
        self._of_kind.clear()
        self.total = self.charged = 0


class LightFirst:
    """Whose turn it is in a line: that of light works, and now and then that of the others.

    >>> turns = LightFirst()
    >>> for _ in range(5):
    ...     first, _ = turns.order("light", "other")
    ...     turns.had(is_light=first == "light")
    ...     print(first, end=" ")
    light light light light other
    """

    __slots__ = ("_in_a_row",)

    def __init__(self) -> None:
        self._in_a_row = 0

    def order(self, light: T, others: T) -> tuple[T, T]:
        """The two, the one first whose turn it is."""
        return (light, others) if self._in_a_row < _LIGHT_IN_A_ROW else (others, light)

    def had(self, *, is_light: bool) -> None:
        """One of them had its turn."""
        self._in_a_row = self._in_a_row + 1 if is_light else 0
