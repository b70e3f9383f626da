"""How a run ended, and what it met on the way; the same for everything that is played."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from quarterdeck.core.ids import WorkId
from quarterdeck.simulation.trace import Trace


class AnyScenario(Protocol):
    """What is played: data, drawn from a seed."""

    @property
    def seed(self) -> int: ...

    def headline(self) -> str:
        """Who takes part, in a line."""
        ...

    def parts(self) -> tuple[object, ...]:
        """What is asked, and what goes wrong."""
        ...

    def to_json(self) -> str: ...


ScenarioT_co = TypeVar("ScenarioT_co", bound=AnyScenario, covariant=True)


@dataclass(slots=True)
class PlayOutcome(Generic[ScenarioT_co]):
    scenario: ScenarioT_co
    trace: Trace
    violation: str | None = None
    work_id: WorkId | None = None
    """What the violation is about, if it is a work of a crew."""
    steps: int = 0
    """Callbacks run."""
    virtual_s: float = 0.0
    works: int = 0
    moves: Counter[tuple[StrEnum, StrEnum]] = field(default_factory=Counter[tuple[StrEnum, StrEnum]])
    faults: Counter[str] = field(default_factory=Counter[str])
    ends: Counter[str] = field(default_factory=Counter[str])
