"""Settings that are fine each by itself and make no sense together."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conflict:
    """Which settings, and the rule they break."""

    names: tuple[str, ...]
    rule: str


class ConflictError(ValueError):
    """All of them at once; pydantic carries it to whoever loads the settings."""

    def __init__(self, conflicts: Iterable[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__("; ".join(conflict.rule for conflict in self.conflicts))


def at_most(low: str, low_value: float, high: str, high_value: float) -> Iterable[Conflict]:
    """A conflict when the low one is above the high one."""
    if low_value > high_value:
        yield Conflict((low, high), f"{low} must not be above {high}")


def below(low: str, low_value: float, high: str, high_value: float) -> Iterable[Conflict]:
    """A conflict when the low one is not below the high one."""
    if low_value >= high_value:
        yield Conflict((low, high), f"{low} must be below {high}")
